"""The paper's scripts on small random models: their own arithmetic, and that each runs from videos to its file."""

import argparse
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import ablation
import attention
import common
import figures
import latency
import numpy as np
import pytest
import reconstruction
import scaling
import strategies
import torch

import machine
import models
import results
from adaptok import Codec
from adaptok.allocation.truth import Truth, block_loss
from adaptok.bundle import build
from adaptok.config import Geometry
from adaptok.evaluation import Clip, Row
from adaptok.evaluation.result import Estimate
from adaptok.evaluation.settings import Point
from adaptok.training import GeneratorTraining, ScorerTraining, TokenizerTraining
from adaptok.training.checkpoint import Progress, RunFolder
from tiny_models import random_video, tiny_bundle, tiny_config

sys.path.append(str(Path(__file__).parents[1] / "evaluation"))
from evaluation_makers import make_cheap, make_videos

GEOMETRY = Geometry(frames=12, height=32, width=32, patch_frames=2, patch_size=8, blocks=3, tokens_per_block=16)


def row(values: list[float]) -> Row:
    mean = float(np.mean(values))
    return Row(
        Point("ipal", 1.0), 1.0, 1.0, 0, {"lpips": Estimate(mean, mean, mean)}, {"lpips": tuple(values)}, None, None
    )


def clips(count: int) -> tuple[Clip, ...]:
    return tuple(Clip(f"v{i}", 0, Fraction(24)) for i in range(count))


@pytest.fixture(scope="module")
def codec() -> Codec:
    config = tiny_config(GEOMETRY, depth=1)
    assert config.scorer is not None
    # LPIPS would need weights from the network.
    return Codec(tiny_bundle(replace(config, scorer=replace(config.scorer, metric="mse")), dtype=torch.float32))


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_videos(tmp_path_factory.mktemp("paper") / "videos", 2, frames=13)


@pytest.fixture
def line(codec: Codec, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options for saved small models, with networks and reports that cost nothing and results that stay here."""
    make_cheap(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr("adaptok.evaluation.run.to_html", lambda _: "")
    monkeypatch.setattr(common, "RESAMPLES", 20)
    monkeypatch.setattr(figures, "SHOWN", 1)
    monkeypatch.setattr(strategies, "SCOPES", ("index",))
    monkeypatch.setattr(reconstruction, "REFERENCES", ())
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(common, "IMAGES", tmp_path / "images")
    codec.bundle.save(tmp_path / "runs" / "scorer-perceptual" / "best")
    whole = build(replace(models.causal(codec.bundle.config), scorer=None))
    for name in ("causaltok", "causaltok-raster"):
        whole.save(tmp_path / "runs" / name / "best")
    return ["--data", str(videos), "--runs", str(tmp_path / "runs"), "--batch", "2", "--metrics", "psnr", "lpips"]


def test_equal_quality_lies_between_budgets_on_the_logarithm() -> None:
    assert reconstruction.tokens_for([32, 128], [0.4, 0.2], 0.3, lower_is_better=True) == pytest.approx(64)
    assert reconstruction.tokens_for([32, 128], [18.0, 22.0], 19.0, lower_is_better=False) == pytest.approx(32 * 2**0.5)


def test_equal_quality_knows_both_ends() -> None:
    assert reconstruction.tokens_for([32, 128], [0.4, 0.2], 0.5, lower_is_better=True) == 32
    assert reconstruction.tokens_for([32, 128], [0.4, 0.2], 0.1, lower_is_better=True) is None
    bumpy = reconstruction.tokens_for([8, 16, 32], [0.2, 0.5, 0.3], 0.25, lower_is_better=True)
    assert bumpy == 8, "the first place that is good enough"


def test_a_paired_difference_is_surer_than_the_values_it_is_of() -> None:
    noise = np.random.default_rng(0).normal(0.3, 0.1, 40)
    mean, low, high = common.paired(row((noise - 0.01).tolist()), row(noise.tolist()), "lpips", clips(40))
    assert mean == pytest.approx(-0.01)
    assert low == pytest.approx(-0.01)
    assert high == pytest.approx(-0.01), "a constant difference has no spread, however different the clips"


def test_a_paired_difference_without_effect_includes_zero() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(0.3, 0.1, (2, 60))
    _, low, high = common.paired(row(one.tolist()), row(other.tolist()), "lpips", clips(60))
    assert low < 0 < high


def test_fvd_is_paired_by_the_same_resamples() -> None:
    shared = np.random.default_rng(0).normal(0, 50, 200)

    def of(value: float) -> Row:
        estimate = {"fvd": Estimate(value, value, value)}
        return replace(row([0.0]), estimates=estimate, fvd_drawn=tuple((value + 10 + shared).tolist()))

    assert common.paired(of(300.0), of(280.0), "fvd", clips(9)) == pytest.approx([20, 20, 20])


@pytest.mark.parametrize("quantile", [0.0, 0.3, 0.7, 1.0])
def test_the_sweep_finds_what_brute_force_finds(codec: Codec, quantile: float) -> None:
    video = random_video(GEOMETRY, 3).float()
    loss, tokenizer = block_loss("mse"), codec.bundle.tokenizer
    with torch.inference_mode():
        encoding = tokenizer.encode(video)
        lengths = codec.bundle.scorer.lengths
        threshold = float(Truth(tokenizer, encoding, video, lengths, loss).once().quantile(quantile))
        found = latency.threshold_search(codec.bundle, video, loss, threshold, latency.swept)
        for clip in range(3):
            before: list[int] = []
            for k in range(GEOMETRY.blocks):
                part = slice(k * GEOMETRY.block_frames, (k + 1) * GEOMETRY.block_frames)
                for length in lengths:
                    kept = torch.tensor([[*before, length]])
                    shown, _ = tokenizer.decode_blocks(encoding.codes[clip, None, : k + 1], kept, None)
                    if float(loss(shown[:, :, part].clamp(0, 1), video[clip, None, :, part])) <= threshold + 1e-7:
                        break
                before.append(length)
            assert found[clip].tolist() == before


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_bisection_is_the_sweep_where_losses_fall(codec: Codec, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    video = random_video(GEOMETRY, 8).float()
    lengths = tuple(range(1, count + 1))
    pace = torch.rand(8, generator=torch.Generator().manual_seed(count))

    def losses(kept: torch.Tensor) -> torch.Tensor:
        return 1 - pace[:, None] * kept / count

    truth = Truth(codec.bundle.tokenizer, codec.bundle.tokenizer.encode(video), video, lengths, block_loss("mse"))
    monkeypatch.setattr(truth, "score", lambda _block, _memory: losses(torch.tensor(lengths)[None]))
    monkeypatch.setattr(latency, "loss_at", lambda _truth, _block, _memory, kept: losses(kept)[:, 0])
    for threshold in (-1.0, 0.3, 0.6, 0.9, 2.0):
        swept = latency.swept(truth, 0, None, threshold)
        assert torch.equal(latency.bisected(truth, 0, None, threshold), swept)


def test_a_loss_at_own_lengths_is_the_column_of_that_length(codec: Codec) -> None:
    video = random_video(GEOMETRY, 3).float()
    with torch.inference_mode():
        encoding = codec.bundle.tokenizer.encode(video)
        truth = Truth(codec.bundle.tokenizer, encoding, video, (2, 4, 6), block_loss("mse"))
        scores = truth.score(0, None)
        found = latency.loss_at(truth, 0, None, torch.tensor([[2], [6], [4]]))
    assert torch.allclose(found, scores[torch.arange(3), torch.tensor([0, 2, 1])], atol=1e-6)


@pytest.mark.parametrize("preset", ["tiny", "l"])
def test_tokenizers_differ_in_nothing_but_what_is_compared(preset: str) -> None:
    options = models.parse(["--data", "videos/manifest.csv", "--preset", preset])
    jobs = {job.name: job.settings for job in models.jobs(options)}
    ours, causal = jobs["adaptok"], jobs["causaltok"]
    assert isinstance(ours, TokenizerTraining)
    assert isinstance(causal, TokenizerTraining)
    assert replace(causal, model=ours.model, tail_drop=ours.tail_drop) == ours
    g = causal.model.tokenizer.geometry
    assert 2 * g.tokens_per_block == ours.model.tokenizer.geometry.tokens_per_block
    assert causal.model.tokenizer.lengths.law == "full"
    assert causal.tail_drop.at(10**6) == 0
    raster = jobs.get("causaltok-raster")
    assert (raster is not None) == causal.start.aligned == (preset == "tiny")  # plain weights have no order to change
    if isinstance(raster, TokenizerTraining):
        assert raster != causal == replace(raster, start=causal.start)
    for size in models.SIZES[preset]:
        assert replace(jobs[size], model=ours.model) == ours
    scorers = [job for name, job in jobs.items() if name.startswith("scorer-")]
    assert (
        len(
            {
                replace(job, scorer=replace(job.scorer, metric="mse"))
                for job in scorers
                if isinstance(job, ScorerTraining)
            }
        )
        == 1
    )
    assert len(scorers) == 4


def test_jobs_side_by_side_wait_for_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    options = models.parse(["--data", "videos/manifest.csv", "--jobs", "3"])
    jobs, begun, made = models.jobs(options), [], []
    together = threading.Barrier(3, timeout=30)

    def make(job: models.Job, _: argparse.Namespace) -> None:
        assert set(job.needs) <= set(made)
        begun.append(job.name)
        if len(begun) <= 3:
            together.wait()
        made.append(job.name)

    monkeypatch.setattr(models, "make", make)
    models.make_all(jobs, options)
    assert sorted(made) == sorted(job.name for job in jobs)


def test_what_needs_a_failed_job_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    options = models.parse(["--data", "videos/manifest.csv", "--jobs", "2"])
    made = []

    def make(job: models.Job, _: argparse.Namespace) -> None:
        if job.name == "adaptok":
            raise ValueError("no videos")
        made.append(job.name)

    monkeypatch.setattr(models, "make", make)
    with pytest.raises(ValueError, match="no videos"):
        models.make_all(models.jobs(options), options)
    assert not [name for name in made if "scorer" in name or "adaptive" in name]


def test_generators_may_learn_from_other_videos_than_tokenizers() -> None:
    line = ["--data", "videos/manifest.csv", "--generator-data", "actions", "--stride", "3"]
    line += ["--generator-set", "batch=5", "--generator-set", "run.seed=3"]
    jobs = {job.name: job for job in models.jobs(models.parse(line))}
    for tokens, per_block in {"adaptive": "32", "fewer": "21", "fixed": "32", "causaltok": "32"}.items():
        command = jobs[f"tokens-{tokens}"].command
        assert command[command.index("--tokens-per-block") + 1] == per_block
        assert command[:2] == ("tokenize", "actions")
        assert command[command.index("--stride") + 1] == "3"
        for kind in ("ar", "fp"):
            settings = jobs[f"{kind}-{tokens}"].settings
            assert isinstance(settings, GeneratorTraining)
            assert settings.batch == 5
            assert settings.run.seed == 3
    ours = jobs["adaptok"].settings
    assert isinstance(ours, TokenizerTraining)
    assert f"{ours.data.source}" == "videos/manifest.csv"


def test_attention_adds_up_and_sees_only_its_own_block(codec: Codec) -> None:
    video = random_video(GEOMETRY, 2).float()
    maps = attention.over_patches(codec.bundle.tokenizer, video, block=1)
    assert maps.shape == (2, GEOMETRY.tokens_per_block, *GEOMETRY.grid)
    assert torch.allclose(maps.flatten(2).sum(dim=-1), torch.ones(2, GEOMETRY.tokens_per_block))
    later = video.clone()
    later[:, :, 2 * GEOMETRY.block_frames :] = 0
    assert torch.allclose(attention.over_patches(codec.bundle.tokenizer, later, block=1), maps, atol=1e-6)
    even = torch.full((1, 1, *GEOMETRY.grid), 1 / GEOMETRY.patches_per_block)
    assert float(attention.effective_patches(even)) == pytest.approx(GEOMETRY.patches_per_block)


SCRIPTS: dict[str, tuple[Callable[[], None], list[str], set[str]]] = {
    "reconstruction": (reconstruction.main, ["--metrics", "psnr", "fvd"], {"reconstruction", "equal quality"}),
    "ablation": (ablation.main, ["--metrics", "psnr", "fvd"], {"ablation", "differences"}),
    "strategies": (strategies.main, ["--skip", "ilp"], {"strategies", "ipal less fixed", "scopes"}),
    "latency": (
        latency.main,
        ["--sizes", "1", "2", "--repeats", "1", "--batches"],
        {"latency", "parts", "blocks", "tokens"},
    ),
    "figures": (figures.main, [], set(figures.FIGURES)),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_run_from_videos_to_their_file_and_onto_the_page(
    name: str, line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, more, tables = SCRIPTS[name]
    monkeypatch.setattr(sys, "argv", [f"benchmarks/paper/{name}.py", *line, *more])
    main()
    result = json.loads((tmp_path / "results" / "paper" / f"{name}.json").read_text())
    assert set(result["tables"]) == tables
    assert result["command"].startswith(f"python benchmarks/paper/{name}.py")
    text = results.section(name, "tiny", tmp_path / "results" / "paper", tmp_path / "images" / "paper")
    for head in tables:
        assert f"**{head}**" in text


def test_the_ablation_tells_orders_apart(line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ablation.py", *line, "--label", "mine"])
    ablation.main()
    assert not (tmp_path / "results" / "paper" / "ablation.json").exists(), "that of another set of models"
    tables = json.loads((tmp_path / "results" / "paper" / "ablation_mine.json").read_text())["tables"]
    found = [(row["order"], row["sampler"], row["scorer"], row["budget"]) for row in tables["ablation"]]
    plain = [("coarse to fine", False, False), ("raster", False, False)]
    assert found == [(*which, b) for b in (8, 4) for which in (*plain, *(("coarse to fine", True, s) for s in (0, 1)))]
    assert len(tables["differences"]) == 6


def test_a_run_that_was_cut_is_not_measured(codec: Codec, tmp_path: Path) -> None:
    best = tmp_path / "run" / "best"
    assert not common.trained(best)
    codec.bundle.save(best)
    assert common.trained(best), "a model that somebody brought"
    folder = RunFolder(tmp_path / "run")
    folder.write_recipe("run: {steps: 8}")
    for step in (4, 8):
        folder.save(codec.bundle, {}, Progress(step=step))
        assert common.trained(best) == (step == 8)


def test_models_of_one_table_are_compared(line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [f"A={tmp_path}/runs/causaltok/best", f"B={tmp_path}/runs/scorer-perceptual/best"]
    monkeypatch.setattr(sys, "argv", ["scaling.py", *line, "--models", *given])
    scaling.main()
    tables = json.loads((tmp_path / "results" / "paper" / "scaling.json").read_text())["tables"]
    rows, less = tables["scaling"], tables["less the smallest"]
    assert [found["model"] for found in rows] == ["A", "A", "B", "B"]
    assert rows[0]["parameters"] < rows[2]["parameters"]
    assert [found["model"] for found in less] == ["B", "B"]
    for found, one, other in zip(less, rows[2:], rows, strict=False):
        difference, low, high = found["psnr"]
        assert difference == pytest.approx(one["psnr"][0] - other["psnr"][0], abs=1e-3)
        assert low <= difference <= high


def test_the_page_keeps_its_prose_and_invents_nothing(tmp_path: Path) -> None:
    page = "# Title\n\nBefore.\n\n<!-- scaling -->\nold table\n<!-- /scaling -->\n\nAfter, by hand.\n"
    new = results.updated(page, "tiny", tmp_path, tmp_path)
    assert new.startswith("# Title\n\nBefore.\n")
    assert new.endswith("After, by hand.\n")
    assert "old table" not in new
    assert "Not measured yet" in new
    assert results.updated(new, "tiny", tmp_path, tmp_path) == new


def test_quoted_numbers_stand_as_printed() -> None:
    assert common.published("ablation")[4]["lpips"] == "0.170"
    assert common.published("no such table") == []


def test_times_are_ratios_to_the_first_way() -> None:
    rows = latency.in_turns({name: lambda: torch.ones(2, 3) for name in ("a", "b")}, repeats=3, videos=2)
    assert rows[0]["times"] == [1.0, 1.0, 1.0]
    assert rows[1]["tokens"] == 3.0
