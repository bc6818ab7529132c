"""What changes in the course of a run, as functions of the step.

In: stages and ramps from a recipe. Out: clip length and batch, or a share, at any step.
Next on the walk: data_settings.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from adaptok.config import Strict


def need(holds: bool, message: str) -> None:
    """Refuse a setting."""
    if not holds:
        raise ValueError(message)


def need_share(**shares: float) -> None:
    """Each value is a probability."""
    for name, value in shares.items():
        need(0 <= value <= 1, f"{name} must lie in 0..1, got {value}")


@dataclass(frozen=True, kw_only=True)
class Stage(Strict):
    """Clips of `blocks` blocks in batches of `batch` (over all processes), from step `start` on."""

    start: int = 0
    blocks: int
    batch: int

    def __post_init__(self) -> None:
        need(self.start >= 0, f"stages: start must be at least 0, got {self.start}")
        need(min(self.blocks, self.batch) >= 1, f"stages: blocks and batch must be at least 1: {self}")


@dataclass(frozen=True, kw_only=True)
class Ramp(Strict):
    """A share that is 0 before step `start` and grows to `share` within `steps` steps."""

    start: int = 0
    steps: int = 0
    share: float = 1.0

    def __post_init__(self) -> None:
        need(min(self.start, self.steps) >= 0, f"a ramp's start and steps must be at least 0: {self}")
        need_share(share=self.share)

    def at(self, step: int) -> float:
        """The share at a step."""
        if step < self.start:
            return 0.0
        return self.share * min(1.0, (step - self.start + 1) / (self.steps + 1))


def stage_at(stages: Sequence[Stage], step: int) -> Stage:
    """The stage a step belongs to."""
    return [stage for stage in stages if stage.start <= step][-1]


def samples_before(stages: Sequence[Stage], step: int) -> int:
    """How many clips all processes have seen when `step` begins."""
    ends = [stage.start for stage in stages[1:]] + [step]
    return sum(stage.batch * max(0, min(end, step) - stage.start) for stage, end in zip(stages, ends, strict=True))


def steps_for(stages: Sequence[Stage], samples: float) -> int:
    """How many steps it takes until all processes have seen so many clips."""
    step = 0
    while samples_before(stages, step) < samples:
        step += 1
    return step
