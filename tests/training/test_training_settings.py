"""Recipes are strict: what does not fit is refused by the name of its field, before any work."""

from pathlib import Path

import pytest
from training_makers import small_settings

from adaptok.training import (
    GeneratorTraining,
    ScorerTraining,
    TokenizerTraining,
    load_recipe,
    recipe_names,
    recipe_yaml,
)
from adaptok.training.curriculum import Ramp


def test_round_trip(corpus: Path, tmp_path: Path) -> None:
    settings = small_settings(tmp_path, corpus)
    (tmp_path / "again.yaml").write_text(recipe_yaml(settings))
    assert load_recipe(TokenizerTraining, tmp_path / "again.yaml") == settings


@pytest.mark.parametrize("name", recipe_names())
def test_shipped_recipes_are_valid(name: str) -> None:
    kinds = dict.fromkeys(("l", "tiny", "tiny-prior"), TokenizerTraining)
    kinds |= dict.fromkeys(("ar", "ar-tiny", "fp"), GeneratorTraining)
    load_recipe(kinds.get(name, ScorerTraining), name)


def test_a_preset_by_name(corpus: Path, tmp_path: Path) -> None:
    settings = small_settings(tmp_path, corpus, ("model=s", "start.aligned=false", "losses.prior=0.06"))
    assert settings.model.name == "s"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("run.stepz=3", "run.stepz"),
        ("run.epochs=3", "exactly one of steps and epochs"),
        ("run.steps=many", "run.steps"),
        ("optimizer.kind=sgd", "optimizer.kind"),
        ("optimizer.rate=-1", "rates must be positive"),
        ("losses.adversarial=0.3", "adversary section"),
        ("losses.prior=0.06", "model.tokenizer.prior"),
        ("model.tokenizer.learned_slots=false", "learned_slots"),
        ("stages=[{start: 0, blocks: 9, batch: 2}]", "a clip of the model has 2"),
        ("stages=[{start: 1, blocks: 1, batch: 2}]", "must start at step 0"),
        ("run.strategy=deepspeed", "run.strategy"),
        ("run={steps: 1, strategy: fsdp, precision: 16-mixed}", "16-mixed and strategy fsdp"),
        ("run={steps: 1, strategy: fsdp, compile: true}", "compile and strategy fsdp"),
        ("augment.flip=1.5", "flip must lie in 0..1"),
        ("data.cache=ram", "data.cache"),
        ("allocated={share: 0.5}", "allocated needs initial"),
        ("run.accumulate=3", r"batch of 4 cannot be cut into equal parts for 1 processes .* and 3 rounds"),
        ("run.devices=3", "batch of 4 cannot be cut into equal parts for 3 processes"),
        ("adversary={every: 0}", "every >= 1"),
        ("adversary={width: 30, heads: 4}", "heads"),
        ("optimizer.betas=[0.9, 1.5]", "optimizer: beta 2 must lie in 0..1, got 1.5"),
        ("optimizer.prior_rate=0", "prior_rate 0.0 is not positive"),
        ("codebook.kmeans_clips=-1", "kmeans_clips"),
        ("codebook.follow=1", "follow must lie in 0..1"),
        ("stages=[{", "override 'stages=\\[{' is not valid YAML"),
        ("steps", "looks like run.steps=100"),
        ("run.steps.more=1", "has no fields"),
    ],
)
def test_refused_by_name(corpus: Path, tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_settings(tmp_path, corpus, (override,))


def test_unknown_recipe_lists_the_known() -> None:
    with pytest.raises(ValueError, match="neither a file nor a recipe; there are .*tiny"):
        load_recipe(TokenizerTraining, "huge")


def test_not_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    with pytest.raises(ValueError, match="not valid YAML"):
        load_recipe(TokenizerTraining, tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_text("- 1")
    with pytest.raises(ValueError, match="holds list"):
        load_recipe(TokenizerTraining, tmp_path / "a.yaml")


def test_ramp() -> None:
    ramp = Ramp(start=10, steps=3, share=0.8)
    assert [round(ramp.at(step), 3) for step in (9, 10, 11, 12, 13, 99)] == [0.0, 0.2, 0.4, 0.6, 0.8, 0.8]
    assert Ramp().at(0) == 1.0
