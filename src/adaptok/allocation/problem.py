"""The three values that pass between the stages of allocation.

In: predicted losses from the scorer. `ScoreTable` (what each row would lose at each length) and `Target` (what may
be spent) go into a strategy, `Allocation` (what each row got) comes out. A row is one block of one video.
Next on the walk: `budget`, which turns a user's wish into a `Target`; then the strategies, `ipal` first.

Letters: B videos, K blocks per clip, R rows that share a budget, S candidate lengths.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int, Shaped

from adaptok.allocation.solve import check_losses


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreTable:
    """Loss of every row at every candidate length, and which block each row is.

    Attributes:
        loss: predicted loss; higher is worse.
        lengths: candidate lengths in tokens, strictly increasing.
        video: which video each row belongs to.
        block: each row's index in its video.
        motion: mean absolute frame difference in each row's block; only the `motion` strategy reads it.
    """

    loss: Float[np.ndarray, "R S"]
    lengths: Int[np.ndarray, " S"]
    video: Int[np.ndarray, " R"]
    block: Int[np.ndarray, " R"]
    motion: Float[np.ndarray, " R"] | None = None

    def __post_init__(self) -> None:
        loss, lengths = check_losses(self.loss, self.lengths)
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "lengths", lengths)

    @classmethod
    def of_clips(
        cls,
        loss: Float[np.ndarray, "B K S"],
        lengths: Int[np.ndarray, " S"],
        motion: Float[np.ndarray, "B K"] | None = None,
    ) -> "ScoreTable":
        """The table of B clips of K blocks each, clip by clip."""
        videos, blocks, count = loss.shape
        return cls(
            loss=loss.reshape(videos * blocks, count),
            lengths=lengths,
            video=np.repeat(np.arange(videos), blocks),
            block=np.tile(np.arange(blocks), videos),
            motion=None if motion is None else motion.reshape(-1),
        )

    @property
    def rows(self) -> int:
        """R, the number of rows."""
        return self.loss.shape[0]

    def select(self, rows: Shaped[np.ndarray, " N"]) -> "ScoreTable":
        """The table of some rows, given by index or as a mask."""
        return ScoreTable(
            loss=self.loss[rows],
            lengths=self.lengths,
            video=self.video[rows],
            block=self.block[rows],
            motion=None if self.motion is None else self.motion[rows],
        )

    def loss_of(self, kept: Int[np.ndarray, " R"]) -> float:
        """Predicted loss of all rows together, each at the candidate length it keeps."""
        column = np.searchsorted(self.lengths, kept)
        return fsum(self.loss[np.arange(self.rows), column].tolist())


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a group of rows may spend, in tokens.

    Attributes:
        tokens: to be spent in total, or as close to it from below as candidate lengths allow.
        lower, upper: bounds on each row's length.
        quality: the mean loss that `tokens` was chosen for, where the budget was a quality.
    """

    tokens: int
    lower: int
    upper: int
    quality: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Allocation:
    """What each row got.

    Attributes:
        kept: tokens of each row, always one of the candidate lengths.
        loss: predicted loss of all rows together.
        asked: tokens that were to be spent.
        met: whether exactly that was spent and, for a quality budget, the quality reached.
    """

    kept: Int[np.ndarray, " R"]
    loss: float
    asked: int
    met: bool

    @classmethod
    def of(cls, table: ScoreTable, kept: Int[np.ndarray, " R"], target: Target) -> "Allocation":
        """Report on a choice of lengths; to spend more than the target is an error of the strategy."""
        spent = int(kept.sum())
        if spent > target.tokens:
            raise ValueError(f"an allocation of {spent} tokens exceeds the target of {target.tokens}")
        loss = table.loss_of(kept)
        good = target.quality is None or loss <= target.quality * table.rows
        return cls(kept=kept, loss=loss, asked=target.tokens, met=spent == target.tokens and good)

    @property
    def spent(self) -> int:
        """Tokens spent in total."""
        return int(self.kept.sum())

    @property
    def shortfall(self) -> int:
        """Tokens asked for but not spent, because no candidate lengths (or not this strategy's) add up to them."""
        return self.asked - self.spent


Strategy: TypeAlias = Callable[[ScoreTable, Target], Allocation]
"""How to choose lengths: any function from a score table and a target to an allocation that never exceeds it."""
