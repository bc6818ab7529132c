"""Finished work is never done again: killed runs, further metrics and budgets, other models, shards."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluation_makers import PIXELS, SETTINGS, CheapI3D, files, small_codec

from adaptok import Codec
from adaptok.evaluation import Evaluation, Shard, evaluate
from adaptok.evaluation.measuring import Meter


def test_the_same_seed_gives_the_same_files(
    found: Evaluation, out: Path, codec: Codec, videos: Path, tmp_path: Path, cheap: None
) -> None:
    evaluate(codec, videos, tmp_path / "again", SETTINGS)
    assert files(tmp_path / "again") == files(out)
    other = evaluate(codec, videos, tmp_path / "other", replace(SETTINGS, seed=1))
    assert [clip.start for clip in other.clips] != [clip.start for clip in found.clips]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Metrics in the order in which groups were measured by them."""
    calls: list[str] = []
    values = Meter.values

    def counted(self: Meter, metric: str, original: np.ndarray, shown: np.ndarray) -> object:
        calls.append(metric)
        return values(self, metric, original, shown)

    monkeypatch.setattr(Meter, "values", counted)
    return calls


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {here!r}]
from adaptok.evaluation import Settings, evaluate
from evaluation_makers import small_codec
settings = Settings(budgets=(4, 6), strategies=("fixed",), metrics=("psnr",), batch=2, resamples=20)
evaluate(small_codec(), {videos!r}, {out!r}, settings,
         progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL) if done == 3 else None)
"""


def test_a_killed_run_goes_on(codec: Codec, videos: Path, tmp_path: Path, cheap: None, measured: list[str]) -> None:
    here = Path(__file__).parent
    script = KILLED.format(tests=str(here.parent), here=str(here), videos=str(videos), out=str(tmp_path / "out"))
    killed = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert killed.returncode == -9
    assert not (tmp_path / "out" / "report.html").exists()
    settings = replace(PIXELS, budgets=(4, 6))
    evaluate(codec, videos, tmp_path / "out", settings)
    assert len(measured) == 3  # of six units, three were finished
    evaluate(codec, videos, tmp_path / "fresh", settings)
    assert files(tmp_path / "out") == files(tmp_path / "fresh")


def test_what_is_finished_is_not_computed_again(
    codec: Codec, videos: Path, tmp_path: Path, cheap: None, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    evaluate(codec, videos, out, PIXELS)
    before = files(out)
    measured.clear()
    evaluate(codec, videos, out, PIXELS)
    assert measured == []
    assert files(out) == before
    evaluate(codec, videos, out, replace(PIXELS, metrics=("psnr", "ssim")))
    assert measured == ["ssim"] * 3
    measured.clear()
    evaluate(codec, videos, out, replace(PIXELS, budgets=(4, 8)))
    assert measured == ["psnr"] * 3
    damaged = next((out / "units").rglob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:50])
    evaluate(codec, videos, out, PIXELS)
    assert files(out) == before


def test_features_of_the_originals_serve_every_model(codec: Codec, videos: Path, tmp_path: Path, cheap: None) -> None:
    settings = replace(PIXELS, metrics=("fvd",))
    evaluate(codec, videos, tmp_path / "one", settings)
    assert CheapI3D.calls == 10
    evaluate(codec, videos, tmp_path / "two", settings)
    assert CheapI3D.calls == 10
    evaluate(small_codec(seed=1), videos, tmp_path / "three", settings)
    assert CheapI3D.calls == 15


def test_shards_give_what_one_process_gives(out: Path, codec: Codec, videos: Path, tmp_path: Path, cheap: None) -> None:
    assert evaluate(codec, videos, tmp_path / "shards", SETTINGS, shard=Shard(1, 2)) is None
    assert not (tmp_path / "shards" / "report.html").exists()
    assert evaluate(codec, videos, tmp_path / "shards", SETTINGS, shard=Shard(0, 2)) is not None
    assert files(tmp_path / "shards") == files(out)


def test_shards_are_named_by_hand_or_by_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Shard.here() == Shard(0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert Shard.here() == Shard.parse("2/4") == Shard(2, 4)
    for text in ("4/4", "1", "a/2", "-1/2", "0/0"):
        with pytest.raises(ValueError, match="a shard is i/n with 0 <= i < n"):
            Shard.parse(text)
