"""Evaluation end to end on a small random model: numbers, files, resuming, sharing, and what can go wrong."""

import csv
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluation_makers import GEOMETRY, PIXELS, SETTINGS, small_codec

from adaptok import Budget, Codec
from adaptok.evaluation import Evaluation, evaluate
from adaptok.evaluation.clips import content_of, read_windows
from adaptok.metrics import psnr
from adaptok.training.listing import list_videos
from adaptok.video import to_video


def test_it_measures_what_the_codec_does(codec: Codec, videos: Path, tmp_path: Path, cheap: None) -> None:
    strategies = ("fixed", "ipal", "motion", "bithr", "bidelta", "ilp")
    settings = replace(PIXELS, strategies=strategies, batch=3)
    found = evaluate(codec, videos, tmp_path / "out", settings)
    for number, entry in enumerate(list_videos(videos, "val")):
        (window,) = read_windows(entry, content_of(entry), GEOMETRY, 1, 0)
        assert found.clips[number].start == window.start
        for strategy in strategies:
            tokens = codec.encode(window.images, Budget(per_block=4), strategy)
            row = found.row(strategy, 4)
            assert row.kept[number] == tuple(tokens.kept)
            shown = to_video(codec.decode(tokens))
            assert row.values["psnr"][number] == pytest.approx(psnr(to_video(window.images), shown).item(), abs=1e-3)


def test_a_budget_is_met_and_bits_are_tokens(found: Evaluation, codec: Codec) -> None:
    for row in found.rows:
        assert row.tokens <= row.point.budget * GEOMETRY.blocks
        assert row.bits_per_second == pytest.approx(row.tokens * codec.bits_per_token / (GEOMETRY.frames / 24))
        assert row.usage.counts.sum() == row.tokens * len(found.clips)
        assert 1 <= row.usage.perplexity <= row.usage.used <= found.codebook


def test_the_oracle_is_best_at_what_it_minimises(videos: Path, tmp_path: Path, cheap: None) -> None:
    """Clips of one block: with no block before it, a block's loss is what decoding said, and the optimum is one."""
    codec = small_codec(replace(GEOMETRY, frames=4, blocks=1))
    settings = replace(
        PIXELS,
        strategies=("fixed", "oracle"),
        scorings=("mse", "ssim"),
        metrics=("mse", "ssim"),
        scope="batch",
        batch=5,
    )
    found = evaluate(codec, videos, tmp_path / "out", settings)
    mse = {row.point.curve: row.estimates["mse"].value for row in found.rows}
    assert list(mse) == ["fixed", "oracle (mse)", "oracle (ssim)"]
    assert mse["oracle (mse)"] < min(mse["fixed"], mse["oracle (ssim)"])
    assert found.row("oracle", 4, "ssim").estimates["ssim"].value > found.row("fixed", 4).estimates["ssim"].value


def test_the_three_files_agree(found: Evaluation, out: Path) -> None:
    document = json.loads((out / "evaluation.json").read_text())
    lines = list(csv.DictReader((out / "evaluation.csv").read_text().splitlines()))
    page = (out / "report.html").read_text()
    assert len(document["rows"]) == len(lines) == len(found.rows) == 4
    for number, (row, line) in enumerate(zip(document["rows"], lines, strict=True)):
        assert (line["method"], float(line["budget"])) == (row["method"], row["budget"])
        assert float(line["tokens"]) == row["tokens"]
        for metric, estimate in row["metrics"].items():
            assert float(line[metric]) == estimate["value"] == found.rows[number].estimates[metric].value
            assert float(line[f"{metric}_low"]) == estimate["low"] <= estimate["value"]
            assert float(line[f"{metric}_high"]) == estimate["high"] >= estimate["value"]
        values = [clip["rows"][number]["psnr"] for clip in document["clips"]]
        assert row["metrics"]["psnr"]["value"] == pytest.approx(np.mean(values))
        assert f"{row['metrics']['psnr']['value']:.2f}" in page
    assert document["data"]["videos"] == 5
    assert "5 of 5 videos" in page


def test_the_report_needs_nothing_from_outside(found: Evaluation, out: Path) -> None:
    page = (out / "report.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"]{0,30})', page)
    # Four curves, tokens over time, the codebook; two best and two worst of five clips.
    assert [s.split(";")[0] for s in sources].count("data:image/svg+xml") == 6
    assert [s.split(";")[0] for s in sources].count("data:image/png") == 4
    assert all(s.startswith("data:image/") for s in sources)
    assert "<script" not in page
    assert "url(" not in page


def test_references_spend_what_tokens_spend(codec: Codec, videos: Path, tmp_path: Path, cheap: None) -> None:
    found = evaluate(codec, videos, tmp_path / "out", replace(PIXELS, references=("h264",)))
    row = found.row("h264", 4)
    assert row.kept is None
    # 60 bits are too few for any encoder: the truth is told.
    assert row.over == 5
    assert row.bits_per_second > found.row("fixed", 4).bits_per_second
    assert any(note.startswith("h264 cannot be made as small") for note in found.notes)


def test_real_clips(codec: Codec, shared: Path, tmp_path: Path, cheap: None) -> None:
    settings = replace(SETTINGS, videos=4, windows=2, budgets=(4,), scope="index", batch=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(codec, shared / "videos" / "manifest.csv", tmp_path / "out", settings)
    assert len(found.clips) == 8
    assert all(clip.video.startswith("val/") for clip in found.clips)
    row = found.row("ipal", 4)
    kept = np.array(row.kept)
    assert (kept.sum(axis=0) <= 4 * 8).all()  # blocks at the same place share a budget
    assert kept.sum(axis=1).std() > 0
    assert row.over == 0  # that some clips take more than their part is what sharing means
    assert not any("cannot be made" in note for note in found.notes)


@pytest.mark.network
def test_with_the_true_networks(codec: Codec, videos: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, videos=2, budgets=(4,), strategies=("fixed",), metrics=("lpips", "fvd"))
    found = evaluate(codec, videos, tmp_path / "out", settings)
    row = found.row("fixed", 4)
    assert row.estimates["fvd"].value > 0
    assert 0 < row.estimates["lpips"].value < 2
    assert found.notes[0].startswith("FVD: Fréchet distance from 2 samples of 400 dimensions")
