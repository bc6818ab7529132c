"""The heavy part of a group: pixels, the one encoding, and what any point makes of them.

In: a few entries of the listing. Out: originals, codes, and for every point its bits, lengths and pictures. Everything
is lazy: pixels are read only where asked for, the encoder runs once for all strategies and budgets. Next: work.py.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from adaptok.allocation.budget import round_down
from adaptok.allocation.truth import BlockLoss
from adaptok.evaluation.allotting import Allotter
from adaptok.evaluation.clips import Window, read_windows
from adaptok.evaluation.measuring import ClipImages
from adaptok.evaluation.reference import Coder, Ladder, coder_for, decode
from adaptok.evaluation.settings import Point, Settings
from adaptok.stream.codec import Codec
from adaptok.stream.session import motion_of
from adaptok.tokenizer.model import Encoding
from adaptok.training.listing import Entry
from adaptok.video import VideoError, to_images, to_video


class Bench:
    """The videos of one group in memory."""

    def __init__(
        self,
        entries: Sequence[Entry],
        contents: Sequence[str],
        codec: Codec,
        settings: Settings,
        loss: Callable[[str], BlockLoss],
    ) -> None:
        self._entries = entries
        self._contents = contents
        self._codec = codec
        self._settings = settings
        self._loss = loss
        self._ladders: dict[str, list[Ladder]] = {}

    @cached_property
    def read(self) -> list[tuple[list[Window], str | None]]:
        """Of every video its windows, or why there are none."""
        found: list[tuple[list[Window], str | None]] = []
        s = self._settings
        for entry, content in zip(self._entries, self._contents, strict=True):
            try:
                found.append((read_windows(entry, content, self._codec.geometry, s.windows, s.seed), None))
            except (VideoError, OSError) as error:
                found.append(([], str(error)))
        return found

    @cached_property
    def originals(self) -> ClipImages:
        """All clips."""
        return np.stack([window.images for windows, _ in self.read for window in windows])

    @property
    def codes(self) -> Int[Tensor, "B K M"]:
        """All codes of all clips."""
        return self._encoding.codes

    def kept(self, point: Point) -> Int[Tensor, "B K"]:
        """Tokens of each block under a strategy."""
        return torch.as_tensor(self._allotter.kept(point))

    @torch.inference_mode()
    def decoded(self, codes: Int[Tensor, "B K M"], kept: Int[Tensor, "B K"]) -> ClipImages:
        """What is left of clips after their tokens."""
        device = self._codec.bundle.tokenizer.quantizer.codebook.device
        video = self._codec.bundle.tokenizer.decode(codes.to(device), kept.to(device))
        return np.stack([to_images(clip[None]) for clip in video])

    def referenced(self, point: Point) -> tuple[Int[Tensor, " B"], ClipImages]:
        """Bits and pictures of a video codec held to the budget."""
        coder, allowed = coder_of(point), allowed_bits(point, self._codec)
        if point.method not in self._ladders:
            rates: list[Fraction] = [window.fps for windows, _ in self.read for window in windows]
            clips = zip(self.originals, rates, strict=True)
            self._ladders[point.method] = [Ladder(coder, images, fps) for images, fps in clips]
        coded = [ladder.within(allowed) for ladder in self._ladders[point.method]]
        return torch.tensor([clip.bits for clip in coded]), np.stack([decode(coder, clip) for clip in coded])

    @cached_property
    def _video(self) -> Tensor:
        codebook = self._codec.bundle.tokenizer.quantizer.codebook
        return torch.cat([to_video(clip) for clip in self.originals]).to(codebook)

    @cached_property
    def _encoding(self) -> Encoding:
        with torch.inference_mode():
            return self._codec.bundle.tokenizer.encode(self._video)

    @cached_property
    def _allotter(self) -> Allotter:
        frames = self._codec.geometry.block_frames
        blocks = self.originals.reshape(len(self.originals), -1, frames, *self.originals.shape[2:])
        motion = np.array(
            [[motion_of(clip[k - 1][-1] if k else None, clip[k]) for k in range(len(clip))] for clip in blocks]
        )
        return Allotter(self._codec.bundle, self._encoding, self._video, motion, self._settings, self._loss)


def coder_of(point: Point) -> Coder:
    """The encoder of a reference; those that this FFmpeg lacks were left out before."""
    coder = coder_for(point.method)
    assert coder is not None
    return coder


def allowed_bits(point: Point, codec: Codec) -> int:
    """Bits that a clip may take at a point."""
    return round_down(point.budget * codec.geometry.blocks) * codec.bits_per_token
