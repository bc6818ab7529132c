"""Points to lengths: how many tokens each block of a group of clips keeps under a strategy and a budget.

In: one encoding. Out: kept (B,K) for any number of points. What no budget changes, the scores of whole blocks in one
pass, is computed once: for the scorer, and for the truth under each scoring metric. At scope `clip` the lengths are
those that the codec chooses for the same clip. Next on the walk: measuring.py.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from adaptok.allocation import Budget, allocate, scope_named, strategy_named
from adaptok.allocation.context import Judge, Prediction, judge
from adaptok.allocation.truth import BlockLoss, Truth
from adaptok.blocks.memory import Memory
from adaptok.bundle import Bundle
from adaptok.evaluation.settings import ORACLE, Point, Settings
from adaptok.shapes import Kept, Scores, Video
from adaptok.stream.spending import SCORELESS, unscored
from adaptok.tokenizer.model import Encoding

ORACLE_LENGTHS = 16
"""Candidate lengths the oracle tries where no scorer names any: every one costs a decoding."""


class Once:
    """A judge whose one-pass scores are made once and serve every budget."""

    def __init__(self, by: Judge) -> None:
        self.by = by

    @property
    def lengths(self) -> tuple[int, ...]:
        """Candidate lengths."""
        return self.by.lengths

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and blocks."""
        return self.by.shape

    def score(self, block: int, memory: Memory | None) -> Scores:
        """Losses of one block in context."""
        return self.by.score(block, memory)

    def remember(self, block: int, kept: Kept, memory: Memory | None) -> Memory:
        """The context after that block was cut."""
        return self.by.remember(block, kept, memory)

    def once(self) -> Float[Tensor, "B K S"]:
        """Losses of all blocks, earlier ones whole; a copy, since allocation writes into what it gets."""
        return self._scores.clone()

    @cached_property
    def _scores(self) -> Float[Tensor, "B K S"]:
        return self.by.once()


class Allotter:
    """Lengths for the clips of one encoding."""

    def __init__(
        self,
        bundle: Bundle,
        encoding: Encoding,
        video: Video,
        motion: Float[np.ndarray, "B K"],
        settings: Settings,
        loss: Callable[[str], BlockLoss],
    ) -> None:
        self._bundle = bundle
        self._encoding = encoding
        self._video = video
        self._motion = motion
        self._settings = settings
        self._loss = loss
        self._judges: dict[str | None, Judge] = {}

    @torch.no_grad()
    def kept(self, point: Point) -> Int[np.ndarray, "B K"]:
        """Tokens of each block at `point`."""
        strategy = strategy_named("ipal" if point.method == ORACLE else point.method)
        scope = scope_named(self._settings.scope)
        budget = Budget(per_block=point.budget)
        if point.method in SCORELESS:
            table = unscored(self._motion, self._encoding.codes.shape[2])
            return allocate(table, budget, strategy, scope).kept.reshape(self._motion.shape)
        by = self._judge(point.scoring)
        return judge(by, budget, strategy, scope, in_context=self._settings.in_context, motion=self._motion).kept

    def _judge(self, scoring: str | None) -> Judge:
        if scoring not in self._judges:
            self._judges[scoring] = Once(self._prediction() if scoring is None else self._truth(scoring))
        return self._judges[scoring]

    def _prediction(self) -> Judge:
        assert self._bundle.scorer is not None  # fitted settings ask for scores only where there is a scorer
        return Prediction(self._bundle.scorer, self._encoding)

    def _truth(self, scoring: str) -> Judge:
        scorer, m = self._bundle.scorer, self._encoding.codes.shape[2]
        step = max(1, m // ORACLE_LENGTHS)
        lengths = scorer.lengths if scorer is not None else tuple(range(m % step or step, m + 1, step))
        return Truth(self._bundle.tokenizer, self._encoding, self._video, lengths, self._loss(scoring))
