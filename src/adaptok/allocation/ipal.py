"""`ipal`: the least predicted loss that the budget allows, exactly. The default strategy.

The paper's integer program (Sec. 3.3) solved by `solve` instead of a general solver. Next on the walk: `scope`.
"""

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.feasible import InfeasibleTotal
from adaptok.allocation.problem import Allocation, ScoreTable, Target
from adaptok.allocation.solve import solve


def ipal(table: ScoreTable, target: Target) -> Allocation:
    """Optimal lengths that spend exactly the target, or the largest total below it that lengths can add up to."""
    return Allocation.of(table, closest_from_below(table.loss, table.lengths, target), target)


def closest_from_below(
    loss: Float[np.ndarray, "R S"], lengths: Int[np.ndarray, " S"], target: Target
) -> Int[np.ndarray, " R"]:
    """Lengths of least loss among those that spend the target, or else as much of it as is feasible."""
    try:
        return solve(loss, lengths, target.tokens, lower=target.lower, upper=target.upper)
    except InfeasibleTotal as error:
        if error.below is None:
            raise
        return solve(loss, lengths, error.below, lower=target.lower, upper=target.upper)
