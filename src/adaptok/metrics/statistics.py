"""Mean and covariance of features, gathered in any order and on any number of workers.

In: batches of features (N,D). Out: `FeatureStatistics`, a value; `merge` of two covers both sets.
Everything is float64 on the CPU, whatever the features are. Next on the walk: fvd.py.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor


@dataclass(frozen=True)
class FeatureStatistics:
    """Sums that fix a Gaussian: `scatter` is the sum of outer products of deviations from the mean.

    Deviations are kept, not raw products, so that a large mean does not drown a small spread.
    """

    count: int
    mean: Float64[Tensor, "D"]
    scatter: Float64[Tensor, "D D"]

    @classmethod
    def of(cls, features: Tensor | np.ndarray) -> "FeatureStatistics":
        """Statistics of one batch of features (N,D); N may be any number from 1."""
        rows = torch.as_tensor(features).detach().to("cpu", torch.float64)
        if rows.ndim != 2 or len(rows) == 0:
            raise ValueError(f"features must be a non-empty (N,D) array, got shape {tuple(rows.shape)}")
        if not rows.isfinite().all():
            raise ValueError("features hold values that are not finite")
        mean = rows.mean(dim=0)
        deviations = rows - mean
        return cls(len(rows), mean, deviations.T @ deviations)

    def merge(self, other: "FeatureStatistics") -> "FeatureStatistics":
        """Statistics of both sets together."""
        if len(self.mean) != len(other.mean):
            raise ValueError(f"cannot merge features of widths {len(self.mean)} and {len(other.mean)}")
        count = self.count + other.count
        shift = other.mean - self.mean
        share = other.count / count
        between = torch.outer(shift, shift) * (self.count * share)
        return FeatureStatistics(count, self.mean + shift * share, self.scatter + other.scatter + between)

    @property
    def covariance(self) -> Float64[Tensor, "D D"]:
        """Unbiased, as `numpy.cov` computes it; one sample has none."""
        if self.count < 2:
            raise ValueError(f"a covariance needs at least 2 samples, got {self.count}")
        return self.scatter / (self.count - 1)
