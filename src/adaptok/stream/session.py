"""Sessions: push frames, get token blocks; push token blocks, get frames. For streams without end.

In: uint8 frames in pieces of any size. Out: a `TokenBlock` as soon as the scope allows: at the block's last frame when
live, at the clip's last frame otherwise. Memory is bounded by one clip (scope `video` aside, which keeps its codes).
Positions exist for K blocks, so the networks' memory starts afresh at every clip: a stream is a row of clips, and
decoding may begin at any of them. Next on the walk: codec.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, no_type_check

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8

from adaptok.allocation import Live, LiveState, Pace
from adaptok.blocks.memory import Memory
from adaptok.bundle import Bundle
from adaptok.stream.block import TokenBlock
from adaptok.stream.errors import StreamError
from adaptok.stream.header import StreamHeader
from adaptok.stream.spending import Spending
from adaptok.tokenizer.model import Encoding
from adaptok.video.clips import stretched, to_images, to_video
from adaptok.video.frame import VideoError

Images = UInt8[np.ndarray, "T H W 3"]


@dataclass(frozen=True)
class _Waiting:
    """A block that is encoded but not yet allotted."""

    frames: int
    timestamps: tuple[int, ...] | None
    codes: Int[np.ndarray, " M"]
    encoding: Encoding | None
    motion: float
    scores: Float[np.ndarray, " S"] | None = None


@dataclass(frozen=True)
class _State:
    """Everything a running encoder remembers; replaced, never changed, so that a session can be forked."""

    images: tuple[UInt8[np.ndarray, "H W 3"], ...] = ()
    timestamps: tuple[int, ...] = ()
    blocks: int = 0
    memory: Memory | None = None
    scorer_memory: Memory | None = None
    live: LiveState | None = None
    waiting: tuple[_Waiting, ...] = ()
    last_image: UInt8[np.ndarray, "h w 3"] | None = None
    """The last one at the model's size."""
    finished: bool = False
    emitted: int = 0


class EncoderSession:
    """Turns pushed frames into token blocks."""

    def __init__(self, bundle: Bundle, spending: Spending, pace: Pace, first_block: int = 0) -> None:
        spending.check(bundle.scorer)
        self._bundle = bundle
        self._geometry = bundle.config.tokenizer.geometry
        self._spending = spending
        self._pace = pace
        self._live: Live | None = spending.live(bundle.scorer, pace)
        self._size: tuple[int, int] | None = None
        self._state = _State(emitted=first_block, live=None if self._live is None else self._live.start())

    def fork(self) -> "EncoderSession":
        """An independent session that goes on from here."""
        other = object.__new__(EncoderSession)
        other.__dict__.update(self.__dict__)
        return other

    @no_type_check
    def push(self, frames: Images, timestamps: Sequence[int] | None = None) -> list[TokenBlock]:
        """Take more frames (n,H,W,3), all of one size; hand out the blocks that are now decided."""
        check_frames(frames)
        if self._state.finished:
            raise StreamError("this session is finished; start a new one")
        if self._size is None:
            self._size = frames.shape[1:3]
        if frames.shape[1:3] != self._size:
            sizes = [f"{height}×{width}" for height, width in (frames.shape[1:3], self._size)]
            raise VideoError(f"frames of {sizes[0]} came after frames of {sizes[1]}; a stream has one size")
        if timestamps is not None and len(timestamps) != len(frames):
            raise StreamError(f"{len(frames)} frames came with {len(timestamps)} timestamps")
        out: list[TokenBlock] = []
        for i, image in enumerate(frames):
            state = self._state
            stamps = () if timestamps is None else (*state.timestamps, int(timestamps[i]))
            self._state = replace(state, images=(*state.images, image), timestamps=stamps)
            if len(self._state.images) == self._geometry.block_frames:
                out += self._block()
        return out

    def finish(self) -> list[TokenBlock]:
        """Hand out what is left; a last block that is not full is padded by repeating its last frame."""
        out: list[TokenBlock] = []
        if self._state.images:
            out += self._block()
        out += self._release(end=True)
        self._state = replace(self._state, finished=True, memory=None, scorer_memory=None)
        return out

    @torch.inference_mode()
    def _block(self) -> list[TokenBlock]:
        """Encode the images at hand as the next block."""
        state, g = self._state, self._geometry
        real = len(state.images)
        images = np.stack(state.images + state.images[-1:] * (g.block_frames - real))
        images = stretched(images, g.height, g.width)
        k = state.blocks % g.blocks
        device = self._bundle.tokenizer.quantizer.codebook.device
        video = to_video(images).to(device)
        encoding, memory = self._bundle.tokenizer.encode_blocks(video, state.memory if k else None)
        waiting = _Waiting(
            frames=real,
            timestamps=state.timestamps or None,
            codes=encoding.codes[0, 0].cpu().numpy(),
            encoding=encoding,
            motion=motion_of(state.last_image if k else None, images),
        )
        self._state = replace(
            state,
            images=(),
            timestamps=(),
            blocks=state.blocks + 1,
            memory=memory,
            scorer_memory=state.scorer_memory if k else None,
            waiting=(*state.waiting, waiting),
            last_image=images[-1],
        )
        return self._release(end=False)

    @torch.inference_mode()
    def _release(self, end: bool) -> list[TokenBlock]:
        """Allot and hand out what the scope allows."""
        if not self._state.waiting:
            return []
        full = self._state.blocks % self._geometry.blocks == 0
        if self._spending.scope == "live":
            return [self._live_block()]
        if self._spending.scope == "clip" and (full or end):
            return self._clip()
        if self._spending.scope == "video":
            if full or end:
                self._score_clip()
            return self._video() if end else []
        return []

    def _live_block(self) -> TokenBlock:
        state, scorer = self._state, self._bundle.scorer
        assert scorer is not None
        assert self._live is not None
        assert state.live is not None
        (waiting,) = state.waiting
        assert waiting.encoding is not None
        scores = scorer.score_block(waiting.encoding, state.scorer_memory)[0].cpu().double().numpy()
        kept, live = self._live.step(scores, state.live)
        memory = None
        if state.blocks % self._geometry.blocks:
            cut = torch.tensor([[kept]], device=waiting.encoding.codes.device)
            memory = scorer.remember(waiting.encoding, cut, state.scorer_memory)
        self._state = replace(state, scorer_memory=memory, live=live)
        (block,) = self._emit([waiting], np.array([kept]), scores[None])
        return block

    def _clip(self) -> list[TokenBlock]:
        waiting = list(self._state.waiting)
        motion = np.array([[w.motion for w in waiting]])
        kept, scores = self._spending.clips(self._bundle.scorer, _joined(waiting), motion, self._pace)
        return self._emit(waiting, kept[0], None if scores is None else scores[0])

    def _score_clip(self) -> None:
        """Replace the encodings of the clip that just ended by its scores, which is all that is needed later."""
        done = [w for w in self._state.waiting if w.encoding is None]
        clip = [w for w in self._state.waiting if w.encoding is not None]
        if not clip:
            return
        scorer = self._bundle.scorer
        rows: list[Any] = [None] * len(clip)
        if scorer is not None:
            rows = list(scorer.score_once(_joined(clip))[0].cpu().double().numpy())
        scored = [replace(w, encoding=None, scores=row) for w, row in zip(clip, rows, strict=True)]
        self._state = replace(self._state, waiting=(*done, *scored))

    def _video(self) -> list[TokenBlock]:
        waiting = list(self._state.waiting)
        known = [w.scores for w in waiting if w.scores is not None]
        scores = np.stack(known) if known else None
        motion = np.array([w.motion for w in waiting])
        kept = self._spending.video(scores, self._bundle.scorer, motion, self._pace, self._geometry)
        return self._emit(waiting, kept, scores)

    def _emit(
        self, waiting: list[_Waiting], kept: Int[np.ndarray, " K"], scores: Float[np.ndarray, "K S"] | None
    ) -> list[TokenBlock]:
        first = self._state.emitted
        self._state = replace(self._state, waiting=(), emitted=first + len(waiting))
        codes = np.stack([w.codes for w in waiting])
        return token_blocks(first, [w.frames for w in waiting], [w.timestamps for w in waiting], codes, kept, scores)


class DecoderSession:
    """Turns pushed token blocks into frames at the source's size."""

    def __init__(self, bundle: Bundle, header: StreamHeader) -> None:
        self._bundle = bundle
        self._header = header
        self._memory: Memory | None = None
        self._next: int | None = None

    def fork(self) -> "DecoderSession":
        """An independent session that goes on from here."""
        other = object.__new__(DecoderSession)
        other.__dict__.update(self.__dict__)
        return other

    @torch.inference_mode()
    def push(self, block: TokenBlock) -> Images:
        """The frames of the next block; the first block must be the first of a clip."""
        g = self._bundle.config.tokenizer.geometry
        k = block.index % g.blocks
        if self._next is None and k:
            raise StreamError(f"decoding can start at the first block of a clip, not at block {block.index}")
        if self._next is not None and k and block.index != self._next:
            raise StreamError(f"block {block.index} came where block {self._next} was due")
        codes = np.zeros((1, 1, g.tokens_per_block), np.int64)
        codes[0, 0, : block.kept] = block.codes
        device = self._bundle.tokenizer.quantizer.codebook.device
        video, memory = self._bundle.tokenizer.decode_blocks(
            torch.from_numpy(codes).to(device),
            torch.tensor([[block.kept]], device=device),
            self._memory if k else None,
        )
        self._memory, self._next = memory, block.index + 1
        images = to_images(video)[: block.frames]
        return stretched(images, self._header.source_height, self._header.source_width)


def token_blocks(
    first: int,
    frames: Sequence[int],
    timestamps: Sequence[tuple[int, ...] | None],
    codes: Int[np.ndarray, "R M"],
    kept: Int[np.ndarray, " R"],
    scores: Float[np.ndarray, "R S"] | None,
) -> list[TokenBlock]:
    """Blocks in a row, from number `first` on, each cut to what it keeps."""
    return [
        TokenBlock(
            index=first + i,
            frames=frames[i],
            timestamps=timestamps[i],
            scores=None if scores is None else scores[i].astype(np.float32),
            codes=codes[i, : kept[i]],
        )
        for i in range(len(codes))
    ]


@no_type_check
def check_frames(frames: object) -> None:
    """Frames are uint8 of shape (n,H,W,3)."""
    if not isinstance(frames, np.ndarray) or frames.dtype != np.uint8:
        kind = frames.dtype if isinstance(frames, np.ndarray) else type(frames).__name__
        raise VideoError(f"frames must be a uint8 array, got {kind}")
    if frames.ndim != 4 or frames.shape[3] != 3 or 0 in frames.shape[1:]:
        raise VideoError(f"frames must have shape (n,H,W,3), got {frames.shape}")


def motion_of(before: UInt8[np.ndarray, "H W 3"] | None, images: Images) -> float:
    """Mean absolute change between successive frames of a block, the frame before it included."""
    row = images.astype(np.float32) / 255
    change = np.abs(np.diff(row, axis=0)).mean(axis=(1, 2, 3))
    if before is not None:
        change = np.append(change, np.abs(row[0] - before.astype(np.float32) / 255).mean())
    return float(change.mean()) if len(change) else 0.0


def _joined(waiting: Sequence[_Waiting]) -> Encoding:
    parts = [w.encoding for w in waiting if w.encoding is not None]
    return Encoding(
        torch.cat([p.latents for p in parts], dim=1),
        torch.cat([p.codes for p in parts], dim=1),
        torch.cat([p.embedded for p in parts], dim=1),
    )
