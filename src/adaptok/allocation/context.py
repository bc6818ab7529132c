"""From an encoding to an allocation: each block judged in the context of what the blocks before it got.

In: a judge (the scorer, or the truth by decoding), a budget, a strategy, a scope. Out: kept tokens per block and the
scores they rest on. Next on the walk: the token stream.

A block's scores depend on the cuts before it, and the cuts depend on the scores. This is resolved by looking ahead: all
blocks are first scored in one pass, every block whole. Then, block after block, the block at hand is scored in its true
context, the rest of the budget is allocated over it and all blocks to come, and its own length becomes final. With
`in_context=False` the one-pass scores decide everything at once.
"""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from adaptok.allocation.budget import Budget, Pace
from adaptok.allocation.ipal import ipal
from adaptok.allocation.monotone import non_increasing
from adaptok.allocation.problem import Allocation, ScoreTable, Strategy, Target
from adaptok.allocation.scope import Scope, allocate, clip
from adaptok.allocation.scorer import Scorer
from adaptok.blocks.memory import Memory
from adaptok.shapes import Kept, Scores
from adaptok.tokenizer.model import Encoding


@runtime_checkable
class Judge(Protocol):
    """Whoever can say what a block loses at each length: the scorer or the truth."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Candidate lengths."""

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and blocks."""

    def score(self, block: int, memory: Memory | None) -> Scores:
        """Losses of one block in context."""

    def remember(self, block: int, kept: Kept, memory: Memory | None) -> Memory:
        """The context after that block was cut."""

    def once(self) -> Float[Tensor, "B K S"]:
        """Losses of all blocks, earlier ones whole."""


class Prediction:
    """Judges blocks by the scorer."""

    def __init__(self, scorer: Scorer, encoding: Encoding) -> None:
        self.scorer = scorer
        self.encoding = encoding

    @property
    def lengths(self) -> tuple[int, ...]:
        """Candidate lengths."""
        return self.scorer.lengths

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and blocks."""
        batch, blocks, _ = self.encoding.codes.shape
        return batch, blocks

    def score(self, block: int, memory: Memory | None) -> Scores:
        """Predicted losses of one block in context."""
        return self.scorer.score_block(self.encoding.blocks(block, block + 1), memory)

    def remember(self, block: int, kept: Kept, memory: Memory | None) -> Memory:
        """The scorer's memory after that block was cut."""
        part = self.encoding.blocks(block, block + 1)
        return self.scorer.remember(part, kept.to(part.codes.device), memory)

    def once(self) -> Float[Tensor, "B K S"]:
        """Predicted losses of all blocks in a single pass."""
        return self.scorer.score_once(self.encoding)


@dataclass(frozen=True)
class Judged:
    """An allocation of B clips of K blocks, and the scores that decided it."""

    kept: Int[np.ndarray, "B K"]
    table: ScoreTable
    allocation: Allocation


@torch.no_grad()
def judge(
    by: Judge,
    budget: Budget,
    strategy: Strategy = ipal,
    scope: Scope = clip,
    pace: Pace | None = None,
    in_context: bool = True,
    monotone: bool = False,
    motion: Float[np.ndarray, "B K"] | None = None,
) -> Judged:
    """Score and allocate the blocks of a batch of clips.

    `monotone` projects scores to be non-increasing in length before they are used.
    """
    batch, blocks = by.shape
    lengths = np.asarray(by.lengths)
    loss = _losses(by.once(), monotone)
    table = ScoreTable.of_clips(loss, lengths, motion)
    if not in_context:
        allocation = allocate(table, budget, strategy, scope, pace)
        return Judged(allocation.kept.reshape(batch, blocks), table, allocation)
    group = scope(table)
    targets = {number: budget.resolve(table.select(group == number), pace) for number in np.unique(group)}
    kept = np.zeros(table.rows, np.int64)
    memory = None
    for k in range(blocks):
        if k > 0:
            loss[:, k] = _losses(by.score(k, memory), monotone)
            table = ScoreTable.of_clips(loss, lengths, motion)
        for number in np.unique(group[table.block == k]):
            members = group == number
            rest = np.flatnonzero(members & (table.block >= k))
            done = members & (table.block < k)
            part = table.select(rest)
            target = _rest(targets[number], budget, table.select(done) if done.any() else None, kept[done], part)
            now = table.block[rest] == k
            kept[rest[now]] = strategy(part, target).kept[now]
        if k + 1 < blocks:
            column = torch.as_tensor(kept.reshape(batch, blocks)[:, k : k + 1])
            memory = by.remember(k, column, memory)
    asked = sum(target.tokens for target in targets.values())
    met = int(kept.sum()) == asked if budget.quality is None else table.loss_of(kept) <= budget.quality * table.rows
    allocation = Allocation(kept=kept, loss=table.loss_of(kept), asked=max(asked, int(kept.sum())), met=bool(met))
    return Judged(kept.reshape(batch, blocks), table, allocation)


def _losses(scores: Float[Tensor, "..."], monotone: bool) -> Float[np.ndarray, "..."]:
    loss = scores.cpu().double().numpy()
    return non_increasing(loss.reshape(-1, loss.shape[-1])).reshape(loss.shape) if monotone else loss


def _rest(
    target: Target, budget: Budget, done: ScoreTable | None, spent: Int[np.ndarray, " N"], part: ScoreTable
) -> Target:
    """What a group may still spend on the rows in `part`; a quality is met by all its rows together."""
    if budget.quality is None:
        return replace(target, tokens=target.tokens - int(spent.sum()))
    allowed = budget.quality * (part.rows + len(spent)) - (0.0 if done is None else done.loss_of(spent))
    return replace(budget, quality=allowed / part.rows).resolve(part)
