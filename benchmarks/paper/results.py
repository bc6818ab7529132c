"""Results as a page: docs/results.md, its tables from the JSON files, its prose as people wrote it.

    python benchmarks/paper/results.py [--preset tiny]

What lies between `<!-- NAME -->` and `<!-- /NAME -->` is written anew: every table of results/paper/NAME.json that has
one, the paper's numbers below it, the command, the file and the pictures. All else on the page is left as it is. A
result that is not there is named as not measured yet.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from common import IMAGES, TableRows, cell, heads, place, title

import machine

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


def markdown(rows: TableRows) -> str:
    """A table."""
    columns = heads(rows)
    lines = ["| " + " | ".join(map(title, columns)) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(name, row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def section(name: str, preset: str, results: Path, images: Path) -> str:
    """What stands between the markers of one result."""
    path = results / f"{name}.json"
    if not path.is_file():
        return (
            f"*Not measured yet: there is no `{name}.json`; `python benchmarks/paper/{name}.py --data ...` writes it.*"
        )
    result = json.loads(path.read_text(encoding="utf-8"))
    parts = [_source(name, preset, result)]
    for head, rows in result["tables"].items():
        parts += [f"**{head}**", markdown(rows)]
        if head in result["quoted"]:
            parts += ["Quoted from the paper:", markdown(result["quoted"][head])]
        if (images / f"{head}.png").is_file():
            parts.append(f"![{head}](images/{images.name}/{head}.png)")
    return "\n\n".join(parts)


def _source(name: str, preset: str, result: dict[str, Any]) -> str:
    """Where the numbers come from."""
    link = f"../benchmarks/results/{place(preset)}/{name}.json"
    on = f"{result['machine']['cpu']}, {result['machine']['cores']} threads"
    counts = [f"{result[what]} {what}" for what in ("videos", "clips") if what in result]
    took = [f"{result['seconds']} s"] if "seconds" in result else []
    lines = [f"`{result['command']}` ([{name}.json]({link}); {', '.join([*counts, on, *took])})"]
    lines += [f"Note: {note}." for note in result.get("notes", [])]
    return "\n\n".join(lines)


def updated(page: str, preset: str, results: Path, images: Path) -> str:
    """The page with everything between markers written anew."""
    return re.sub(
        r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)",
        lambda found: f"{found[1]}\n{section(found[2], preset, results, images)}\n\n{found[3]}",
        page,
        flags=re.DOTALL,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    folder = place(options.preset)
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(updated(page, options.preset, machine.RESULTS / folder, IMAGES / folder), encoding="utf-8")


if __name__ == "__main__":
    main()
