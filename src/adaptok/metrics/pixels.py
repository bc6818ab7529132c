"""Errors of pixel values: MSE and PSNR.

In: two videos (B,3,T,H,W) in [0,1]. Out: one value per span of frames (B,G), see spans.py. Next: ssim.py.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.metrics.spans import check_pair, mean_over_spans


def mse(a: Float[Tensor, "B C T H W"], b: Float[Tensor, "..."], frames: int | None = None) -> Float[Tensor, "B G"]:
    """Mean squared error over each span of `frames` frames (1: each frame; None: the whole video)."""
    check_pair(a, b)
    return mean_over_spans((a - b).square().mean(dim=(1, 3, 4)), frames)


def psnr(a: Float[Tensor, "B C T H W"], b: Float[Tensor, "..."], frames: int | None = None) -> Float[Tensor, "B G"]:
    """Peak signal-to-noise ratio in dB, of the span's mean squared error; infinite where a span is identical.

    This is not the mean of the frames' ratios, which is `psnr(a, b, frames=1).mean(1)` and never smaller.
    """
    return -10 * torch.log10(mse(a, b, frames))
