"""The one door: a model that turns whole videos into token streams and back.

In: uint8 frames (T,H,W,3) of any size and number. Out: `Tokens`, and frames of the same number and size again. Whole
videos go through the same sessions as live streams, so both give the same codes. Files are the next step: files.py for
`.adtk`, `video/` for pictures.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal, no_type_check

import numpy as np
from jaxtyping import Int, UInt8
from torch import Tensor

from adaptok.allocation import Budget, Pace
from adaptok.bundle import Bundle
from adaptok.config import ModelConfig, model_config_to_yaml
from adaptok.stream.bits import bits_per_code
from adaptok.stream.block import TokenBlock
from adaptok.stream.errors import StreamError
from adaptok.stream.files import create_tokens, open_tokens
from adaptok.stream.header import StreamHeader
from adaptok.stream.session import DecoderSession, EncoderSession, check_frames
from adaptok.stream.side_by_side import encode_frames
from adaptok.stream.spending import Spending
from adaptok.video.frame import Frame, VideoError

Images = UInt8[np.ndarray, "T H W 3"]
DEFAULT_FPS = Fraction(25)


@dataclass(frozen=True, eq=False)
class Tokens:
    """A token stream in memory."""

    header: StreamHeader
    blocks: tuple[TokenBlock, ...]
    asked: int | None = None
    """Tokens that the budget allowed; None where it was a quality, a live one, or is not known."""

    @property
    def shortfall(self) -> int:
        """Tokens allowed but not spent, because no lengths add up to them."""
        return 0 if self.asked is None else self.asked - int(self.kept.sum())

    @property
    def kept(self) -> Int[np.ndarray, " N"]:
        """Tokens of each block."""
        return np.array([block.kept for block in self.blocks], dtype=np.int64)

    @property
    def frames(self) -> int:
        """Frames of the video."""
        return sum(block.frames for block in self.blocks)

    def save(self, path: Path | str, *, scores: bool = False, overwrite: bool = False) -> None:
        """Write an `.adtk` file; with `scores` it can later be cut optimally, for two bytes per score."""
        keep = scores and bool(self.header.candidates)
        header = self.header if keep else replace(self.header, candidates=(), score_bytes=0)
        with create_tokens(path, header, blocks_per_record=min(header.blocks, 16), overwrite=overwrite) as writer:
            for block in self.blocks:
                writer.write(block if keep else replace(block, scores=None))

    @classmethod
    def open(cls, path: Path | str) -> "Tokens":
        """Read an `.adtk` file; a damaged one is refused (iterate `open_tokens` to save what is whole)."""
        with open_tokens(path) as reader:
            blocks = tuple(reader)
            if reader.damage is not None:
                raise StreamError(f"{path}: {reader.damage}")
            return cls(reader.header, blocks)


class Codec:
    """A tokenizer with its scorer, ready for videos."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.geometry = bundle.config.tokenizer.geometry

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the model; frames of this size are never resampled."""
        return self.geometry.height, self.geometry.width

    @cached_property
    def fingerprint(self) -> str:
        """Tells tokens apart: a digest of encoder, quantizer and decoder.

        A scorer decides how many tokens are kept and a prior how tightly they are packed, neither what they mean.
        """
        config, weights = self.bundle.config, self.bundle.tokenizer.state_dict()
        plain = replace(config, scorer=None, tokenizer=replace(config.tokenizer, prior=None))
        return _digest(plain, {name: value for name, value in weights.items() if not name.startswith("prior.")})

    @cached_property
    def identity(self) -> str:
        """Tells models apart: a digest of all that there is."""
        return _digest(self.bundle.config, self.bundle.modules.state_dict())

    @property
    def bits_per_token(self) -> int:
        """Bits of a stored code."""
        return bits_per_code(self.bundle.config.tokenizer.quantizer.codebook_size)

    def pace(self, fps: Fraction) -> Pace:
        """How blocks relate to time and bits."""
        return Pace(fps=float(fps), frames_per_block=self.geometry.block_frames, bits_per_token=self.bits_per_token)

    def header(
        self,
        height: int,
        width: int,
        fps: Fraction = DEFAULT_FPS,
        time_base: Fraction | None = None,
        frame_count: int | None = None,
        budget: Budget | None = None,
        has_timestamps: bool = False,
        with_scores: bool = True,
    ) -> StreamHeader:
        """What a stream of this model says about itself."""
        g, scorer = self.geometry, self.bundle.scorer
        candidates = scorer.lengths if scorer is not None and with_scores else ()
        return StreamHeader(
            model=self.bundle.config.name,
            fingerprint=self.fingerprint,
            frames=g.frames,
            blocks=g.blocks,
            tokens=g.tokens_per_block,
            codebook=self.bundle.config.tokenizer.quantizer.codebook_size,
            height=g.height,
            width=g.width,
            source_height=height,
            source_width=width,
            fps=fps,
            time_base=1 / fps if time_base is None else time_base,
            frame_count=frame_count,
            budget="" if budget is None else describe(budget),
            has_timestamps=has_timestamps,
            candidates=candidates,
            score_bytes=2 if candidates else 0,
        )

    def encoder(self, spending: Spending, fps: Fraction = DEFAULT_FPS) -> EncoderSession:
        """A session that takes frames."""
        return EncoderSession(self.bundle, spending, self.pace(fps))

    def decoder(self, header: StreamHeader) -> DecoderSession:
        """A session that takes the blocks of a stream with this header."""
        if header.fingerprint != self.fingerprint:
            raise StreamError(
                f"the stream was written by model {header.model!r} ({header.fingerprint[:8]}), "
                f"this is {self.bundle.config.name!r} ({self.fingerprint[:8]})"
            )
        g, quantizer = self.geometry, self.bundle.config.tokenizer.quantizer
        ours = (g.frames, g.blocks, g.tokens_per_block, quantizer.codebook_size, g.height, g.width)
        theirs = (header.frames, header.blocks, header.tokens, header.codebook, header.height, header.width)
        if theirs != ours:
            raise StreamError(f"the stream's frames, blocks, tokens, codes and size are {theirs}, the model's {ours}")
        return DecoderSession(self.bundle, header)

    @no_type_check
    def encode(
        self,
        frames: Images,
        budget: Budget | None = None,
        strategy: str = "ipal",
        scope: Literal["clip", "video", "live"] | None = None,
        fps: Fraction | float = DEFAULT_FPS,
        window: int = 32,
        in_context: bool = True,
        batch: int = 1,
    ) -> Tokens:
        """Tokens of a whole video; all tokens are kept where no budget is given.

        `scope` is `clip`, except for a total, which is for the whole video. `batch` clips are encoded side by side.
        """
        check_frames(frames)
        if len(frames) == 0:
            raise VideoError("there are no frames to encode")
        if budget is None:
            budget, strategy = Budget(per_block=self.geometry.tokens_per_block), "fixed"
        scope = scope or ("clip" if budget.total is None else "video")
        fps = fps if isinstance(fps, Fraction) else Fraction(fps).limit_denominator(100_000)
        spending = Spending(budget=budget, strategy=strategy, scope=scope, window=window, in_context=in_context)
        shown = (Frame(image, i) for i, image in enumerate(frames))
        blocks = tuple(encode_frames(self.bundle, shown, spending, self.pace(fps), stamped=False, batch=batch))
        height, width = frames.shape[1:3]
        asked = spending.asked(len(blocks), self.geometry, self.pace(fps))
        return Tokens(self.header(height, width, fps, frame_count=len(frames), budget=budget), blocks, asked)

    def decode(self, tokens: Tokens) -> Images:
        """Frames of the same number and size as were encoded."""
        session = self.decoder(tokens.header)
        if not tokens.blocks:
            raise StreamError("there are no blocks to decode")
        return np.concatenate([session.push(block) for block in tokens.blocks])

    @no_type_check
    def reconstruct(
        self,
        frames: Images,
        budget: Budget | None = None,
        strategy: str = "ipal",
        scope: Literal["clip", "video", "live"] | None = None,
        fps: Fraction | float = DEFAULT_FPS,
    ) -> Images:
        """What is left of a video after its tokens."""
        return self.decode(self.encode(frames, budget, strategy, scope, fps))


def describe(budget: Budget) -> str:
    """A budget in a few characters, such as `per_block=32 min_per_block=4`."""
    names = ("per_block", "total", "bits_per_second", "tokens_per_second", "quality", "min_per_block", "max_per_block")
    return " ".join(f"{name}={getattr(budget, name)}" for name in names if getattr(budget, name) is not None)


def _digest(config: ModelConfig, weights: Mapping[str, Tensor]) -> str:
    """32 hexadecimal digits of a configuration and weights.

    What is as by default does not count, so that a new field leaves the digests of models without it alone.
    """
    digest = hashlib.sha256(model_config_to_yaml(config, defaults=False).encode())
    for name, value in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value.detach().float().cpu().numpy()).tobytes())
    return digest.hexdigest()[:32]
