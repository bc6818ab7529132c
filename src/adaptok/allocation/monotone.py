"""In: predicted losses. Out: the nearest losses that never rise with length, for scorers that are locally noisy.

More tokens cannot truly hurt, but predictions wobble. The projection is optional: strategies accept any losses.
Next on the walk: `problem`.
"""

import numpy as np
from jaxtyping import Float


def non_increasing(loss: Float[np.ndarray, "R S"]) -> Float[np.ndarray, "R S"]:
    """The non-increasing rows nearest to `loss` in least squares.

    This is what pooling adjacent violators arrives at, by its closed form: the least over a <= i of the greatest over
    b >= i of the mean from a to b. For each a all rows and all b are done at once.
    """
    count = loss.shape[1]
    out = np.full(loss.shape, np.inf)
    for a in range(count):
        mean = np.cumsum(loss[:, a:], axis=1, dtype=np.float64) / np.arange(1, count - a + 1)
        greatest = np.maximum.accumulate(mean[:, ::-1], axis=1)[:, ::-1]
        np.minimum(out[:, a:], greatest, out=out[:, a:])
    return out
