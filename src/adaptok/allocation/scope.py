"""In: a score table, a budget, a strategy, a scope. Out: one allocation for the whole table.

A scope says which rows share a budget: it gives every row the number of its group. Each group's budget is resolved
and spent on its own, so a `total` is per group, and under `clip` a video's tokens never depend on other videos.
For blocks that arrive one by one see `live`; for corpora larger than memory see `corpus`.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Int

from adaptok.allocation.budget import Budget, Pace
from adaptok.allocation.ipal import ipal
from adaptok.allocation.problem import Allocation, ScoreTable, Strategy

Scope: TypeAlias = Callable[[ScoreTable], Int[np.ndarray, " R"]]
"""Which rows share a budget: the number of each row's group."""


def clip(table: ScoreTable) -> Int[np.ndarray, " R"]:
    """The blocks of one video share its budget. The default."""
    return table.video


def batch(table: ScoreTable) -> Int[np.ndarray, " R"]:
    """All rows share one budget: easy videos pay for hard ones."""
    return np.zeros_like(table.video)


def index(table: ScoreTable) -> Int[np.ndarray, " R"]:
    """Blocks at the same place in their videos share a budget: the paper's scope, for reproducing it."""
    return table.block


def allocate(
    table: ScoreTable,
    budget: Budget,
    strategy: Strategy = ipal,
    scope: Scope = clip,
    pace: Pace | None = None,
) -> Allocation:
    """Allocate every group of rows on its own and report on all of them together."""
    group = scope(table)
    kept = np.empty(table.rows, np.int64)
    parts = []
    for number in np.unique(group):
        rows = np.flatnonzero(group == number)
        part = table.select(rows)
        parts.append(strategy(part, budget.resolve(part, pace)))
        kept[rows] = parts[-1].kept
    return Allocation(
        kept=kept,
        loss=table.loss_of(kept),
        asked=sum(part.asked for part in parts),
        met=all(part.met for part in parts),
    )
