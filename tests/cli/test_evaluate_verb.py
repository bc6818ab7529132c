"""`adaptok evaluate`, as people use it."""

import csv
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from adaptok import cli
from adaptok.cli.evaluate import evaluate
from adaptok.config import Geometry
from adaptok.video import create_video
from tiny_models import tiny_bundle, tiny_config

GEOMETRY = Geometry(frames=4, height=16, width=16, patch_frames=2, patch_size=8, blocks=2, tokens_per_block=4)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "test"
    tiny_bundle(tiny_config(GEOMETRY, depth=1), dtype=torch.float32).save(folder)
    return folder


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    rng = np.random.default_rng(0)
    for name in "abc":
        with create_video(
            folder / f"{name}.mp4", height=16, width=20, fps=Fraction(10), time_base=Fraction(1, 10)
        ) as writer:
            for pts in range(6):
                writer.write(rng.integers(0, 256, (16, 20, 3), dtype=np.uint8), pts)
    lines = ["file,split", "a.mp4,val", "b.mp4,train", "c.mp4,val", "gone.mp4,val"]
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def run(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command in this process; exit code, standard output, standard error."""
    monkeypatch.setitem(cli.VERBS, "evaluate", evaluate)
    monkeypatch.setenv("ADAPTOK_CACHE", str(tmp_path / "cache"))

    def command(*arguments: object) -> tuple[int, str, str]:
        given = ["evaluate", *map(str, arguments), "--model", str(model)]
        monkeypatch.setattr(sys, "argv", ["adaptok", *given])
        code = 0
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            try:
                cli.main()
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return command


QUICK = ("--metrics", "psnr", "--resamples", "10")


def test_a_folder(run: Run, videos: Path, tmp_path: Path) -> None:
    code, out, err = run(videos, tmp_path / "out", *QUICK, "--budgets", 2, 3.5, "--strategies", "fixed", "motion")
    assert code == 0, err
    assert "motion" in out
    assert f"report: {tmp_path}/out/report.html" in err
    lines = list(csv.DictReader((tmp_path / "out" / "evaluation.csv").read_text().splitlines()))
    assert [(line["method"], line["budget"]) for line in lines] == [
        ("fixed", "2.0"),
        ("fixed", "3.5"),
        ("motion", "2.0"),
        ("motion", "3.5"),
    ]
    assert {line["clips"] for line in lines} == {"3"}


def test_a_manifest_with_a_lost_file_warns_and_strict_fails(run: Run, videos: Path, tmp_path: Path) -> None:
    code, _, err = run(videos / "manifest.csv", tmp_path / "out", *QUICK)
    assert code == 0, err
    assert "adaptok: warning: 1 of 3 videos were skipped, see the report; the first: gone.mp4" in err
    code, _, err = run(videos / "manifest.csv", tmp_path / "out", *QUICK, "--strict")
    assert code == 1
    assert len(err.splitlines()) == 1
    assert "gone.mp4 does not exist" in err


def test_shards(run: Run, videos: Path, tmp_path: Path) -> None:
    parts = [run(videos, tmp_path / "out", *QUICK, "--batch", 1, "--shard", f"{i}/2") for i in range(2)]
    assert [code for code, _, _ in parts] == [0, 0]
    assert "part 0 of 2 is done; the results appear when all parts are" in parts[0][2]
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--metrics", "fvd"), "fvd needs clips of at least 9 frames, the model's have 4"),
        (("--metrics", "lpips"), "lpips needs frames of at least 31×31, the model's are 16×16"),
        (("--strategies", "best"), "unknown strategy 'best'"),
        ((*QUICK, "--budgets", "100"), "a budget of 100 tokens per block is outside 2 to 4"),
        ((*QUICK, "--shard", "2/2"), "a shard is i/n with 0 <= i < n, got 2/2"),
    ],
)
def test_a_failure_is_one_line(
    run: Run, videos: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = run(videos, tmp_path / "out", *arguments)
    assert code == 1
    assert err.startswith("adaptok: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_no_data(run: Run, tmp_path: Path) -> None:
    code, _, err = run(tmp_path / "nowhere", tmp_path / "out", *QUICK)
    assert code == 1
    assert err == f"adaptok: there are no data at {tmp_path}/nowhere\n"
