"""FVD: the Fréchet distance between the I3D logits of two sets of videos.

In: real and fake videos (B,3,T,H,W) in [0,1], in batches. Out: one number, zero for identical sets.
Resizing and scaling are those of the StyleGAN-V protocol (i3d.py), covariances are unbiased (statistics.py).

With fewer samples than dimensions the covariances are singular, and the usual `sqrtm` of their product is
ill-conditioned. Here each covariance is factored through its eigenvectors, C = F Fᵀ, directions below
rounding are dropped, and tr √(C₁C₂) is the sum of the singular values of F₁ᵀF₂: exact at any rank, with
nothing added to a diagonal. The number is right for these samples, but as an estimate biased upwards: a
warning says so.
"""

import warnings

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from adaptok.metrics.i3d import I3D
from adaptok.metrics.statistics import FeatureStatistics

MIN_VIDEOS = 2
"""A covariance of one video is undefined."""


class FewSamplesWarning(UserWarning):
    """A Fréchet distance from no more samples than dimensions: comparable at equal counts only."""


def frechet_distance(a: Tensor | np.ndarray | FeatureStatistics, b: Tensor | np.ndarray | FeatureStatistics) -> float:
    """Squared Fréchet distance of the Gaussians fitted to two sets of features (N,D), or of statistics."""
    first, second = (x if isinstance(x, FeatureStatistics) else FeatureStatistics.of(x) for x in (a, b))
    if len(first.mean) != len(second.mean):
        raise ValueError(f"cannot compare features of widths {len(first.mean)} and {len(second.mean)}")
    fewest, width = min(first.count, second.count), len(first.mean)
    if fewest < MIN_VIDEOS:
        raise ValueError(f"a Fréchet distance needs at least {MIN_VIDEOS} samples of each kind, got {fewest}")
    if fewest <= width:
        warnings.warn(
            f"Fréchet distance from {fewest} samples of {width} dimensions: biased upwards, "
            "compare it only with distances from as many samples",
            FewSamplesWarning,
            stacklevel=2,
        )
    covariances = first.covariance, second.covariance
    overlap = torch.linalg.svdvals(_factor(covariances[0]).T @ _factor(covariances[1])).sum()
    spread = covariances[0].trace() + covariances[1].trace() - 2 * overlap
    # The spread is not negative; rounding may leave it a hair below zero for equal sets.
    return float((first.mean - second.mean).square().sum() + spread.clamp(min=0))


class FVD:
    """Gathers two sets of videos batch by batch; `merge` joins what several workers gathered."""

    def __init__(self, network: I3D | None = None) -> None:
        self.network = I3D() if network is None else network
        self.real: FeatureStatistics | None = None
        self.fake: FeatureStatistics | None = None

    def update(
        self,
        *,
        real: Float[Tensor, "B 3 T H W"] | None = None,
        fake: Float[Tensor, "B2 3 T2 H2 W2"] | None = None,
    ) -> None:
        """Add videos in [0,1] to either set or both, on the network's device."""
        if real is not None:
            self.real = _joined(self.real, self._features(real))
        if fake is not None:
            self.fake = _joined(self.fake, self._features(fake))

    def merge(self, other: "FVD") -> None:
        """Add everything another worker gathered."""
        self.real = _joined(self.real, other.real)
        self.fake = _joined(self.fake, other.fake)

    def compute(self) -> float:
        """The distance between the two sets so far; each needs at least 2 videos."""
        return frechet_distance(_enough("real", self.real), _enough("fake", self.fake))

    @torch.inference_mode()
    def _features(self, videos: Float[Tensor, "B 3 T H W"]) -> FeatureStatistics:
        return FeatureStatistics.of(self.network(videos))


def _enough(kind: str, gathered: FeatureStatistics | None) -> FeatureStatistics:
    if gathered is None or gathered.count < MIN_VIDEOS:
        count = 0 if gathered is None else gathered.count
        raise ValueError(f"FVD needs at least {MIN_VIDEOS} {kind} videos, got {count}")
    return gathered


def _joined(old: FeatureStatistics | None, new: FeatureStatistics | None) -> FeatureStatistics | None:
    if old is None or new is None:
        return old or new
    return old.merge(new)


def _factor(covariance: Float64[Tensor, "D D"]) -> Float64[Tensor, "D R"]:
    """F with C = F Fᵀ, one column per eigenvalue that rounding has not swallowed."""
    values, vectors = torch.linalg.eigh(covariance)
    floor = values[-1].clamp(min=0) * len(values) * torch.finfo(values.dtype).eps
    kept = values > floor
    return vectors[:, kept] * values[kept].sqrt()
