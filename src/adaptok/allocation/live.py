"""In: one row of losses at a time. Out: that block's length at once; no choice is ever revised.

A leaky bucket: in every run of `window` successive blocks at most `window` times the average is spent. That law is
strict, so a token saved is of use only to the next `window - 1` blocks, and to spend everything all the time one
would have to repeat oneself with that period. Every block is therefore assured most of the average, only the rest is
traded between blocks, and the longer the window, the more there is to trade. docs/allocation.md has the figures.

State is a value: `kept, state = live.step(row, state)`. Streams can be forked and resumed from any state.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.budget import Budget, Pace, round_down
from adaptok.allocation.solve import check_losses, kernels

LONGEST_MEMORY = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveState:
    """What a stream has to remember.

    Attributes:
        spent: lengths of the last blocks, fewer than a window of them, oldest first.
        recent: losses of the last blocks, as a forecast of those to come.
    """

    spent: tuple[int, ...]
    recent: Float[np.ndarray, "N S"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Live:
    """A running budget.

    Attributes:
        lengths: the candidate lengths a block may get, already within the budget's bounds.
        window: number of successive blocks over which spending is limited.
        limit: tokens that any such run of blocks may spend.
        assured: length that every block can count on; the rest is traded.
        columns: where `lengths` lie among all candidate lengths.
    """

    lengths: Int[np.ndarray, " S"]
    window: int
    limit: int
    assured: int
    columns: slice

    @classmethod
    def of(
        cls,
        budget: Budget,
        lengths: Int[np.ndarray, " S"],
        window: int,
        pace: Pace | None = None,
        thrift: float | None = None,
    ) -> "Live":
        """Set up a stream.

        Args:
            budget: an average per block or a rate per second, with optional bounds.
            lengths: all candidate lengths, those of the rows to come.
            window: length of the window, in blocks.
            pace: needed by rates per second.
            thrift: share of the average that a block may save for later ones. By default it grows with the square
                root of the window, as does the spread of what its blocks want, up to one half at 200 blocks.
        """
        if window < 1:
            raise ValueError(f"window must be at least 1 block, got {window}")
        thrift = min(0.5, sqrt(window / 800)) if thrift is None else thrift
        if not 0 <= thrift <= 1:
            raise ValueError(f"thrift must lie in 0..1, got {thrift}")
        lower, upper = budget.bounds(lengths)
        average = budget.average(pace)
        limit = round_down(average * window)
        if limit < window * lower:
            raise ValueError(
                f"a budget of {limit} tokens per {window} blocks is below the least they can take, "
                f"{window * lower} ({lower} each)"
            )
        columns = slice(int(np.searchsorted(lengths, lower)), int(np.searchsorted(lengths, upper)) + 1)
        allowed = lengths[columns].astype(np.int64)
        affordable = allowed[allowed * window <= limit]
        assured = int(affordable[np.abs(affordable - (1 - thrift) * average).argmin()])
        return cls(lengths=allowed, window=window, limit=limit, assured=assured, columns=columns)

    def start(self) -> LiveState:
        """The state before the first block."""
        return LiveState(spent=(), recent=np.empty((0, self.lengths.size)))

    def step(self, loss: Float[np.ndarray, " S_all"], state: LiveState) -> tuple[int, LiveState]:
        """Length of the next block, whose losses at all candidate lengths are given, and the state after it.

        The block buys at the price at which blocks like the recent ones would spend what is free over the next three
        quarters of a window, within what the window has left once every later block gets what it is assured.
        """
        row, _ = check_losses(loss[None, self.columns], self.lengths)
        memory = min(self.window, LONGEST_MEMORY)
        recent = np.concatenate([state.recent, row])[-memory:]
        past = (self.assured,) * (self.window - 1 - len(state.spent)) + state.spent
        free = self.limit - sum(past)
        ahead = max(1, 3 * self.window // 4)
        rate = (self.limit - sum(past[ahead - 1 :])) / ahead
        price = self._price(recent, rate)
        allowed = (self.lengths >= self.assured) & (self.lengths <= free)
        value = np.where(allowed, row[0] + price * self.lengths, np.inf)
        kept = int(self.lengths[value.argmin()])
        spent = (*state.spent, kept)[-(self.window - 1) :] if self.window > 1 else ()
        return kept, LiveState(spent=spent, recent=recent)

    def _price(self, recent: Float[np.ndarray, "N S"], rate: float) -> float:
        hull, _, _ = kernels()
        rows = recent.shape[0]
        weight = self.lengths - self.lengths[0]
        low = np.full(rows, np.searchsorted(self.lengths, self.assured))
        high = np.full(rows, self.lengths.size - 1)
        need = min(max(rate - self.assured, 0), self.lengths[-1] - self.assured) * rows
        price, _, _ = hull.relax(np.ascontiguousarray(recent), weight, low, high, int(need), False)
        return float(price)
