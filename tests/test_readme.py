"""The README says what is true: its code runs, its commands exist, its tree is complete."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_six_lines_run_and_give_the_tables_second_line(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code.strip().splitlines()) == 6
    exec(code, {})
    found = float(capsys.readouterr().out.split("]")[-1])
    (row,) = re.findall(r"^\| 16 \| \d+ \| [\d.]+ \| ([\d.]+) \|", README, flags=re.MULTILINE)
    assert found == pytest.approx(float(row), abs=0.1)


def test_the_speed_table_is_the_committed_result() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "tokenizer_speed.json").read_text())
    for row in result["rows"].values():
        assert f"| **{row['ratio']:.2f}×** | {row['peak_mb']} MB, {row['dense_peak_mb']} MB |" in README
        assert row["ratio"] >= row["goal"]
        assert row["peak_mb"] < row["dense_peak_mb"]


def test_the_make_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make (\S+)", README, flags=re.MULTILINE)
    assert {"demo", "test"} <= set(named)
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_linked_files_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in link:
            assert (ROOT / link).exists(), link


def test_the_tree_is_complete() -> None:
    spec = importlib.util.spec_from_file_location("tree", ROOT / "docs" / "tree.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.updated(README) == README, "run python docs/tree.py"


def test_python_dash_m_works_too() -> None:
    result = subprocess.run([sys.executable, "-m", "adaptok", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("adaptok ")
