"""What can go wrong: unreadable videos, too few of them, a full disk."""

import errno
import importlib.util
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluation_makers import GEOMETRY, PIXELS, make_videos, small_codec

from adaptok import Codec
from adaptok.evaluation import SkippedVideosWarning, evaluate, reference
from adaptok.evaluation.measuring import PSNR_CAP, Meter
from adaptok.video import OutputError, VideoError


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    folder = make_videos(tmp_path / "spoilt", 3)
    (folder / "bad.mp4").write_bytes(b"not a video at all")
    make_videos(tmp_path / "short", 1, frames=5)
    (tmp_path / "short" / "v0.mp4").rename(folder / "short.mp4")
    return folder


def test_unreadable_videos_are_skipped_and_counted(codec: Codec, spoilt: Path, tmp_path: Path, cheap: None) -> None:
    with pytest.warns(SkippedVideosWarning, match="2 of 5 videos were skipped, see the report; the first: bad.mp4"):
        found = evaluate(codec, spoilt, tmp_path / "out", PIXELS)
    assert found.videos == 3
    assert [s.video for s in found.skipped] == ["bad.mp4", "short.mp4"]
    assert found.skipped[1].reason == "short.mp4 has 5 frames, a clip has 12"
    skipped = json.loads((tmp_path / "out" / "evaluation.json").read_text())["data"]["skipped"]
    assert [s["video"] for s in skipped] == ["bad.mp4", "short.mp4"]
    assert "2 videos skipped" in (tmp_path / "out" / "report.html").read_text()
    with pytest.raises(VideoError, match="bad.mp4"):
        evaluate(codec, spoilt, tmp_path / "out", PIXELS, strict=True)


def test_no_readable_video_is_an_error(codec: Codec, tmp_path: Path, cheap: None) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "bad.mp4").write_bytes(b"not a video at all")
    with pytest.raises(ValueError, match="none of the 1 videos .* can be evaluated: .*bad.mp4"):
        evaluate(codec, tmp_path / "data", tmp_path / "out", PIXELS)


def test_few_samples_are_said_in_the_report(codec: Codec, videos: Path, tmp_path: Path, cheap: None) -> None:
    found = evaluate(codec, videos, tmp_path / "out", replace(PIXELS, metrics=("fvd",), videos=3))
    (note,) = found.notes
    assert note.startswith("FVD: Fréchet distance from 3 samples of 6 dimensions: biased upwards")
    assert note in json.loads((tmp_path / "out" / "evaluation.json").read_text())["notes"]
    assert "biased upwards" in (tmp_path / "out" / "report.html").read_text()
    assert found.examples == ()


def test_fvd_needs_two_videos(codec: Codec, videos: Path, tmp_path: Path, cheap: None) -> None:
    found = evaluate(codec, videos, tmp_path / "out", replace(PIXELS, metrics=("psnr", "fvd"), videos=1))
    assert found.notes == ("FVD needs at least 2 videos, there is 1: it is left out",)
    assert found.metrics == ("psnr",)
    with pytest.raises(ValueError, match="FVD needs at least 2 videos, there is 1"):
        evaluate(codec, videos, tmp_path / "out", replace(PIXELS, metrics=("fvd",), videos=1))


def test_one_readable_video_leaves_fvd_out(codec: Codec, tmp_path: Path, cheap: None) -> None:
    data = make_videos(tmp_path / "data", 1)
    (data / "bad.mp4").write_bytes(b"not a video at all")
    with pytest.warns(SkippedVideosWarning):
        found = evaluate(codec, data, tmp_path / "out", replace(PIXELS, metrics=("psnr", "fvd"), windows=2))
    assert found.notes == ("FVD needs at least 2 videos, there is 1: it is left out",)
    assert len(found.clips) == 2


def test_an_exact_reconstruction_has_a_finite_psnr(cheap: None) -> None:
    clip = np.zeros((1, GEOMETRY.frames, GEOMETRY.height, GEOMETRY.width, 3), np.uint8)
    assert Meter(small_codec().bundle.tokenizer.quantizer.codebook.device).values("psnr", clip, clip) == PSNR_CAP


def test_a_full_disk_is_one_line(
    codec: Codec, videos: Path, tmp_path: Path, cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="^cannot write .*: No space left on device$"):
        evaluate(codec, videos, tmp_path / "out", PIXELS)
    monkeypatch.undo()
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write .*file/out"):
        evaluate(codec, videos, tmp_path / "file" / "out", PIXELS)


def test_without_matplotlib_nothing_is_begun(
    codec: Codec, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="the report's plots need matplotlib"):
        evaluate(codec, videos, tmp_path / "out", PIXELS)
    assert not (tmp_path / "out").exists()


def test_an_encoder_that_ffmpeg_lacks_is_left_out(
    codec: Codec, videos: Path, tmp_path: Path, cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference.av, "codecs_available", set())
    found = evaluate(codec, videos, tmp_path / "out", replace(PIXELS, references=("av1",)))
    assert found.notes == ("av1 is left out: the FFmpeg inside PyAV has no libsvtav1 or libaom-av1",)
    assert {row.point.method for row in found.rows} == {"fixed"}
