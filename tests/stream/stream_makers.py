"""Headers, random blocks and stored streams for the container's tests."""

import io
from dataclasses import replace
from fractions import Fraction

import numpy as np

from adaptok.stream import Block, CodedBlock, StreamHeader, TokenBlock, TokenReader, TokenWriter, same_block

HEADER = StreamHeader(
    model="tiny",
    fingerprint="00ff10ab",
    frames=16,
    blocks=4,
    tokens=64,
    codebook=4096,
    height=128,
    width=128,
    source_height=241,
    source_width=319,
    fps=Fraction(30000, 1001),
    time_base=Fraction(1, 30000),
    frame_count=61,
    budget="32 tokens per block",
)

EVERY_FEATURE = replace(HEADER, has_timestamps=True, candidates=(0, 16, 32, 64), score_bytes=4)


def random_blocks(header: StreamHeader, count: int, seed: int = 0, kept: int | None = None) -> list[Block]:
    """`count` blocks of random content; the last has one real frame only."""
    rng = np.random.default_rng(seed)
    blocks: list[Block] = []
    clock = 1000
    for index in range(count):
        frames = 1 if index == count - 1 else header.frames_per_block
        n = int(rng.integers(0, header.tokens + 1)) if kept is None else kept
        steps = rng.integers(1, 5000, frames).tolist()
        stamps = tuple(clock + sum(steps[: i + 1]) for i in range(frames)) if header.has_timestamps else None
        clock += sum(steps)
        scores = rng.random(len(header.candidates)).astype(f"f{header.score_bytes}") if header.candidates else None
        if scores is not None:
            scores = scores.astype(np.float32)
        if header.entropy_coded:
            payload = rng.bytes(int(rng.integers(0, 40)))
            blocks.append(
                CodedBlock(index=index, frames=frames, timestamps=stamps, scores=scores, kept=n, payload=payload)
            )
        else:
            codes = rng.integers(0, header.codebook, n).astype(np.int32)
            blocks.append(TokenBlock(index=index, frames=frames, timestamps=stamps, scores=scores, codes=codes))
    return blocks


def stored(header: StreamHeader, blocks: list[Block], per_record: int = 1, *, closed: bool = True) -> bytes:
    file = io.BytesIO()
    writer = TokenWriter(file, header, blocks_per_record=per_record)
    for block in blocks:
        writer.write(block)
    writer.close() if closed else writer.flush()
    return file.getvalue()


def block_ends(header: StreamHeader, blocks: list[Block], per_record: int = 1) -> list[int]:
    """For every block the offset at which its record ends."""
    file = io.BytesIO()
    writer = TokenWriter(file, header, blocks_per_record=per_record)
    ends: list[int] = []
    for number, block in enumerate(blocks, 1):
        before = writer.offset
        writer.write(block)
        if writer.offset > before:
            ends += [writer.offset] * (number - len(ends))
    writer.flush()
    return ends + [writer.offset] * (len(blocks) - len(ends))


def read(data: bytes) -> tuple[list[Block], TokenReader]:
    reader = TokenReader(io.BytesIO(data))
    source = reader.coded() if reader.header.entropy_coded else reader
    return list(source), reader


def is_prefix(found: list[Block], original: list[Block]) -> bool:
    return len(found) <= len(original) and all(map(same_block, found, original))


class Pipe(io.RawIOBase):
    """Bytes that come in small pieces and never again, like a pipe's."""

    def __init__(self, data: bytes, piece: int = 7) -> None:
        self._data, self._piece = io.BytesIO(data), piece

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._piece))
