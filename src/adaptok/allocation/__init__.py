"""How many tokens each block gets: the problem, its exact solution, and strategies, budgets and scopes around it.

The walk: `problem` (score table, target, allocation) -> `budget` -> a strategy (`ipal` first) -> `scope`; beneath them
`solve` with its kernels `hull`, `core`, `search`; beside them `live` and `corpus`.
"""

from adaptok.allocation.budget import Budget, Pace
from adaptok.allocation.corpus import CorpusPrice, corpus_price
from adaptok.allocation.feasible import InfeasibleTotal
from adaptok.allocation.live import Live, LiveState
from adaptok.allocation.monotone import non_increasing
from adaptok.allocation.names import SCOPES, STRATEGIES, scope_named, strategy_named
from adaptok.allocation.problem import Allocation, ScoreTable, Strategy, Target
from adaptok.allocation.scope import Scope, allocate
from adaptok.allocation.solve import solve

__all__ = [
    "SCOPES",
    "STRATEGIES",
    "Allocation",
    "Budget",
    "CorpusPrice",
    "InfeasibleTotal",
    "Live",
    "LiveState",
    "Pace",
    "Scope",
    "ScoreTable",
    "Strategy",
    "Target",
    "allocate",
    "corpus_price",
    "non_increasing",
    "scope_named",
    "solve",
    "strategy_named",
]
