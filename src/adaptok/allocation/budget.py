"""In: what a user wants to spend, in the user's terms. Out: a `Target` in tokens for the rows that share it.

Next on the walk: a strategy, which meets the target; `scope` says which rows share one.
"""

from dataclasses import dataclass, fields
from math import floor, isfinite
from numbers import Integral, Real
from typing import no_type_check

import numpy as np
from jaxtyping import Int

from adaptok.allocation.problem import ScoreTable, Target
from adaptok.allocation.solve import solve

_KINDS = ("per_block", "total", "bits_per_second", "tokens_per_second", "quality")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How blocks relate to time and bits: needed by budgets per second only."""

    fps: float | int
    frames_per_block: int
    bits_per_token: float | int

    def __post_init__(self) -> None:
        for name in ("fps", "frames_per_block", "bits_per_token"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


@no_type_check
@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may be spent on rows that share a budget: exactly one of the first five.

    Attributes:
        per_block: average tokens per block; need not be an integer.
        total: tokens for all rows together.
        bits_per_second: payload bits per second of video.
        tokens_per_second: tokens per second of video.
        quality: the fewest tokens whose predicted loss, as a mean over rows, is at or below this value.
        min_per_block, max_per_block: bounds on the tokens of every single block.

    Fractions of a token are rounded down. A total between what candidate lengths can add up to is met as closely as
    possible from below, and the allocation reports it; one below what the shortest lengths need is an error.
    """

    per_block: float | None = None
    total: int | None = None
    bits_per_second: float | None = None
    tokens_per_second: float | None = None
    quality: float | None = None
    min_per_block: int | None = None
    max_per_block: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in _KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a budget is exactly one of {', '.join(_KINDS)}; got {' and '.join(given) or 'none'}")
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.name in ("total", "min_per_block", "max_per_block")
            if value is not None:
                _check_number(field.name, value, whole, signed=field.name == "quality")
        low, high = self.min_per_block, self.max_per_block
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_per_block {low} exceeds max_per_block {high}")

    def resolve(self, table: ScoreTable, pace: Pace | None = None) -> Target:
        """The target in tokens for the rows of `table`, which share this budget.

        Raises:
            ValueError: the budget is below what the shortest lengths need, or is per second without a `pace`.
        """
        lower, upper = self.bounds(table.lengths)
        if self.quality is not None:
            tokens = fewest_tokens(table, self.quality, lower, upper)
            return Target(tokens=tokens, lower=lower, upper=upper, quality=float(self.quality))
        tokens = self.tokens_for(table.rows, pace)
        if tokens < table.rows * lower:
            raise ValueError(
                f"a budget of {tokens} tokens for {table.rows} blocks is below the least they can take, "
                f"{table.rows * lower} ({lower} each)"
            )
        return Target(tokens=tokens, lower=lower, upper=upper)

    def bounds(self, lengths: Int[np.ndarray, " S"]) -> tuple[int, int]:
        """The shortest and the longest candidate length that a block may get."""
        lower = lengths[0] if self.min_per_block is None else self.min_per_block
        upper = lengths[-1] if self.max_per_block is None else self.max_per_block
        allowed = lengths[(lengths >= lower) & (lengths <= upper)]
        if allowed.size == 0:
            raise ValueError(
                f"no candidate length lies between min_per_block {lower} and max_per_block {upper}; "
                f"candidates run from {lengths[0]} to {lengths[-1]}"
            )
        return int(allowed[0]), int(allowed[-1])

    def tokens_for(self, rows: int, pace: Pace | None = None) -> int:
        """Whole tokens for `rows` blocks; a quality has no such number."""
        return self.total if self.total is not None else round_down(self.average(pace) * rows)

    def average(self, pace: Pace | None = None) -> float:
        """Tokens per block, for budgets that are rates."""
        if self.per_block is not None:
            return float(self.per_block)
        if self.total is not None or self.quality is not None:
            raise ValueError(f"{self} is not a rate: tokens per block do not follow from it alone")
        if pace is None:
            raise ValueError("a budget per second needs a pace: fps, frames per block and bits per token")
        seconds = pace.frames_per_block / pace.fps
        if self.bits_per_second is not None:
            return self.bits_per_second * seconds / pace.bits_per_token
        return (self.tokens_per_second or 0.0) * seconds


def round_down(tokens: float) -> int:
    """Whole tokens in `tokens`; 0.1 * 30 counts as 3 although its float is a trifle less."""
    return floor(tokens * (1 + 1e-12) + 1e-9)


@no_type_check
def fewest_tokens(table: ScoreTable, quality: float, lower: int, upper: int | Int[np.ndarray, " R"]) -> int:
    """Least total at which the best allocation's mean loss is at or below `quality`.

    The best loss within a total never rises with the total, so bisection is exact. Where no total reaches the
    quality, the answer is the fewest tokens of the lowest loss there is.
    """

    def best(total: int) -> tuple[int, float]:
        kept = solve(table.loss, table.lengths, total, equality=False, lower=lower, upper=upper)
        return int(kept.sum()), table.loss_of(kept)

    few, many = table.rows * lower, best(int(np.broadcast_to(upper, table.rows).sum()))[0]
    while few < many:
        middle = (few + many) // 2
        spent, loss = best(middle)
        if loss <= quality * table.rows:
            many = spent
        else:
            few = middle + 1
    return many


@no_type_check
def _check_number(name: str, value: object, whole: bool, signed: bool) -> None:
    kind = "an integer" if whole else "a number"
    is_number = isinstance(value, Integral) or (not whole and isinstance(value, Real) and isfinite(value))
    if isinstance(value, bool) or not is_number:
        raise ValueError(f"{name} must be {kind}, got {value!r}")
    if value < 0 and not signed:
        raise ValueError(f"{name} must not be negative, got {value}")
