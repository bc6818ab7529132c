"""LPIPS (version 0.1): how different two images look, by the features of a frozen classifier.

In: two batches of images (N,3,H,W) in [0,1], or two videos. Out: one distance per image (N,), or per span of
frames. Differentiable with respect to the images, so that it serves as a loss. Next on the walk: i3d.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from adaptok.metrics.spans import check_pair, mean_over_spans, per_frame
from adaptok.metrics.weights import load_weights


@dataclass(frozen=True)
class Conv:
    """A convolution followed by a rectifier."""

    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1


@dataclass(frozen=True)
class Stage:
    """Convolutions whose last output is compared, after a max pool of kernel `pool` and stride 2 if any."""

    pool: int | None
    convs: tuple[Conv, ...]


@dataclass(frozen=True)
class Backbone:
    """A classifier's convolutional part and the smallest image that survives its pools."""

    min_size: int
    stages: tuple[Stage, ...]


BACKBONES: Mapping[str, Backbone] = {
    "alex": Backbone(
        min_size=31,
        stages=(
            Stage(None, (Conv(64, kernel=11, stride=4, padding=2),)),
            Stage(3, (Conv(192, kernel=5, padding=2),)),
            Stage(3, (Conv(384),)),
            Stage(None, (Conv(256),)),
            Stage(None, (Conv(256),)),
        ),
    ),
    "vgg": Backbone(
        min_size=16,
        stages=(
            Stage(None, (Conv(64),) * 2),
            Stage(2, (Conv(128),) * 2),
            Stage(2, (Conv(256),) * 3),
            Stage(2, (Conv(512),) * 3),
            Stage(2, (Conv(512),) * 3),
        ),
    ),
}

Images = Float[Tensor, "N 3 H W"]

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class LPIPS(nn.Module):
    """The frozen network ("alex" or "vgg") with its published weights, fetched on first use."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: str) -> None:
        super().__init__()
        if net not in BACKBONES:
            raise ValueError(f"LPIPS has no network {net!r}; there are {', '.join(BACKBONES)}")
        self.net = net
        self.convs, self.heads = nn.ModuleList(), nn.ParameterList()
        channels = 3
        for stage in BACKBONES[net].stages:
            for conv in stage.convs:
                self.convs.append(nn.Conv2d(channels, conv.channels, conv.kernel, conv.stride, conv.padding))
                channels = conv.channels
            self.heads.append(torch.empty(channels))
        self.load_state_dict(load_weights(f"lpips-{net}"))
        self.register_buffer("mean", torch.tensor(_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(_STD).view(3, 1, 1), persistent=False)
        # PyTorch's own annotations leave `memory_format` out.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.eval().requires_grad_(False)

    def forward(self, a: Images, b: Float[Tensor, "..."]) -> Float[Tensor, "N"]:
        """Distance of each pair of images; both batches have the same shape."""
        check_pair(a, b)
        smallest = BACKBONES[self.net].min_size
        if min(a.shape[2:]) < smallest:
            size = f"{a.shape[2]}×{a.shape[3]}"
            raise ValueError(f"LPIPS {self.net} needs images of at least {smallest}×{smallest}, got {size}")
        distance = a.new_zeros(len(a))
        for features, head in zip(self._stages(torch.cat([a, b])), self.heads, strict=True):
            # This norm's gradient at an all-zero vector is zero; that of sqrt(sum of squares) would be NaN.
            unit = features / (torch.linalg.vector_norm(features, dim=1, keepdim=True) + 1e-10)
            difference = (unit[: len(a)] - unit[len(a) :]).square()
            distance = distance + torch.einsum("nchw,c->nhw", difference, head).mean(dim=(1, 2))
        return distance

    def video(
        self, a: Float[Tensor, "B 3 T H W"], b: Float[Tensor, "..."], frames: int | None = None
    ) -> Float[Tensor, "B G"]:
        """Mean distance over each span of `frames` frames (1: each frame; None: the whole video)."""
        return mean_over_spans(per_frame(self, a, b), frames)

    def _stages(self, images: Images) -> list[Tensor]:
        """Features after each stage."""
        x, outputs = (images - self.mean) / self.std, []
        convs = iter(self.convs)
        for stage in BACKBONES[self.net].stages:
            if stage.pool is not None:
                x = F.max_pool2d(x, stage.pool, stride=2)
            for _ in stage.convs:
                x = F.relu(next(convs)(x))
            outputs.append(x)
        return outputs
