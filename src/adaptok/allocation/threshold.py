"""The binary search that `bithr` and `bidelta` share: the paper's appendix, Algorithm 2.

The algorithm's line `n_k = argmax(s < s_min)` must read `argmax(s < s_mid)`: as printed the threshold that is being
searched for would never be used. Two more points it leaves open are settled here. A row none of whose scores lies
below the threshold keeps the longest length (an `argmax` over no hits would give it the shortest). And the search
ends on the best threshold that stays within the budget, so what is spent is never more than was asked for.
"""

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.problem import Target

ITERATIONS = 64


def search_threshold(
    scores: Float[np.ndarray, "R N"], lengths: Int[np.ndarray, " S"], target: Target
) -> Int[np.ndarray, " R"]:
    """Lengths at the lowest threshold within the target: each row's first one whose score lies below it.

    `scores[:, n]` belongs to `lengths[n]`; lengths beyond the last score are kept by rows with no score below.
    """

    def first_below(threshold: float) -> Int[np.ndarray, " R"]:
        below = scores < threshold
        first = np.where(below.any(axis=1), below.argmax(axis=1), lengths.size - 1)
        return np.clip(lengths[first], target.lower, target.upper)

    kept = np.full(scores.shape[0], target.lower)
    if scores.shape[1] == 0:
        return kept
    lowest, highest = float(scores.min()), float(scores.max())
    if (all_longest := first_below(lowest)).sum() <= target.tokens:
        return all_longest
    for _ in range(ITERATIONS):
        middle = (lowest + highest) / 2
        trial = first_below(middle)
        if trial.sum() > target.tokens:
            lowest = middle
        else:
            highest = middle
            kept = trial
    return kept
