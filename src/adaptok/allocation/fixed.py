"""`fixed`: the same number of tokens everywhere, whatever the scores say. The baseline of the paper's appendix.

An average between two candidate lengths is met by mixing them, evenly and always in the same way: the running total
stays as close as it can to the average's line. Next on the walk: `motion`, which shifts tokens without a scorer.
"""

import numpy as np

from adaptok.allocation.ipal import closest_from_below
from adaptok.allocation.problem import Allocation, ScoreTable, Target


def fixed(table: ScoreTable, target: Target) -> Allocation:
    """Lengths as near to the average as the target allows."""
    average = target.tokens / table.rows
    distance = np.broadcast_to((table.lengths - average) ** 2, table.loss.shape)
    lengths, left = np.unique(closest_from_below(distance, table.lengths, target), return_counts=True)
    slope = float(lengths @ left) / table.rows
    kept = np.empty(table.rows, np.int64)
    spent = 0
    for row in range(table.rows):
        off_line = np.where(left > 0, np.abs(spent + lengths - slope * (row + 1)), np.inf)
        pick = int(off_line.argmin())
        kept[row] = lengths[pick]
        spent += int(lengths[pick])
        left[pick] -= 1
    return Allocation.of(table, kept, target)
