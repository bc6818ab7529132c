"""I3D: the video classifier (RGB, Kinetics-400) whose 400 logits FVD compares.

In: videos (N,3,T,H,W) in [0,1]. Out: logits (N,400). Frames of another size are resized to 224×224 as the
StyleGAN-V protocol does (bilinear, half-pixel centres, no antialiasing), then scaled to [-1,1].
The published network has batch norm without scale after every convolution; conversion folds it into the
convolutions (convert.py), which is exact for a frozen network. Next on the walk: fvd.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from adaptok.metrics.weights import load_weights

SIZE = 224
"""Height and width the network was trained at."""

MIN_FRAMES = 9
"""Time is halved three times, rounding up, and the last pool spans two steps."""

T = TypeVar("T")
Triple = tuple[int, int, int]
Features = Float[Tensor, "N C t h w"]


class Widths(NamedTuple):
    """Channels of one Inception module, branch by branch."""

    direct: int
    wide_in: int
    wide: int
    narrow_in: int
    narrow: int
    pooled: int


MIXED: Mapping[str, Widths] = {
    "3b": Widths(64, 96, 128, 16, 32, 32),
    "3c": Widths(128, 128, 192, 32, 96, 64),
    "4b": Widths(192, 96, 208, 16, 48, 64),
    "4c": Widths(160, 112, 224, 24, 64, 64),
    "4d": Widths(128, 128, 256, 24, 64, 64),
    "4e": Widths(112, 144, 288, 32, 64, 64),
    "4f": Widths(256, 160, 320, 32, 128, 128),
    "5b": Widths(256, 160, 320, 32, 128, 128),
    "5c": Widths(384, 192, 384, 48, 128, 128),
}
"""The modules in order, by the names of the published network."""


class I3D(nn.Module):
    """The frozen network with its published weights, fetched on first use; gradients reach the input only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(3, 64, 7, stride=2)
        self.conv2 = Pointwise(64, 64)
        self.conv3 = nn.Conv3d(64, 192, 3, padding=1)
        self.mixed = nn.ModuleDict()
        channels = 192
        for name, widths in MIXED.items():
            self.mixed[name] = Inception(channels, widths)
            channels = widths.direct + widths.wide + widths.narrow + widths.pooled
        self.logits = nn.Linear(channels, 400)
        self.load_state_dict(load_weights("i3d"))
        # PyTorch's own annotations leave `memory_format` out.
        self.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
        self.eval().requires_grad_(False)

    def forward(self, video: Float[Tensor, "N 3 T H W"]) -> Float[Tensor, "N 400"]:
        """Logits of each video; a video of fewer than 9 frames is a ValueError."""
        x = prepare(video).contiguous(memory_format=torch.channels_last_3d)
        x = F.relu(self.conv1(_pad_same(x, (7, 7, 7), (2, 2, 2))), inplace=True)
        x = _max_pool_same(x, (1, 3, 3), (1, 2, 2))
        x = F.relu(self.conv2(x), inplace=True)
        x = F.relu(self.conv3(x), inplace=True)
        x = _max_pool_same(x, (1, 3, 3), (1, 2, 2))
        x = self.mixed["3c"](self.mixed["3b"](x))
        x = _max_pool_same(x, (3, 3, 3), (2, 2, 2))
        for name in ("4b", "4c", "4d", "4e", "4f"):
            x = self.mixed[name](x)
        x = _max_pool_same(x, (2, 2, 2), (2, 2, 2))
        x = self.mixed["5c"](self.mixed["5b"](x))
        # The network averages over 2×7×7 windows, classifies each and averages the logits; the classifier is
        # linear, so that averaging first gives the same.
        steps = x.mean(dim=(3, 4))
        pairs = (steps[..., 1:] + steps[..., :-1]) / 2
        return self.logits(pairs.mean(dim=2))


class Inception(nn.Module):
    """Four branches over the same features, concatenated: 1×1, twice 1×1 then 3×3×3, pool then 1×1."""

    def __init__(self, channels: int, widths: Widths) -> None:
        super().__init__()
        self.heads = [widths.direct, widths.wide_in, widths.narrow_in]
        # The first convolutions of three branches read the same input: one call computes them all.
        self.squeeze = Pointwise(channels, sum(self.heads))
        self.wide = nn.Conv3d(widths.wide_in, widths.wide, 3, padding=1)
        self.narrow = nn.Conv3d(widths.narrow_in, widths.narrow, 3, padding=1)
        self.pooled = Pointwise(channels, widths.pooled)

    def forward(self, x: Features) -> Float[Tensor, "N C2 t h w"]:
        """Same extent, the channels of all four branches."""
        direct, wide, narrow = F.relu(self.squeeze(x), inplace=True).split(self.heads, dim=1)
        pooled = self.pooled(F.max_pool3d(x, 3, stride=1, padding=1))
        branches = F.relu(torch.cat([self.wide(wide), self.narrow(narrow), pooled], dim=1), inplace=True)
        return torch.cat([direct, branches], dim=1)


class Pointwise(nn.Linear):
    """A 1×1×1 convolution as the matrix product it is, free of copies when channels lie last in memory.

    On the CPU the convolution adds up all input channels in one float32 chain, the product adds in blocks:
    the worst relative error of a logit falls from 1.3e-3 (at a logit of 0.004) to 5e-4, at the same speed.
    """

    def forward(self, x: Features) -> Float[Tensor, "N C2 t h w"]:
        """Same extent, `out_features` channels."""
        return super().forward(x.permute(0, 2, 3, 4, 1)).permute(0, 4, 1, 2, 3)


def by_twos(videos: Sequence[T]) -> Iterator[Sequence[T]]:
    """The videos two by two, the last ones by three if they are odd.

    One alone takes nearly twice the time a video: PyTorch has slower convolutions for it. More gain nothing.
    """
    ends = [*range(2, len(videos) - 1, 2), len(videos)]
    for start, end in zip([0, *ends], ends, strict=False):
        yield videos[start:end]


def prepare(video: Float[Tensor, "N 3 T H W"]) -> Float[Tensor, "N 3 T 224 224"]:
    """Resize to 224×224 where needed and scale [0,1] to [-1,1]."""
    frames, height, width = video.shape[2:]
    if frames < MIN_FRAMES:
        raise ValueError(f"I3D needs videos of at least {MIN_FRAMES} frames, got {frames}")
    if (height, width) != (SIZE, SIZE):
        flat = video.transpose(1, 2).flatten(0, 1)
        flat = F.interpolate(flat, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
        video = flat.unflatten(0, (-1, frames)).transpose(1, 2)
    return 2 * video - 1


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """TensorFlow's "SAME": ceil(size / stride) outputs, an odd pixel of padding goes behind."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _pad_same(x: Features, kernel: Triple, stride: Triple) -> Float[Tensor, "N C t2 h2 w2"]:
    pads = [same_padding(*axis) for axis in zip(x.shape[2:], kernel, stride, strict=True)]
    # F.pad counts axes from the last.
    return F.pad(x, [side for pad in reversed(pads) for side in pad])


def _max_pool_same(x: Features, kernel: Triple, stride: Triple) -> Float[Tensor, "N C t2 h2 w2"]:
    # Zeros in place of minus infinity: features are rectified, so that padding never exceeds a feature.
    return F.max_pool3d(_pad_same(x, kernel, stride), kernel, stride)
