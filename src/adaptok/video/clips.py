"""Frames to the model's clips and back: size, blocks of n frames, numbers in [0, 1].

In come `Frame`s of any size, out go blocks of exactly n images at the model's size and tensors in the project's layout,
and back. Images already at the wanted size pass untouched, bit for bit. Next on the walk: `blocks/`, the model's side
of the same blocks; `writer.py` takes the frames that come back.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn.functional import interpolate

from adaptok.video.frame import Frame, Image, VideoError


@dataclass(frozen=True, eq=False)
class FrameBlock:
    """n images in a row; the last `len(images) - frames` repeat the last real one."""

    index: int
    images: UInt8[np.ndarray, "T H W 3"]
    timestamps: tuple[int, ...]
    """Of the real frames only."""

    @property
    def frames(self) -> int:
        """How many of the images are real."""
        return len(self.timestamps)


def in_blocks(frames: Iterable[Frame], size: int) -> Iterator[FrameBlock]:
    """Groups of `size` frames as they come; the last group is padded by repeating its last frame.

    Repeating, not black: a still tail costs the tokenizer few tokens and disturbs no real frame.
    """
    if size < 1:
        raise VideoError(f"blocks of {size} frames; at least 1 is needed")
    waiting: list[Frame] = []
    index = 0
    for frame in frames:
        waiting.append(frame)
        if len(waiting) == size:
            yield _block(index, waiting, size)
            index += 1
            waiting = []
    if waiting:
        yield _block(index, waiting, size)


def _block(index: int, frames: list[Frame], size: int) -> FrameBlock:
    images: list[Image] = [frame.image for frame in frames]
    images += images[-1:] * (size - len(images))
    return FrameBlock(index, np.stack(images), tuple(frame.pts for frame in frames))


def to_video(images: UInt8[np.ndarray, "T H W 3"]) -> Float[Tensor, "1 3 T H W"]:
    """0..255 to [0, 1], colour before time before space, as the model takes it."""
    return torch.from_numpy(images).permute(3, 0, 1, 2)[None].float() / 255


def to_images(video: Float[Tensor, "1 3 T H W"]) -> UInt8[np.ndarray, "T H W 3"]:
    """[0, 1] to 0..255, rounded and clipped; the exact opposite of `to_video`."""
    scaled = (video[0].detach().float() * 255).round().clamp(0, 255).to(torch.uint8)
    return np.ascontiguousarray(scaled.permute(1, 2, 3, 0).cpu().numpy())


def stretched(images: UInt8[np.ndarray, "T H1 W1 3"], height: int, width: int) -> UInt8[np.ndarray, "T H2 W2 3"]:
    """All of the picture at another size, its shape not kept: what the codec uses, since it can be undone."""
    if images.shape[1:3] == (height, width):
        return images
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float()
    # Bicubic with antialiasing is Pillow's and torchvision's: sharp when enlarging, no moiré when reducing.
    resized = interpolate(pixels, size=(height, width), mode="bicubic", antialias=True, align_corners=False)
    return np.ascontiguousarray(resized.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy())


def centre_cropped(images: UInt8[np.ndarray, "T H1 W1 3"], height: int, width: int) -> UInt8[np.ndarray, "T H2 W2 3"]:
    """The largest centred part of the wanted shape, at the wanted size: what training and published figures use."""
    if images.shape[1:3] == (height, width):
        return images
    source_height, source_width = images.shape[1:3]
    scale = max(height / source_height, width / source_width)
    # Cut first, then resize: pixels that will be thrown away need no filtering.
    cut_height = min(source_height, max(1, round(height / scale)))
    cut_width = min(source_width, max(1, round(width / scale)))
    top, left = (source_height - cut_height) // 2, (source_width - cut_width) // 2
    part = images[:, top : top + cut_height, left : left + cut_width]
    return stretched(np.ascontiguousarray(part), height, width)
