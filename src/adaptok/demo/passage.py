"""One clip through the codec at one budget, with everything one would like to know of it.

In: frames at the model's size. Out: a `Passage`: tokens, the frames they decode to, numbers per block. Frames are cut
to the model's size first, so that what is compared is what the model saw. Next on the walk: figure.py.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from jaxtyping import Float, UInt8

from adaptok.allocation import Budget
from adaptok.allocation.truth import BlockLoss
from adaptok.metrics import psnr, ssim
from adaptok.stream.codec import Codec, Tokens
from adaptok.stream.compare import predicted_score
from adaptok.video import to_video

Images = UInt8[np.ndarray, "T H W 3"]


@dataclass(frozen=True, eq=False)
class Shown:
    """The clip as the model sees it."""

    name: str
    images: Images
    fps: Fraction

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return float(len(self.images) / self.fps)


@dataclass(frozen=True)
class BlockNumbers:
    """One block of a passage."""

    kept: int
    psnr: float
    predicted: float | None
    """The scorer's word on the kept length."""
    true: float | None
    """What the scorer's metric says of the decoded block; None where that was not measured."""


@dataclass(frozen=True, eq=False)
class Passage:
    """The clip at one budget."""

    budget: float
    """Average tokens per block."""
    tokens: Tokens
    images: Images
    blocks: tuple[BlockNumbers, ...]
    psnr: float
    ssim: float
    fixed_psnr: float
    """Of the same number of tokens spread evenly."""
    bits_per_second: float
    seconds: float
    """Time of encoding and decoding."""


def passage(codec: Codec, clip: Shown, per_block: float, true_loss: BlockLoss | None) -> Passage:
    """Encode under a budget that the blocks of each clip share, decode, compare."""
    strategy = "ipal" if codec.bundle.scorer is not None else "fixed"
    start = time.perf_counter()
    tokens = codec.encode(clip.images, Budget(per_block=per_block), strategy, fps=clip.fps)
    images = codec.decode(tokens)
    seconds = time.perf_counter() - start
    fixed = codec.reconstruct(clip.images, Budget(per_block=per_block), "fixed", fps=clip.fps)
    return Passage(
        budget=per_block,
        tokens=tokens,
        images=images,
        blocks=_blocks(tokens, clip.images, images, codec.geometry.block_frames, true_loss),
        psnr=_mean(psnr, clip.images, images),
        ssim=_mean(ssim, clip.images, images),
        fixed_psnr=_mean(psnr, clip.images, fixed),
        bits_per_second=float(tokens.kept.sum()) * codec.bits_per_token / clip.seconds,
        seconds=seconds,
    )


def _blocks(
    tokens: Tokens, original: Images, decoded: Images, frames: int, true_loss: BlockLoss | None
) -> tuple[BlockNumbers, ...]:
    numbers = []
    for block in tokens.blocks:
        part = slice(block.index * frames, block.index * frames + block.frames)
        a, b = to_video(decoded[part]), to_video(original[part])
        predicted = predicted_score(block.scores, tokens.header.candidates, block.kept)
        with torch.inference_mode():
            true = None if true_loss is None else float(true_loss(a, b)[0])
        numbers.append(BlockNumbers(block.kept, float(psnr(a, b)[0, 0]), predicted, true))
    return tuple(numbers)


def _mean(metric: Callable[..., Float[torch.Tensor, "B S"]], original: Images, decoded: Images) -> float:
    """Of the whole clip at once, as `adaptok evaluate` measures clips."""
    return float(metric(to_video(original), to_video(decoded))[0, 0])
