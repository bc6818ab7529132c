"""Whole small runs: what they leave on disk, and how they end when something is wrong."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from training_makers import TRAIN, lines, run_program, small_settings

from adaptok.bundle import build, open_bundle
from adaptok.training import ScorerTraining, load_recipe, train_scorer, train_tokenizer
from adaptok.training.checkpoint import Progress, RunFolder
from adaptok.training.finite import NotFinite
from adaptok.training.objective import TokenizerObjective
from adaptok.training.scorer_recipe import ScorerRecipe
from adaptok.video import OutputError

WHOLE = "stages=[{start: 0, blocks: 2, batch: 4}]"
"""Whole clips from the start, as runs from given weights have them."""


def test_a_run_leaves_models_metrics_and_pictures(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    outcome = train_tokenizer(small_settings(tmp_path, corpus), out)
    assert outcome.reason == "finished"
    assert outcome.progress.step == 8
    assert [line["step"] for line in lines(out, "train")] == list(range(1, 9))
    assert [line["step"] for line in lines(out, "val")] == [4, 8]
    assert [file.name for file in sorted((out / "pictures").iterdir())] == ["step-0000004.png", "step-0000008.png"]
    for name in ("last", "best"):
        bundle = open_bundle(out / name)
        assert bundle.scorer is None
        assert bundle.config.tokenizer == small_settings(tmp_path, corpus).model.tokenizer
    assert (out / "recipe.yaml").exists()


def test_time_is_up(corpus: Path, tmp_path: Path) -> None:
    settings = small_settings(tmp_path, corpus)
    outcome = train_tokenizer(settings, tmp_path / "run", max_minutes=0.0)
    assert outcome.reason == "time is up"
    assert outcome.progress.step == 1
    assert train_tokenizer(settings, tmp_path / "run", resume=True).progress.step == 8
    assert train_tokenizer(settings, tmp_path / "run", resume=True).reason == "finished"


def test_a_finished_run_is_not_overwritten(corpus: Path, tmp_path: Path) -> None:
    settings = small_settings(tmp_path, corpus, ("run.steps=1",))
    train_tokenizer(settings, tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run already"):
        train_tokenizer(settings, tmp_path / "run")


def test_nothing_to_resume(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to resume"):
        train_tokenizer(small_settings(tmp_path, corpus), tmp_path / "run", resume=True)


def test_a_loss_that_is_no_number_stops_with_step_names_and_checkpoint(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, calls = TokenizerObjective.forward, []

    def poisoned(self, video, conditions):  # type: ignore[no-untyped-def]
        loss, losses = forward(self, video, conditions)
        calls.append(1)
        return (loss * float("nan") if len(calls) == 4 else loss), losses

    monkeypatch.setattr(TokenizerObjective, "forward", poisoned)
    with pytest.raises(NotFinite, match=r"step 3: the loss is nan; the batch was .*\.mp4.*the state before"):
        train_tokenizer(small_settings(tmp_path, corpus), tmp_path / "run")
    _, progress = RunFolder(tmp_path / "run").load()
    assert progress.step == 3
    assert open_bundle(tmp_path / "run" / "last").tokenizer is not None


def test_a_gradient_that_is_no_number_is_not_applied(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, calls = TokenizerObjective.forward, []

    def poisoned(self, video, conditions):  # type: ignore[no-untyped-def]
        loss, losses = forward(self, video, conditions)
        calls.append(1)
        decoded = losses.value.reconstruction.video
        return (loss + (decoded - decoded).sum().sqrt() if len(calls) == 4 else loss), losses

    monkeypatch.setattr(TokenizerObjective, "forward", poisoned)
    with pytest.raises(NotFinite, match=r"step 3: the norm of the gradient is nan; the batch was .*\.mp4"):
        train_tokenizer(small_settings(tmp_path, corpus), tmp_path / "run")
    tensors, progress = RunFolder(tmp_path / "run").load()
    assert progress.step == 3
    assert all(value.isfinite().all() for value in tensors.values())


def test_a_discriminator_that_fails_leaves_the_tokenizer_as_it_was(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = ("losses.adversarial=0.3", "adversary={width: 16, depth: 1, heads: 2, start: 2}", "run.save_every=1")
    settings = small_settings(tmp_path, corpus, overrides)
    train_tokenizer(replace(settings, run=replace(settings.run, steps=2)), tmp_path / "two")
    before, _ = RunFolder(tmp_path / "two").load()
    (tmp_path / "two").rename(tmp_path / "run")
    monkeypatch.setattr("adaptok.training.adversary.discriminator_loss", lambda *_: torch.tensor(float("inf")))
    with pytest.raises(NotFinite, match="step 2: the discriminator's loss is inf; the batch was"):
        train_tokenizer(settings, tmp_path / "run", resume=True)
    after, progress = RunFolder(tmp_path / "run").load()
    assert progress.step == 2
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.tokenizer.quantizer.codebook_size=128", "saved by another recipe: .*quantizer.codebook.* does not fit"),
        ("optimizer.kind=adam", "another optimizer.kind"),
    ],
)
def test_a_run_is_not_resumed_by_a_recipe_that_does_not_fit(
    corpus: Path, tmp_path: Path, override: str, message: str
) -> None:
    train_tokenizer(small_settings(tmp_path, corpus), tmp_path / "run", max_minutes=0.0)
    before = (tmp_path / "run" / "recipe.yaml").read_text()
    with pytest.raises(ValueError, match=message):
        train_tokenizer(small_settings(tmp_path, corpus, (override,)), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "recipe.yaml").read_text() == before


def test_a_missing_model_is_noticed_before_the_data_are_read(corpus: Path, tmp_path: Path) -> None:
    given = (WHOLE, "start.aligned=false", "initial=gone", "data.source=gone too")
    settings = small_settings(tmp_path, corpus, given)
    with pytest.raises(ValueError, match="initial: gone holds no model"):
        train_tokenizer(settings, tmp_path / "run")
    with pytest.raises(ValueError, match="tokenizer: .* holds no model"):
        train_scorer(scorer_settings(tmp_path, corpus, ("data.source=gone too",)), tmp_path / "run")


def test_validation_on_training_videos_is_said(corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = small_settings(tmp_path, corpus, (f"data.source={corpus / 'train'}", "run.steps=1"))
    train_tokenizer(settings, tmp_path / "run")
    assert "6 of 6 validation videos are trained on" in caplog.text


def test_tensorboard_gets_what_metrics_get(corpus: Path, tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = small_settings(tmp_path, corpus, ("run.save_every=3",))
    train_tokenizer(settings, tmp_path / "run", max_minutes=0.0)
    train_tokenizer(settings, tmp_path / "run", resume=True)
    board = accumulators.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    for kind, name in (("train", "loss"), ("val", "psnr_1_4")):
        found = [(event.step, event.value) for event in board.Scalars(f"{kind}/{name}")]
        assert found == [(line["step"], pytest.approx(line[name])) for line in lines(tmp_path / "run", kind)]
    pictures = board.Images("val/picture")
    assert [event.step for event in pictures] == [4, 8]
    assert pictures[1].encoded_image_string == (tmp_path / "run" / "pictures" / "step-0000008.png").read_bytes()


def test_training_works_without_tensorboard(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("tensorboard", "torch.utils.tensorboard"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    train_tokenizer(small_settings(tmp_path, corpus, ("run.steps=1",)), tmp_path / "run")
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_a_full_disk_is_one_line(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="cannot write .*No space left on device"):
        RunFolder(tmp_path).save(build(small_settings(tmp_path, corpus).model), {}, Progress())
    assert not (tmp_path / "last" / "state.safetensors").exists()


def test_adversary_and_prior_in_one_run(corpus: Path, tmp_path: Path) -> None:
    overrides = (
        "model.tokenizer.prior={width: 16, depth: 1, heads: 2}",
        "losses.prior=0.06",
        "losses.adversarial=0.3",
        "adversary={width: 16, depth: 1, heads: 2, start: 2, every: 2}",
        "run.steps=6",
        "run.accumulate=2",
    )
    settings = small_settings(tmp_path, corpus, overrides)
    train_tokenizer(settings, tmp_path / "run", max_minutes=0.0)
    train_tokenizer(settings, tmp_path / "run", resume=True)
    whole = tmp_path / "whole"
    train_tokenizer(settings, whole)
    found = lines(tmp_path / "run", "train")
    assert ["adversarial" in line for line in found] == [False, False, True, True, True, True]
    assert ["discriminator" in line for line in found] == [False, False, True, False, True, False]
    assert all("prior" in line for line in found)
    assert [line["loss"] for line in found] == [line["loss"] for line in lines(whole, "train")]


def test_starting_from_given_weights(corpus: Path, tmp_path: Path) -> None:
    first = small_settings(tmp_path, corpus, ("run.steps=2",))
    train_tokenizer(first, tmp_path / "first")
    given = (WHOLE, "start.aligned=false", f"initial={tmp_path / 'first' / 'last'}", "run.steps=1", "run.ema=0")
    train_tokenizer(
        small_settings(
            tmp_path, corpus, (*given, "optimizer.rate=1e-9", "optimizer.final_rate=0", "optimizer.matrix_rate=1e-9")
        ),
        tmp_path / "second",
    )
    a, b = (open_bundle(tmp_path / name / "last").tokenizer.state_dict() for name in ("first", "second"))
    assert all(torch.allclose(a[name], b[name], atol=1e-6) for name in a if name != "quantizer.codebook")


def scorer_settings(folder: Path, corpus: Path, overrides: tuple[str, ...] = ()) -> ScorerTraining:
    (folder / "scorer.yaml").write_text(
        f"""
tokenizer: {folder / "run" / "last"}
scorer: {{width: 16, depth: 1, heads: 2, step: 8, metric: mse}}
data: {{source: {corpus}, cache: disk, cache_folder: {corpus.parent / "cache"}, short_side: 40}}
batch: 4
calibration_clips: 4
optimizer: {{kind: adam, rate: 1.0e-3, betas: [0.9, 0.95]}}
run: {{steps: 6, ema: 0.5, save_every: 2, validate_every: 3, log_every: 1}}
"""
    )
    return load_recipe(ScorerTraining, folder / "scorer.yaml", overrides)


@pytest.mark.parametrize("lessons", [0, 2])
def test_scorer_run_resumes_exactly_and_reports(corpus: Path, tmp_path: Path, lessons: int) -> None:
    train_tokenizer(small_settings(tmp_path, corpus), tmp_path / "run")
    cheap = ("true_lengths=3", "score_frames=1") if lessons else ()
    settings = scorer_settings(tmp_path, corpus, (f"lessons={lessons}", *cheap))
    train_scorer(settings, tmp_path / "whole")
    train_scorer(settings, tmp_path / "parts", max_minutes=0.0)
    train_scorer(settings, tmp_path / "parts", resume=True)
    whole, parts = (lines(tmp_path / name, "train") for name in ("whole", "parts"))
    assert [line["loss"] for line in whole] == [line["loss"] for line in parts]
    found = lines(tmp_path / "whole", "val")[-1]
    assert {"spearman", "error_8", "error_32", "regret", "gap_closed", "loss_oracle"} <= found.keys()
    bundle = open_bundle(tmp_path / "whole" / "best")
    assert bundle.scorer is not None
    assert bundle.scorer.lengths == (8, 16, 24, 32)
    before = open_bundle(tmp_path / "run" / "last").tokenizer.state_dict()
    assert all(torch.equal(before[name], value) for name, value in bundle.tokenizer.state_dict().items())


def test_lessons_are_judged_once_for_scorers_of_all_metrics(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_tokenizer(small_settings(tmp_path, corpus, ("run.steps=2",)), tmp_path / "run")
    alone = ("lessons=2", "true_lengths=3", "run.steps=2")
    kept = (*alone, f"lessons_folder={tmp_path / 'lessons'}", "judged=[ssim]")
    train_scorer(scorer_settings(tmp_path, corpus, kept), tmp_path / "mse")
    train_scorer(scorer_settings(tmp_path, corpus, (*alone, "scorer.metric=ssim")), tmp_path / "alone")
    judge, judged = ScorerRecipe._judged, list[str]()
    monkeypatch.setattr(ScorerRecipe, "_judged", lambda *given: (judged.extend(given[1].names), judge(*given))[1])
    train_scorer(scorer_settings(tmp_path, corpus, (*kept, "scorer.metric=ssim")), tmp_path / "found")
    assert not judged
    a, b = (lines(tmp_path / name, "train") for name in ("alone", "found"))
    assert [line["loss"] for line in a] == [line["loss"] for line in b]
    train_scorer(scorer_settings(tmp_path, corpus, (*kept, "scorer.metric=psnr")), tmp_path / "other")
    assert len(judged) == 2 * 4
    train_scorer(scorer_settings(tmp_path, corpus, (*kept, "run.seed=1")), tmp_path / "seed")
    assert len(judged) == 4 * 4
    with pytest.raises(ValueError, match="judged is of lessons that are kept"):
        scorer_settings(tmp_path, corpus, ("judged=[ssim]",))


def test_a_scorer_goes_on_from_another(corpus: Path, tmp_path: Path) -> None:
    """With a rate of next to nothing it stays what it was, in the metric's own units."""
    train_tokenizer(small_settings(tmp_path, corpus, ("run.steps=2",)), tmp_path / "run")
    train_scorer(scorer_settings(tmp_path, corpus), tmp_path / "first")
    still = (f"tokenizer={tmp_path / 'first' / 'last'}", "optimizer.rate=1e-12", "optimizer.final_rate=0")
    train_scorer(scorer_settings(tmp_path, corpus, (*still, "initial=true")), tmp_path / "second")
    first, second = (open_bundle(tmp_path / name / "last") for name in ("first", "second"))
    assert first.scorer is not None
    assert second.scorer is not None
    video = torch.rand(2, 3, 8, 32, 32)
    encoding, kept = first.tokenizer.encode(video), torch.full((2, 2), 16)
    assert torch.allclose(first.scorer.score_all(encoding, kept), second.scorer.score_all(encoding, kept), atol=1e-5)
    with pytest.raises(ValueError, match="no scorer of the recipe's size"):
        train_scorer(scorer_settings(tmp_path, corpus, ("initial=true",)), tmp_path / "third")


def test_progress_is_silent_without_a_terminal(corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert not Console(stderr=True).is_terminal
    train_tokenizer(small_settings(tmp_path, corpus, ("run.steps=1",)), tmp_path / "run")
    captured = capfd.readouterr()
    assert captured.out == ""


def test_the_second_stage_takes_the_allocators_lengths(corpus: Path, tmp_path: Path) -> None:
    train_tokenizer(small_settings(tmp_path, corpus, ("run.steps=2",)), tmp_path / "run")
    train_scorer(scorer_settings(tmp_path, corpus, ("run.steps=1",)), tmp_path / "scored")
    whole = (WHOLE, "start.aligned=false", "run.steps=3", "tail_drop={start: 0}")
    given = ("allocated={share: 1.0}", f"initial={tmp_path / 'scored' / 'last'}", "codebook.kmeans_clips=0")
    train_tokenizer(small_settings(tmp_path, corpus, (*whole, *given)), tmp_path / "second")
    assert open_bundle(tmp_path / "second" / "last").scorer is not None
    without = ("allocated={share: 1.0}", f"initial={tmp_path / 'run' / 'last'}")
    with pytest.raises(ValueError, match="has no scorer"):
        train_tokenizer(small_settings(tmp_path, corpus, (*whole, *without)), tmp_path / "third")


def test_a_finished_tokenizer_gets_a_prior_and_keeps_all_else(corpus: Path, tmp_path: Path) -> None:
    train_tokenizer(small_settings(tmp_path, corpus, ("run.steps=2",)), tmp_path / "run")
    train_scorer(scorer_settings(tmp_path, corpus, ("run.steps=1",)), tmp_path / "scored")
    alone = (
        f"initial={tmp_path / 'scored' / 'last'}",
        "learn=[prior]",
        WHOLE,
        "model.tokenizer.prior={width: 16, depth: 1, heads: 2}",
        "losses.prior=1",
        "start.aligned=false",
        "codebook={quantize: {start: 0}}",
        "run.steps=4",
    )
    train_tokenizer(small_settings(tmp_path, corpus, alone), tmp_path / "grown")
    before = open_bundle(tmp_path / "scored" / "last").modules.state_dict()
    after = open_bundle(tmp_path / "grown" / "last").modules.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert {name.split(".")[1] for name in after.keys() - before.keys()} == {"prior"}
    losses = [line["prior"] for line in lines(tmp_path / "grown", "train")]
    assert losses[-1] < losses[0]
    with pytest.raises(ValueError, match="codes may only move where the quantizer learns"):
        small_settings(tmp_path, corpus, (*alone, "codebook.follow=0.9"))


def first_losses(folder: Path, corpus: Path, name: str, *overrides: str) -> list[tuple[float, float]]:
    train_tokenizer(small_settings(folder, corpus, ("run.steps=3", *overrides)), folder / name)
    return [(line["loss"], line["norm"]) for line in lines(folder / name, "train")]


def test_recomputed_activations_change_nothing(corpus: Path, tmp_path: Path) -> None:
    plain = first_losses(tmp_path, corpus, "plain")
    assert first_losses(tmp_path, corpus, "again", "run.activation_checkpointing=true") == plain


def test_half_precision_stays_close(corpus: Path, tmp_path: Path) -> None:
    given = ("codebook={quantize: {start: 0}, follow: 0.9}",)
    plain, half = (first_losses(tmp_path, corpus, p, f"run.precision={p}", *given) for p in ("32-true", "bf16-mixed"))
    assert half != plain
    assert half[0][0] == pytest.approx(plain[0][0], rel=0.02)


@pytest.mark.slow
def test_compiled_stays_close(corpus: Path, tmp_path: Path) -> None:
    """In a process of its own, since the shape checks of the tests cannot be traced."""
    whole = ("run.steps=3", "tail_drop={share: 0.0}", "run.validate_every=9")
    plain = first_losses(tmp_path, corpus, "plain", *whole)
    (tmp_path / "program.py").write_text(TRAIN)
    arguments = (str(tmp_path / "recipe.yaml"), str(tmp_path / "compiled"), "new", "30", *whole, "run.compile=true")
    done = run_program(tmp_path / "program.py", *arguments, timeout=600)
    assert done.returncode == 0, done.stderr
    compiled = [(line["loss"], line["norm"]) for line in lines(tmp_path / "compiled", "train")]
    assert compiled == [pytest.approx(pair, rel=1e-4) for pair in plain]
