from dataclasses import replace

import pytest

from adaptok.training import GeneratorTraining, ScorerTraining, TokenizerTraining, load_recipe
from adaptok.training.pace import in_steps


def test_everything_that_happens_at_a_step_moves_in_proportion() -> None:
    whole = load_recipe(TokenizerTraining, "tiny")
    twice = in_steps(whole, 4000)
    assert twice.run.steps == 4000
    assert [stage.start for stage in twice.stages] == [0, 800]
    assert [stage.batch for stage in twice.stages] == [stage.batch for stage in whole.stages]
    assert (twice.tail_drop.start, twice.tail_drop.steps, twice.tail_drop.share) == (60, 200, whole.tail_drop.share)
    assert (twice.codebook.quantize.start, twice.codebook.quantize.steps) == (320, 480)
    assert twice.codebook.revive_until == 3700
    assert twice.optimizer.warmup == 100
    assert twice.run.ema == pytest.approx(0.9965)
    assert in_steps(whole, None) is whole
    back = in_steps(twice, 2000)
    assert replace(back, run=whole.run) == whole


@pytest.mark.parametrize(("kind", "name"), [(ScorerTraining, "tiny-scorer"), (GeneratorTraining, "ar-tiny")])
def test_trainings_without_stages_scale_too(kind: type, name: str) -> None:
    whole = load_recipe(kind, name)
    half = in_steps(whole, whole.run.steps // 2)
    assert half.optimizer.warmup == whole.optimizer.warmup // 2
    assert 1 - half.run.ema == pytest.approx(2 * (1 - whole.run.ema))


def test_stages_stay_apart_in_the_shortest_runs() -> None:
    starts = [stage.start for stage in in_steps(load_recipe(TokenizerTraining, "tiny"), 3).stages]
    assert starts == sorted(set(starts))


def test_what_cannot_be_scaled_is_refused() -> None:
    with pytest.raises(ValueError, match="counts epochs"):
        in_steps(load_recipe(TokenizerTraining, "l"), 100)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        in_steps(load_recipe(TokenizerTraining, "tiny"), 0)
