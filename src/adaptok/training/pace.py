"""The same training in more or fewer steps.

In: a recipe's settings and a number of steps. Out: settings in which everything that happens at a step (stages, ramps,
revivals, warm-up, averaging) moves in proportion, so that a short run is a small picture of a long one.
"""

from dataclasses import replace
from typing import TypeVar

from adaptok.training.curriculum import Ramp, Stage
from adaptok.training.generator_settings import GeneratorTraining
from adaptok.training.settings import RunConfig, ScorerTraining, TokenizerTraining

S = TypeVar("S", TokenizerTraining, ScorerTraining, GeneratorTraining)


def in_steps(settings: S, steps: int | None) -> S:
    """The settings of a run of so many steps; as they are where None.

    Raises:
        ValueError: fewer steps than one, or the recipe counts epochs.
    """
    if steps is None:
        return settings
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if settings.run.steps is None:
        raise ValueError(f"steps cannot be scaled: the recipe counts epochs ({settings.run.epochs}); give none")
    factor = steps / settings.run.steps
    optimizer = replace(settings.optimizer, warmup=round(factor * settings.optimizer.warmup))
    if isinstance(settings, TokenizerTraining):
        settings = _curriculum(settings, factor)
    return replace(settings, optimizer=optimizer, run=_run(settings.run, steps, factor))


def _curriculum(settings: TokenizerTraining, factor: float) -> TokenizerTraining:
    """What only tokenizers have."""

    def ramp(old: Ramp) -> Ramp:
        return replace(old, start=round(factor * old.start), steps=round(factor * old.steps))

    stages: list[Stage] = []
    for stage in settings.stages:
        earliest = stages[-1].start + 1 if stages else 0
        stages.append(replace(stage, start=max(earliest, round(factor * stage.start))))
    codebook, adversary, until = settings.codebook, settings.adversary, settings.codebook.revive_until
    return replace(
        settings,
        stages=tuple(stages),
        tail_drop=ramp(settings.tail_drop),
        allocated=ramp(settings.allocated),
        codebook=replace(
            codebook,
            quantize=ramp(codebook.quantize),
            revive_until=None if until is None else round(factor * until),
        ),
        losses=replace(settings.losses, prior_mix=ramp(settings.losses.prior_mix)),
        adversary=None if adversary is None else replace(adversary, start=round(factor * adversary.start)),
    )


def _run(run: RunConfig, steps: int, factor: float) -> RunConfig:
    """Averaged over the same share of the run, as old weights would otherwise outlive a short one."""
    ema = max(0.0, 1 - (1 - run.ema) / factor) if run.ema else 0.0
    return replace(run, steps=steps, ema=ema, validate_every=min(run.validate_every, steps))
