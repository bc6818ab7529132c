"""Quality of a reconstruction: pixels, structure, perception, and distances between sets of videos.

Start at spans.py (per-frame, per-block and per-video values), then pixels, ssim, lpips, i3d, statistics, fvd;
the published weights arrive by sources, unpickle, convert, weights.
"""

from adaptok.metrics.fvd import FVD, FewSamplesWarning, frechet_distance
from adaptok.metrics.i3d import I3D
from adaptok.metrics.lpips import LPIPS
from adaptok.metrics.pixels import mse, psnr
from adaptok.metrics.sources import WeightsError
from adaptok.metrics.spans import mean_over_spans, per_frame
from adaptok.metrics.ssim import image_ssim, ssim
from adaptok.metrics.statistics import FeatureStatistics

__all__ = [
    "FVD",
    "I3D",
    "LPIPS",
    "FeatureStatistics",
    "FewSamplesWarning",
    "WeightsError",
    "frechet_distance",
    "image_ssim",
    "mean_over_spans",
    "mse",
    "per_frame",
    "psnr",
    "ssim",
]
