"""The command line as people use it."""

import subprocess
import sys
from pathlib import Path

import pytest

import adaptok


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "adaptok"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version() -> None:
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout == f"adaptok {adaptok.__version__}\n"


def test_help_lists_the_verbs() -> None:
    result = run("--help")
    assert result.returncode == 0
    assert "demo" in result.stdout


def test_the_demo_prints_a_table_and_says_where_to_look(tmp_path: Path) -> None:
    result = run("demo", "--threads", "1", "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    for tokens in ("192", "384", "768"):
        assert f" {tokens} " in result.stdout
    for name in ("tokens.png", "side_by_side.mp4", "index.html"):
        assert name in result.stdout
        assert (tmp_path / "out" / name).stat().st_size > 1000


def test_a_failure_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    for arguments, reason in ((("--model", "huge"), "huge is neither"), (("--video", "nowhere.mp4"), "nowhere.mp4")):
        result = run("demo", "--out", str(tmp_path / "out"), *arguments)
        assert result.returncode == 1
        assert result.stderr.startswith("adaptok: ")
        assert reason in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert not (tmp_path / "out").exists()


def test_wrong_usage_is_exit_code_2() -> None:
    result = run("dance")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_options_that_contradict_each_other_are_wrong_usage(tmp_path: Path) -> None:
    for options, reason in (
        (("--tokens-per-block", "8", "--tokens", "9"), "at most one of"),
        (("--threads", "0"), "--threads must be at least 1"),
        (("--raw", "axb"), "HEIGHTxWIDTH"),
        (("--raw", "4000000000x4000000000"), "at most 65535"),
    ):
        result = run("encode", "-", str(tmp_path / "x.adtk"), *options)
        assert (result.returncode, reason in result.stderr) == (2, True), result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("device", ["nonsense", "meta:x", "cuda:99"])
def test_a_device_that_is_not_there_is_one_line(tmp_path: Path, device: str) -> None:
    result = run("encode", "in.mp4", str(tmp_path / "x.adtk"), "--device", device)
    assert result.returncode == 1
    assert f"device {device!r} cannot be used here" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_comparison_is_made_of_files(tmp_path: Path) -> None:
    result = run("reconstruct", "-", str(tmp_path / "x.mp4"))
    assert result.returncode == 1
    assert "made of files" in result.stderr
