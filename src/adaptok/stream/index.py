"""The end of a closed stream: how many blocks and frames it has and where to find them.

In come the places of records as they are written or read, out goes the end mark, and back; `writer.py` and `reader.py`
are next on the walk. The index is thin (one entry per 64 blocks or more) and never longer than 4096 entries, so its
cost in bytes and memory stays small however long the stream. Byte tables: `docs/format.md`.
"""

import bisect
import struct
import zlib
from dataclasses import dataclass, field

from adaptok.stream.bits import read_varints, varint
from adaptok.stream.errors import Damaged, StreamError
from adaptok.stream.source import ByteSource

END_HEAD = 0x80
END_MAGIC = b"KTDA"
MAX_ENTRIES = 4096

_OPENING = struct.Struct("<BI")
_COUNTS = struct.Struct("<QQ")
_CHECK = struct.Struct("<I")
_FOOTER = struct.Struct("<I4s")
_FRAMING = _OPENING.size + _CHECK.size + _FOOTER.size
_MAX_BODY = _COUNTS.size + 20 * MAX_ENTRIES


@dataclass
class Index:
    """Where records start, as (block, offset) pairs in rising order, and what the records add up to."""

    blocks: int = 0
    frames: int = 0
    spacing: int = 64
    entries: list[tuple[int, int]] = field(default_factory=list)

    def add(self, blocks: int, frames: int, offset: int) -> None:
        """Note a record of so many blocks and frames that follows all noted so far and starts at `offset`."""
        if not self.entries or self.blocks - self.entries[-1][0] >= self.spacing:
            self.entries.append((self.blocks, offset))
        if len(self.entries) > MAX_ENTRIES:
            self.entries = self.entries[::2]
            self.spacing *= 2
        self.blocks += blocks
        self.frames += frames

    def before(self, block: int) -> tuple[int, int] | None:
        """The last entry at or before `block`."""
        place = bisect.bisect_right(self.entries, block, key=lambda entry: entry[0])
        return self.entries[place - 1] if place else None


@dataclass(frozen=True)
class End:
    """A verified end mark; `footer_intact` is False when only the bytes that lead to it from behind are damaged."""

    index: Index
    offset: int
    footer_intact: bool


def write_end(index: Index, header_check: int) -> bytes:
    """The stored end mark."""
    steps = []
    block = offset = 0
    for next_block, next_offset in index.entries:
        steps.append(varint(next_block - block) + varint(next_offset - offset))
        block, offset = next_block, next_offset
    body = _COUNTS.pack(index.blocks, index.frames) + b"".join(steps)
    stored = _OPENING.pack(END_HEAD, len(body)) + body
    check = _CHECK.pack(zlib.crc32(stored, header_check))
    return stored + check + _FOOTER.pack(len(body) + _FRAMING, END_MAGIC)


def read_end(head: bytes, source: ByteSource, header_check: int) -> End:
    """The end mark that starts with the byte `head`, the rest of which comes from `source`.

    Raises:
        CutShort: the data end inside it.
        Damaged: its check fails, it is too long, or it contradicts itself.
    """
    offset = source.offset - 1
    if head[0] != END_HEAD:
        raise Damaged(f"unknown kind {head[0]:#x} of record")
    opening = head + source.take(_OPENING.size - 1)
    size = _OPENING.unpack(opening)[1]
    if not _COUNTS.size <= size <= _MAX_BODY:
        raise Damaged(f"an end mark of {size} bytes, outside {_COUNTS.size}..{_MAX_BODY}")
    body = source.take(size)
    if source.take(_CHECK.size) != _CHECK.pack(zlib.crc32(opening + body, header_check)):
        raise Damaged("its check fails")
    blocks, frames = _COUNTS.unpack_from(body)
    steps = read_varints(body[_COUNTS.size :])
    if len(steps) % 2 or len(steps) > 2 * MAX_ENTRIES:
        raise Damaged(f"{len(steps)} numbers in the index")
    entries, block, position = [], 0, 0
    for block_step, offset_step in zip(steps[::2], steps[1::2], strict=True):
        block, position = block + block_step, position + offset_step
        entries.append((block, position))
    spacing = max(64, entries[1][0] - entries[0][0]) if len(entries) > 1 else 64
    footer = source.take_up_to(_FOOTER.size)
    intact = footer == _FOOTER.pack(size + _FRAMING, END_MAGIC)
    return End(Index(blocks, frames, spacing, entries), offset, intact)


def find_end(source: ByteSource, header_check: int) -> End | None:
    """The end mark of a closed stream, found from its last bytes; None when there is none or it is damaged."""
    size = source.size()
    if size < _FRAMING:
        return None
    source.seek(size - _FOOTER.size)
    length, magic = _FOOTER.unpack(source.take(_FOOTER.size))
    if magic != END_MAGIC or not _FRAMING <= length <= size:
        return None
    source.seek(size - length)
    try:
        end = read_end(source.take(1), source, header_check)
    except StreamError:
        return None
    return end if end.footer_intact else None
