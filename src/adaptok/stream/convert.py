"""Files to files: a video to an `.adtk` stream, a stream to a video, both side by side, in constant memory.

In: paths, or `-` for raw RGB frames and streams on standard input and output. Out: files that appear whole or not at
all, and a short report. The command line calls these and adds nothing.
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import cast

import numpy as np

from adaptok.stream.block import TokenBlock
from adaptok.stream.codec import Codec
from adaptok.stream.entropy import EntropyCoder
from adaptok.stream.errors import StreamError
from adaptok.stream.files import create_tokens, open_tokens
from adaptok.stream.header import StreamHeader
from adaptok.stream.reader import TokenReader
from adaptok.stream.side_by_side import encode_frames
from adaptok.stream.source import Readable, Updatable
from adaptok.stream.spending import Spending
from adaptok.stream.writer import TokenWriter
from adaptok.video.frame import Frame, VideoError, VideoInfo
from adaptok.video.output import refuse_existing
from adaptok.video.reader import open_video
from adaptok.video.writer import create_video

Progress = Callable[[int, int | None], None]
"""Told the number of frames done and, if known, of all frames."""


@dataclass(frozen=True)
class Report:
    """What a conversion did."""

    frames: int
    blocks: int
    tokens: int
    seconds: float
    """Length of the video."""
    notes: tuple[str, ...]
    """Whatever a user should know: tracks left out, damage, a budget that could not be met."""


@dataclass(frozen=True, kw_only=True)
class RawVideo:
    """What must be known of raw frames, which say nothing of themselves."""

    height: int
    width: int
    fps: Fraction


def encode_file(
    codec: Codec,
    source: str,
    target: str,
    spending: Spending,
    *,
    raw: RawVideo | None = None,
    overwrite: bool = False,
    with_scores: bool = False,
    entropy: bool = False,
    batch: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Encode a video file (or raw frames from `-`) into a stream (or to `-`)."""
    with open_frames(source, raw) as (info, frames, notes):
        header = codec.header(
            info.height,
            info.width,
            info.fps,
            info.time_base,
            info.frame_count,
            spending.budget,
            has_timestamps=source != "-",
            with_scores=with_scores,
        )
        coder = EntropyCoder(codec.bundle.tokenizer) if entropy else None
        blocks = encode_blocks(codec, frames, spending, info, source, progress, batch)
        losses: list[float] = []
        if spending.budget.quality is not None and codec.bundle.scorer is not None:
            blocks = _watched(blocks, codec.bundle.scorer.lengths, losses)
        if not header.candidates:
            blocks = (replace(block, scores=None) for block in blocks)
        if source == "-":
            tally = write_stream(blocks, header, target, overwrite, coder)
        else:
            tally = _spooled(blocks, header, target, overwrite, coder)
        missed = _missed(spending, tally, spending.asked(tally.blocks, codec.geometry, codec.pace(info.fps)), losses)
        return Report(tally.frames, tally.blocks, tally.tokens, float(tally.frames / info.fps), (*notes(), *missed))


def _watched(blocks: Iterable[TokenBlock], lengths: tuple[int, ...], losses: list[float]) -> Iterator[TokenBlock]:
    """The same blocks; what each is predicted to lose is noted on the way."""
    for block in blocks:
        if block.scores is not None and block.kept in lengths:
            losses.append(float(block.scores[lengths.index(block.kept)]))
        yield block


def _missed(spending: Spending, tally: "Tally", asked: int | None, losses: Sequence[float]) -> Iterator[str]:
    """How far a budget was missed, if at all."""
    if asked is not None and tally.tokens < asked:
        yield f"{tally.tokens} of {asked} tokens were spent: no lengths add up to more of them"
    quality = spending.budget.quality
    if quality is not None and losses and sum(losses) / len(losses) > quality + 1e-6:
        yield f"the predicted loss is {sum(losses) / len(losses):.4f}: no lengths bring it down to {quality:g}"


def encode_blocks(
    codec: Codec,
    frames: Iterable[Frame],
    spending: Spending,
    info: VideoInfo,
    source: str,
    progress: Progress | None = None,
    batch: int = 1,
) -> Iterator[TokenBlock]:
    """Blocks of a video as they are decided; timestamps come from the file, raw frames have none."""
    count = 0

    def counted() -> Iterator[Frame]:
        nonlocal count
        for frame in frames:
            yield frame
            count += 1
            if progress is not None:
                progress(count, info.frame_count)

    yield from encode_frames(codec.bundle, counted(), spending, codec.pace(info.fps), source != "-", batch)
    if count == 0:
        raise VideoError(f"{source} has no frames")


def decode_file(
    codec: Codec, source: str, target: str, *, overwrite: bool = False, progress: Progress | None = None
) -> Report:
    """Decode a stream (or `-`) into a video file, an image folder, or raw frames on `-`."""
    with open_stream(source) as reader:
        header = reader.header
        session = codec.decoder(header)
        time_base = header.time_base if header.has_timestamps else 1 / header.fps
        tally = Tally()
        with _frame_sink(target, header, time_base, overwrite) as write:
            for block in decoded_blocks(reader, codec):
                stamps = block.timestamps or range(tally.frames, tally.frames + block.frames)
                for image, pts in zip(session.push(block), stamps, strict=True):
                    write(image, pts)
                tally = tally.plus(block)
                if progress is not None:
                    progress(tally.frames, header.frame_count)
            if tally.blocks == 0:
                raise StreamError(f"{source} holds no whole block: {reader.damage or 'it is empty'}")
        notes = () if reader.damage is None else (reader.damage,)
        return Report(tally.frames, tally.blocks, tally.tokens, float(tally.frames / header.fps), notes)


def decoded_blocks(reader: TokenReader, codec: Codec) -> Iterator[TokenBlock]:
    """The blocks of a stream with their codes at hand, entropy coded or not."""
    if not reader.header.entropy_coded:
        yield from reader
        return
    coder = EntropyCoder(codec.bundle.tokenizer)
    for block in reader.coded():
        yield coder.decode(block)


@contextmanager
def open_frames(
    source: str, raw: RawVideo | None
) -> Iterator[tuple[VideoInfo, Iterator[Frame], Callable[[], tuple[str, ...]]]]:
    """Facts, frames and (afterwards) notes of a video path, or of raw RGB on standard input."""
    if source != "-":
        with open_video(source) as video:
            yield video.info, iter(video), lambda: video.notes
        return
    if raw is None:
        raise VideoError("raw frames on standard input need their size and rate, such as --raw 64x64 --fps 25")
    info = VideoInfo(height=raw.height, width=raw.width, fps=raw.fps, time_base=1 / raw.fps, frame_count=None)
    yield info, raw_frames(cast("Readable", sys.stdin.buffer), raw), lambda: ()


def raw_frames(file: Readable, raw: RawVideo) -> Iterator[Frame]:
    """Frames of H·W·3 bytes each until the input ends."""
    size = raw.height * raw.width * 3
    number = 0
    while data := file.read(size):
        if len(data) < size:
            raise VideoError(f"raw input ends inside frame {number}: {len(data)} of {size} bytes")
        yield Frame(np.frombuffer(data, np.uint8).reshape(raw.height, raw.width, 3), number)
        number += 1


@contextmanager
def open_stream(source: str) -> Iterator[TokenReader]:
    """A stream's path, or `-`."""
    if source == "-":
        yield TokenReader(cast("Readable", sys.stdin.buffer))
        return
    with open_tokens(source) as reader:
        yield reader


@dataclass(frozen=True)
class Tally:
    """What has gone by."""

    frames: int = 0
    blocks: int = 0
    tokens: int = 0

    def plus(self, block: TokenBlock) -> "Tally":
        """With one more block."""
        return Tally(self.frames + block.frames, self.blocks + 1, self.tokens + block.kept)


def write_stream(
    blocks: Iterable[TokenBlock],
    header: StreamHeader,
    target: str,
    overwrite: bool,
    coder: EntropyCoder | None = None,
) -> Tally:
    """Write blocks as they come; to `-` each one is on its way as soon as it is known."""
    header = replace(header, entropy_coded=coder is not None)
    tally = Tally()
    with _token_sink(target, header, overwrite) as writer:
        for block in blocks:
            writer.write(block if coder is None else coder.encode(block))
            if target == "-":
                sys.stdout.buffer.flush()
            tally = tally.plus(block)
    return tally


@contextmanager
def _token_sink(target: str, header: StreamHeader, overwrite: bool) -> Iterator[TokenWriter]:
    if target == "-":
        with TokenWriter(sys.stdout.buffer, header) as writer:
            yield writer
        return
    with create_tokens(target, header, blocks_per_record=min(header.blocks, 16), overwrite=overwrite) as writer:
        yield writer


def _spooled(
    blocks: Iterable[TokenBlock], header: StreamHeader, target: str, overwrite: bool, coder: EntropyCoder | None
) -> Tally:
    """Write by way of a scratch stream: only its end tells whether timestamps are needed, and how many frames."""
    if target != "-":
        refuse_existing(Path(target).resolve(), overwrite)
    with tempfile.TemporaryFile() as scratch:
        tally, regular, number = Tally(), True, 0
        with TokenWriter(scratch, header, blocks_per_record=min(header.blocks, 16)) as writer:
            for block in blocks:
                writer.write(block)
                for pts in block.timestamps or ():
                    regular = regular and on_the_beat(pts, number, header)
                    number += 1
                tally = tally.plus(block)
        scratch.seek(0)
        final = replace(header, has_timestamps=not regular, frame_count=tally.frames)
        kept = TokenReader(cast("Updatable", scratch))
        stripped = (replace(b, timestamps=None) if regular else b for b in kept)
        write_stream(stripped, final, target, overwrite, coder)
        return tally


def on_the_beat(pts: int, number: int, header: StreamHeader) -> bool:
    """Whether a timestamp is the frame's regular time, as far as the file's clock can tell it."""
    ticks = number / header.fps / header.time_base
    return pts in (math.floor(ticks), math.floor(ticks + Fraction(1, 2)))


@contextmanager
def _frame_sink(
    target: str, header: StreamHeader, time_base: Fraction, overwrite: bool
) -> Iterator[Callable[[np.ndarray, int], None]]:
    if target == "-":

        def raw(image: np.ndarray, pts: int) -> None:
            del pts
            sys.stdout.buffer.write(image.tobytes())

        yield raw
        sys.stdout.buffer.flush()
        return
    with create_video(
        target,
        height=header.source_height,
        width=header.source_width,
        fps=header.fps,
        time_base=time_base,
        overwrite=overwrite,
    ) as writer:
        yield writer.write
