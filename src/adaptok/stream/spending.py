"""How a stream spends its tokens: which budget, by which strategy, shared by which blocks.

In: the encoding of one block (live) or clip, or the scores of a whole video. Out: how many tokens each block keeps.
Next on the walk: session.py.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation import Budget, Live, Pace, ScoreTable, allocate, strategy_named
from adaptok.allocation.context import Judged, Prediction, judge
from adaptok.allocation.scope import batch
from adaptok.allocation.scorer import Scorer
from adaptok.config import Geometry
from adaptok.tokenizer.model import Encoding

SCORELESS = ("fixed", "motion")
"""Strategies that read no scores."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What to spend and how.

    Attributes:
        budget: how much.
        strategy: name of an allocation strategy.
        scope: `clip`, the blocks of a clip share its budget, a clip comes out when its last frame is in; `video`, all
            blocks of the video share it, everything comes out at the end; `live`, each block comes out at once and any
            `window` blocks in a row stay within the budget.
        window: blocks over which the live budget holds.
        in_context: score a block after the blocks before it were cut, as the paper does; else all in one pass.
        monotone: project scores to be non-increasing in length first.
    """

    budget: Budget
    strategy: str = "ipal"
    scope: Literal["clip", "video", "live"] = "clip"
    window: int = 32
    in_context: bool = True
    monotone: bool = False

    def __post_init__(self) -> None:
        strategy_named(self.strategy)
        if self.scope not in ("clip", "video", "live"):
            raise ValueError(f"unknown scope {self.scope!r}; known are clip, video, live")
        if self.scope == "live" and self.strategy != "ipal":
            raise ValueError(f"live streams are allocated by price (strategy ipal), not by {self.strategy!r}")
        if self.scope == "clip" and self.budget.total is not None:
            raise ValueError("a total is for a whole video: use scope 'video', or a budget per block or per second")

    def check(self, scorer: Scorer | None) -> None:
        """Refuse what needs scores where the model has no scorer."""
        if scorer is None and self.scope == "live":
            raise ValueError("this model has no scorer; live streams need one (use scope 'clip' and strategy 'fixed')")
        if scorer is None and self.strategy not in SCORELESS:
            raise ValueError(f"this model has no scorer; strategy {self.strategy!r} needs one (use 'fixed')")
        if self.budget.quality is not None and self.strategy in SCORELESS:
            raise ValueError(f"strategy {self.strategy!r} reads no scores and cannot meet a quality")

    def asked(self, blocks: int, geometry: Geometry, pace: Pace) -> int | None:
        """Tokens that a video of so many blocks may spend; None for a quality, and for a live budget."""
        if self.budget.quality is not None or self.scope == "live":
            return None
        if self.scope == "video":
            return self.budget.tokens_for(blocks, pace)
        clips, rest = divmod(blocks, geometry.blocks)
        return clips * self.budget.tokens_for(geometry.blocks, pace) + self.budget.tokens_for(rest, pace)

    def live(self, scorer: Scorer | None, pace: Pace) -> Live | None:
        """The running budget of a live stream."""
        if self.scope != "live" or scorer is None:
            return None
        return Live.of(self.budget, np.asarray(scorer.lengths), self.window, pace)

    def clips(
        self, scorer: Scorer | None, encoding: Encoding, motion: Float[np.ndarray, "B K"], pace: Pace
    ) -> tuple[Int[np.ndarray, "B K"], Float[np.ndarray, "B K S"] | None]:
        """Tokens of each block of clips that have a budget each, and the scores they rest on."""
        strategy = strategy_named(self.strategy)
        if self.strategy in SCORELESS:
            table = unscored(motion, encoding.codes.shape[2])
            kept = allocate(table, self.budget, strategy, pace=pace).kept.reshape(motion.shape)
            return kept, None if scorer is None else scorer.score_once(encoding).cpu().double().numpy()
        assert scorer is not None  # see `check`
        judged: Judged = judge(
            Prediction(scorer, encoding),
            self.budget,
            strategy=strategy,
            pace=pace,
            in_context=self.in_context,
            monotone=self.monotone,
            motion=motion,
        )
        return judged.kept, judged.table.loss.reshape(*motion.shape, -1)

    def video(
        self,
        scores: Float[np.ndarray, "R S"] | None,
        scorer: Scorer | None,
        motion: Float[np.ndarray, " R"],
        pace: Pace,
        geometry: Geometry,
    ) -> Int[np.ndarray, " R"]:
        """Tokens of each block of a whole video from scores that were made in one pass per clip."""
        if scores is None or scorer is None or self.strategy in SCORELESS:
            table = unscored(motion[None], geometry.tokens_per_block)
        else:
            table = ScoreTable.of_clips(scores[None], np.asarray(scorer.lengths), motion[None])
        return allocate(table, self.budget, strategy_named(self.strategy), scope=batch, pace=pace).kept


def unscored(motion: Float[np.ndarray, "B K"], tokens_per_block: int) -> ScoreTable:
    """A table for strategies that read no scores: any length from 1 to M may be chosen."""
    lengths = np.arange(1, tokens_per_block + 1)
    return ScoreTable.of_clips(np.zeros((*motion.shape, len(lengths))), lengths, motion)
