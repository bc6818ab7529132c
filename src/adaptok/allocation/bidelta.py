"""`bidelta`: one marginal gain for every row. Each grows until the next candidate improves it by less than a threshold.

Algorithm 2 of the appendix with differences of scores; see `threshold` for its corrected line. Next: `ilp`.
"""

import numpy as np

from adaptok.allocation.problem import Allocation, ScoreTable, Target
from adaptok.allocation.threshold import search_threshold


def bidelta(table: ScoreTable, target: Target) -> Allocation:
    """Lengths at which the gain of the next candidate first drops below the lowest affordable threshold."""
    gain = -np.diff(table.loss, axis=1)
    return Allocation.of(table, search_threshold(gain, table.lengths, target), target)
