"""Blocks to checked bytes and back: one record holds one block, or a run of up to 16 that share a check.

In come consecutive `TokenBlock`s (or `CodedBlock`s), out go a record's bytes, and back; `index.py` is next on the walk.
A record says its own length through its kept lengths, so no length field is needed; its check also covers the header's
check and the first block's index, so a record that went missing or came from another stream is noticed for no bytes.
Byte tables and the reasons for sharing a check: `docs/format.md`.
"""

import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Integer

from adaptok.stream.bits import pack, packed_size, read_varints, unpack, unzigzag, varint, zigzag
from adaptok.stream.block import Block, CodedBlock, TokenBlock
from adaptok.stream.errors import Damaged, StreamError
from adaptok.stream.header import StreamHeader
from adaptok.stream.source import ByteSource, RecordBytes

MAX_BLOCKS = 16
"""Blocks of one record: four bits of its first byte."""
EACH, SHARED, FULL = 0, 1, 2
"""How kept lengths are stored: one each, one for all blocks, none because all blocks keep M tokens."""
SHORT, NOT_BLOCKS = 0x40, 0x80
MAX_TIMESTAMP = 1 << 62
_CHECK_BYTES = 4


def max_payload(header: StreamHeader) -> int:
    """The longest entropy-coded payload of one block; a coder that expands its codes fourfold has failed."""
    return 4 * packed_size(header.tokens, header.code_bits) + 64


def record_check(stored: bytes, first: int, header_check: int) -> bytes:
    """CRC-32 over the index of the record's first block and its bytes, continued from the header's check."""
    seed = zlib.crc32(first.to_bytes(8, "little"), header_check)
    return zlib.crc32(stored, seed).to_bytes(_CHECK_BYTES, "little")


def write_record(blocks: Sequence[Block], header: StreamHeader, header_check: int) -> bytes:
    """The stored form of consecutive blocks, already validated by `validate`; only the last may be short."""
    kept = np.array([block.kept for block in blocks])
    form = FULL if (kept == header.tokens).all() else SHARED if (kept == kept[0]).all() else EACH
    last = blocks[-1].frames
    short = last < header.frames_per_block
    parts = [bytes([len(blocks) - 1 | form << 4 | SHORT * short])]
    if short:
        parts.append(last.to_bytes(2, "little"))
    if form != FULL:
        parts.append(pack(kept if form == EACH else kept[:1], header.tokens.bit_length()))
    if header.has_timestamps:
        parts.append(_write_timestamps(blocks))
    if header.candidates:
        dtype = f"<f{header.score_bytes}"
        parts += [block.scores.astype(dtype).tobytes() for block in blocks if block.scores is not None]
    coded = [block.payload for block in blocks if isinstance(block, CodedBlock)]
    parts += [varint(len(payload)) for payload in coded] + coded
    codes = [block.codes for block in blocks if isinstance(block, TokenBlock)]
    if codes:
        parts.append(pack(np.concatenate(codes), header.code_bits))
    stored = b"".join(parts)
    return stored + record_check(stored, blocks[0].index, header_check)


def read_record(head: bytes, source: ByteSource, header: StreamHeader, header_check: int, first: int) -> list[Block]:
    """The blocks of the record that starts with the byte `head`, the rest of which comes from `source`.

    Raises:
        CutShort: the data end inside the record.
        Damaged: the check fails, or fields contradict the header although it passes.
    """
    count, form = (head[0] & 0x0F) + 1, head[0] >> 4 & 3
    if form > FULL:
        raise Damaged("unknown form of kept lengths")
    stored = RecordBytes(head, source)
    last = int.from_bytes(stored.take(2), "little") if head[0] & SHORT else header.frames_per_block
    if not 1 <= last <= header.frames_per_block:
        raise Damaged(f"{last} frames in a block of {header.frames_per_block}")
    frames = [header.frames_per_block] * (count - 1) + [last]
    kept = _read_kept(form, count, header, stored)
    stamps: list[int] = []
    if header.has_timestamps:
        size = stored.take_varint()
        if size > 10 * sum(frames):
            raise Damaged(f"{size} bytes for the timestamps of {sum(frames)} frames")
        stamps = _timestamps(stored.take(size), sum(frames))
    scores = stored.take(count * len(header.candidates) * header.score_bytes)
    if header.entropy_coded:
        sizes = [stored.take_varint() for _ in range(count)]
        if max(sizes) > max_payload(header):
            raise Damaged(f"a payload of {max(sizes)} bytes; the limit is {max_payload(header)}")
        payloads = [stored.take(size) for size in sizes]
        codes = np.zeros(0, np.int32)
    else:
        payloads = []
        packed = stored.take(packed_size(int(kept.sum()), header.code_bits))
        codes = unpack(packed, header.code_bits, int(kept.sum()))
    if source.take(_CHECK_BYTES) != record_check(stored.all(), first, header_check):
        raise Damaged("its check fails")
    if codes.size and codes.max() >= header.codebook:
        raise Damaged(f"code {codes.max()} is outside the codebook of {header.codebook}")
    return _blocks(header, first, frames, kept, stamps, scores, payloads, codes)


def validate(block: Block, header: StreamHeader) -> None:
    """Refuse a block that a stream of this header cannot hold.

    Raises:
        StreamError: says which field and what the header allows.
    """
    where = f"block {block.index}"
    if isinstance(block, CodedBlock) != header.entropy_coded:
        raise StreamError(f"{where}: entropy coding of block and stream differ")
    if not 0 <= block.kept <= header.tokens:
        raise StreamError(f"{where}: {block.kept} tokens, outside 0..{header.tokens}")
    if not 1 <= block.frames <= header.frames_per_block:
        raise StreamError(f"{where}: {block.frames} frames, outside 1..{header.frames_per_block}")
    if isinstance(block, CodedBlock) and len(block.payload) > max_payload(header):
        raise StreamError(f"{where}: payload of {len(block.payload)} bytes; the limit is {max_payload(header)}")
    if isinstance(block, TokenBlock) and block.kept:
        low, high = int(block.codes.min()), int(block.codes.max())
        if low < 0 or high >= header.codebook:
            raise StreamError(f"{where}: codes {low}..{high}, outside the codebook of {header.codebook}")
    stamps = block.timestamps
    if (None if stamps is None else len(stamps)) != (block.frames if header.has_timestamps else None):
        raise StreamError(f"{where}: timestamps must be one per real frame if the stream has them, else None")
    if stamps is not None and any(abs(stamp) >= MAX_TIMESTAMP for stamp in stamps):
        raise StreamError(f"{where}: a timestamp is outside ±2^62")
    if (0 if block.scores is None else len(block.scores)) != len(header.candidates):
        raise StreamError(f"{where}: scores must be one per candidate length ({len(header.candidates)})")


def _read_kept(form: int, count: int, header: StreamHeader, record: RecordBytes) -> Integer[np.ndarray, " R"]:
    if form == FULL:
        return np.full(count, header.tokens)
    listed = count if form == EACH else 1
    bits = header.tokens.bit_length()
    kept = np.resize(unpack(record.take(packed_size(listed, bits)), bits, listed), count)
    if kept.max() > header.tokens:
        raise Damaged(f"{kept.max()} tokens in a block of at most {header.tokens}")
    return kept


def _write_timestamps(blocks: Sequence[Block]) -> bytes:
    stamps = [stamp for block in blocks for stamp in block.timestamps or ()]
    steps = b"".join(varint(zigzag(b - a)) for a, b in zip([0, *stamps], stamps, strict=False))
    return varint(len(steps)) + steps


def _timestamps(stored: bytes, count: int) -> list[int]:
    steps = read_varints(stored)
    if len(steps) != count:
        raise Damaged(f"{len(steps)} timestamps for {count} frames")
    stamps, stamp = [], 0
    for step in steps:
        stamp += unzigzag(step)
        stamps.append(stamp)
    if any(abs(stamp) >= MAX_TIMESTAMP for stamp in stamps):
        raise Damaged("a timestamp is outside ±2^62")
    return stamps


def _blocks(
    header: StreamHeader,
    first: int,
    frames: list[int],
    kept: Integer[np.ndarray, " R"],
    stamps: list[int],
    scores: bytes,
    payloads: list[bytes],
    codes: Integer[np.ndarray, " N"],
) -> list[Block]:
    """Cut what a record holds for all its blocks into the blocks."""
    table = np.frombuffer(scores, f"<f{header.score_bytes}" if scores else "<f4").astype(np.float32)
    table = table.reshape(len(frames), -1)
    code_ends, frame_ends = np.cumsum(kept), np.cumsum(frames)
    blocks: list[Block] = []
    for i, real in enumerate(frames):
        times = tuple(stamps[frame_ends[i] - real : frame_ends[i]]) if header.has_timestamps else None
        row = table[i] if header.candidates else None
        n, index = int(kept[i]), first + i
        if payloads:
            blocks.append(
                CodedBlock(index=index, frames=real, timestamps=times, scores=row, kept=n, payload=payloads[i])
            )
        else:
            part = codes[code_ends[i] - n : code_ends[i]]
            blocks.append(TokenBlock(index=index, frames=real, timestamps=times, scores=row, codes=part))
    return blocks
