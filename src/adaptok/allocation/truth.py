"""Ground-truth scores: what each candidate length of a block really costs, found by decoding.

In: an encoding, the video it came from, a target block, lengths of the blocks before it. Out: the block's loss at every
candidate length (Sec. 3.2). The scorer learns from these; the oracle allocates by them. Blocks before are decoded once,
the target block once per length, so nothing is held but one block of frames. Next on the walk: context.py.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor

from adaptok.blocks.memory import Memory
from adaptok.metrics import LPIPS, mse, psnr, ssim
from adaptok.shapes import Kept, Video
from adaptok.tokenizer.model import Encoding, Tokenizer

BlockLoss: TypeAlias = Callable[[Video, Video], Float[Tensor, " B *metrics"]]
"""Loss of one block: decoded and true frames in [0,1] to one number per sample (and metric); higher is worse."""

METRICS = ("perceptual", "mse", "psnr", "ssim")


def block_loss(metric: str, lpips: LPIPS | None = None) -> BlockLoss:
    """The loss called `metric`: LPIPS, mean squared error, negative PSNR or one minus SSIM."""
    losses: dict[str, BlockLoss] = {
        "mse": lambda a, b: mse(a, b)[:, 0],
        "psnr": lambda a, b: -psnr(a, b)[:, 0].clamp(max=100.0),
        "ssim": lambda a, b: 1 - ssim(a, b)[:, 0],
    }
    if metric == "perceptual":
        net = LPIPS("alex") if lpips is None else lpips
        return lambda a, b: net.video(a, b)[:, 0]
    if metric not in losses:
        raise ValueError(f"unknown scoring metric {metric!r}; known are {', '.join(METRICS)}")
    return losses[metric]


def several(losses: Sequence[BlockLoss]) -> BlockLoss:
    """All these losses at once, one behind the other in the last dimension: a decoding serves them all."""
    return lambda a, b: torch.stack([loss(a, b) for loss in losses], dim=-1)


def at_frames(loss: BlockLoss, count: int) -> BlockLoss:
    """The same loss at `count` frames of a block, spread evenly: cheaper, and nearly the same where little moves."""

    def some(video: Tensor) -> Tensor:
        frames = video.shape[2]
        return video[:, :, [(2 * i + 1) * frames // (2 * count) for i in range(count)]] if count < frames else video

    return lambda a, b: loss(some(a), some(b))


class Truth:
    """Judges blocks by decoding them; see `context.Judge`."""

    def __init__(
        self, tokenizer: Tokenizer, encoding: Encoding, video: Video, lengths: Sequence[int], loss: BlockLoss
    ) -> None:
        self.tokenizer = tokenizer
        self.encoding = encoding
        self.video = video
        self.lengths = tuple(lengths)
        self.loss = loss

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and blocks."""
        batch, blocks, _ = self.encoding.codes.shape
        return batch, blocks

    def score(self, block: int, memory: Memory | None) -> Float[Tensor, "B S *metrics"]:
        """Losses of `block` at every candidate length, after what `memory` holds."""
        frames = self.tokenizer.config.geometry.block_frames
        embedded = self.encoding.embedded[:, block : block + 1]
        truth = self.video[:, :, block * frames : (block + 1) * frames]
        columns = []
        for length in self.lengths:
            kept = torch.full((len(truth), 1), length, device=truth.device)
            decoded, _ = self.tokenizer.decoder(embedded, kept, memory)
            columns.append(self.loss(decoded.clamp(0, 1), truth))
        return torch.stack(columns, dim=1)

    def remember(self, block: int, kept: Kept, memory: Memory | None) -> Memory:
        """The decoder's memory after `block` was cut to `kept` (B,1)."""
        embedded = self.encoding.embedded[:, block : block + 1]
        _, memory = self.tokenizer.decoder(embedded, kept.to(embedded.device), memory)
        return memory

    def once(self) -> Float[Tensor, "B K S *metrics"]:
        """Losses of every block with all earlier blocks whole."""
        whole = torch.full((self.shape[0], 1), self.tokenizer.config.geometry.tokens_per_block)
        whole = whole.to(self.encoding.codes.device)
        memory, scores = None, []
        for block in range(self.shape[1]):
            scores.append(self.score(block, memory))
            memory = self.remember(block, whole, memory)
        return torch.stack(scores, dim=1)


@torch.no_grad()
def true_scores(truth: Truth, kept: Kept, block: int) -> Float[Tensor, "B S *metrics"]:
    """Losses of `block` with the blocks before it cut to `kept` (B,K): what the scorer is trained on."""
    memory = None
    for k in range(block):
        memory = truth.remember(k, kept[:, k : k + 1], memory)
    return truth.score(block, memory)


@torch.no_grad()
def all_true_scores(truth: Truth, kept: Kept) -> Float[Tensor, "B K S *metrics"]:
    """Losses of every block, each after the earlier ones cut to `kept` (B,K)."""
    memory, scores = None, []
    for k in range(truth.shape[1]):
        scores.append(truth.score(k, memory))
        memory = truth.remember(k, kept[:, k : k + 1], memory)
    return torch.stack(scores, dim=1)


def few_lengths(lengths: Sequence[int], count: int, generator: Generator) -> tuple[int, ...]:
    """The first and the last length and so many drawn from those between that they are `count`, in order.

    Drawn, because scores interpolated between the same few lengths have the same bends every time, which a scorer
    would learn and an allocator fall for.
    """
    between = torch.randperm(max(len(lengths) - 2, 0), generator=generator)[: max(count - 2, 0)] + 1
    return tuple(lengths[i] for i in sorted({0, *between.tolist(), len(lengths) - 1}))


def interpolated(scores: Float[Tensor, "B N few"], at: Sequence[int], lengths: Sequence[int]) -> Float[Tensor, "B N S"]:
    """Scores known at some lengths, at all of them: on a line between two, against the logarithm of the length."""
    rows = [np.interp(np.log(lengths), np.log(at), row) for row in scores.cpu().double().numpy().reshape(-1, len(at))]
    return torch.from_numpy(np.stack(rows)).to(scores).unflatten(0, scores.shape[:2])
