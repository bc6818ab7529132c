"""Writes the README's tree from the first line of every module's docstring: `python docs/tree.py`."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WALK = [
    "video",
    "blocks",
    "tokenizer",
    "allocation",
    "stream",
    "generation",
    "metrics",
    "training",
    "evaluation",
    "demo",
    "interop",
    "cli",
    "presets",
    "recipes",
    "models",
    "samples",
]  # the order in which a video passes
DATA = {
    "presets": "Model sizes as YAML",
    "recipes": "Training recipes as YAML",
    "models": "Trained weights that ship with the package",
    "samples": "A clip to try them on, with its credits",
}


def first_line(path: Path) -> str:
    """What a module says it is."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.splitlines()[0].rstrip(".")


def tree() -> str:
    """The package, folder after folder."""
    package = ROOT / "src" / "adaptok"
    lines = ["```", "src/adaptok/"]
    lines += [
        f"  {path.name:<18} {first_line(path)}" for path in sorted(package.glob("*.py")) if path.name != "__init__.py"
    ]
    for folder in (package / name for name in WALK):
        if not folder.is_dir():
            continue
        about = folder / "__init__.py"
        lines.append(f"  {folder.name + '/':<18} {DATA.get(folder.name) or first_line(about)}")
        lines += [f"    {path.name:<16} {first_line(path)}" for path in sorted(folder.glob("*.py")) if path != about]
    return "\n".join([*lines, "```"])


def updated(readme: str) -> str:
    """The README with its tree as it should be."""
    return re.sub(
        r"(<!-- tree -->\n).*?(<!-- /tree -->)", lambda m: f"{m[1]}\n{tree()}\n\n{m[2]}", readme, flags=re.DOTALL
    )


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
