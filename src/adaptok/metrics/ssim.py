"""SSIM with the standard window: Gaussian, 11×11, sigma 1.5.

In: two videos (B,3,T,H,W) in [0,1]. Out: one value per span of frames (B,G), see spans.py. Only windows
that lie wholly inside the frame count, channels are averaged, and variances are population variances: the
definition of the original paper. Next on the walk: lpips.py.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.metrics.spans import check_pair, mean_over_spans, per_frame

WINDOW = 11
SIGMA = 1.5
C1 = 0.01**2
C2 = 0.03**2
"""Stabilisers for a data range of 1."""


def ssim(a: Float[Tensor, "B C T H W"], b: Float[Tensor, "..."], frames: int | None = None) -> Float[Tensor, "B G"]:
    """Mean structural similarity over each span of `frames` frames (1: each frame; None: the whole video)."""
    return mean_over_spans(per_frame(image_ssim, a, b), frames)


def image_ssim(a: Float[Tensor, "N C H W"], b: Float[Tensor, "..."]) -> Float[Tensor, "N"]:
    """Structural similarity of each pair of images, differentiable with respect to both."""
    check_pair(a, b)
    if min(a.shape[2:]) < WINDOW:
        raise ValueError(f"SSIM needs frames of at least {WINDOW}×{WINDOW}, got {a.shape[2]}×{a.shape[3]}")
    # Variances are small differences of large numbers: half precision would lose them.
    with torch.autocast(a.device.type, enabled=False):
        a, b = _at_least_float32(a), _at_least_float32(b)
        moments = _blur(torch.stack([a, b, a * a, b * b, a * b]))
    mean_a, mean_b, aa, bb, ab = moments
    products = mean_a * mean_b
    squares = mean_a.square() + mean_b.square()
    luminance = (2 * products + C1) / (squares + C1)
    structure = (2 * (ab - products) + C2) / (aa + bb - squares + C2)
    return (luminance * structure).mean(dim=(1, 2, 3))


def _blur(x: Float[Tensor, "*planes H W"]) -> Float[Tensor, "*planes h w"]:
    """Weighted mean of every window inside the plane: rows, then columns, as the Gaussian is separable.

    Shifted copies are added up, pairs of equal weight at once: on a processor four times as fast as a convolution of
    one channel.
    """
    distances = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    taps = torch.softmax(-distances.square() / (2 * SIGMA**2), dim=0).tolist()
    for dim in (-1, -2):
        size = x.shape[dim] - WINDOW + 1
        total = taps[WINDOW // 2] * x.narrow(dim, WINDOW // 2, size)
        for i in range(WINDOW // 2):
            pair = x.narrow(dim, i, size) + x.narrow(dim, WINDOW - 1 - i, size)
            total = total.add(pair, alpha=taps[i])
        x = total
    return x


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
