"""How sure a number is: confidence intervals by drawing the videos again.

In: one value (or feature vector) per clip, and which video each clip is of. Out: an interval around the estimate. Whole
videos are drawn, since clips of one video resemble each other, and every point gets the same draws. Next: result.py.

The interval is the spread of the resampled values around their own mean, laid around the estimate. For means this is
the percentile interval. For FVD it matters: a resample has fewer distinct videos, and fewer videos mean a larger FVD,
so plain percentiles would lie above the estimate. What the interval covers is the FVD of this many videos.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

CONFIDENCE = 0.95
FVD_RESAMPLES = 200
"""Each takes a factorisation of features."""


def draws(videos: Int[np.ndarray, " N"], resamples: int, seed: int) -> Int[np.ndarray, "R N"]:
    """How often each clip occurs in each resample of the videos."""
    names, member = np.unique(videos, return_inverse=True)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    return times[:, member]


def resampled_means(values: Float[np.ndarray, " N"], counts: Int[np.ndarray, "R N"]) -> Float[np.ndarray, " R"]:
    """The mean over clips in every resample."""
    return counts @ values / counts.sum(axis=1)


def resampled_distances(
    real: Float[Tensor, "N D"], fake: Float[Tensor, "N D"], counts: Int[np.ndarray, "R N"]
) -> Float[np.ndarray, " R"]:
    """The Fréchet distance in every resample of at least two clips."""
    real, fake = real.double(), fake.double()
    rows = (torch.from_numpy(row) for row in counts[:FVD_RESAMPLES])
    return np.array([weighted_distance(real, fake, row) for row in rows if row.sum() > 1])


def weighted_distance(real: Float[Tensor, "N D"], fake: Float[Tensor, "N D"], counts: Int[Tensor, " N"]) -> float:
    """Squared Fréchet distance of two sets in which clip i occurs `counts[i]` times.

    A covariance is AᵀA for the weighted deviations A (N,D), so tr √(C₁C₂) is the sum of the singular values of A₁A₂ᵀ;
    with A = QR those are the singular values of R₁R₂ᵀ, which is small however many clips there are.
    """
    used = counts > 0
    weight = counts[used].double()[:, None]
    total = weight.sum()
    means, factors, trace = [], [], 0.0
    for rows in (real[used], fake[used]):
        means.append((weight * rows).sum(dim=0) / total)
        deviations = (rows - means[-1]) * (weight / (total - 1)).sqrt()
        trace += float(deviations.square().sum())
        factors.append(torch.linalg.qr(deviations, mode="r").R)
    overlap = float(torch.linalg.svdvals(factors[0] @ factors[1].T).sum())
    return float((means[0] - means[1]).square().sum()) + max(0.0, trace - 2 * overlap)


def interval(estimate: float, resampled: Float[np.ndarray, " R"]) -> tuple[float, float]:
    """Low and high end: the resamples' spread around their mean, around the estimate."""
    if len(resampled) == 0:
        return estimate, estimate
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled - resampled.mean(), [tail, 1 - tail])
    return estimate + float(low), estimate + float(high)
