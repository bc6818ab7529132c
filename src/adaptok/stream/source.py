"""Bytes of a stream in order, from a file, a pipe or memory, never more of them in memory than arrived.

In comes a binary file, out go exactly as many bytes as asked or `CutShort`; `header.py` and `records.py` read through
this. Offsets count from the stream's first byte.
"""

from typing import Protocol, runtime_checkable

from adaptok.stream.bits import MAX_VARINT_BYTES, read_varints
from adaptok.stream.errors import CutShort, Damaged

_CHUNK = 1 << 16


@runtime_checkable
class Readable(Protocol):
    """What reading needs of a file: an open one, a pipe's end or bytes in memory."""

    def read(self, size: int = -1, /) -> bytes | None:
        """Up to `size` bytes, none at the end."""

    def seekable(self) -> bool:
        """Whether `seek` and `tell` work."""
        ...

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to an offset from the start (0) or the end (2)."""
        ...

    def tell(self) -> int:
        """The offset from the start."""
        ...

    def close(self) -> None:
        """Let the file go."""


@runtime_checkable
class Writable(Protocol):
    """What writing needs of a file."""

    def write(self, data: bytes, /) -> int | None:
        """Add bytes."""

    def flush(self) -> None:
        """Hand them to the system."""


@runtime_checkable
class Updatable(Readable, Writable, Protocol):
    """What appending needs of a file."""

    def truncate(self) -> int:
        """Remove what follows."""
        ...


class ByteSource:
    """Reads a stream from where `file` stands; seeks only when `file` can."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.seekable = file.seekable()
        self._base = file.tell() if self.seekable else 0
        self.offset = 0
        """Bytes of the stream read so far."""

    def take_up_to(self, count: int) -> bytes:
        """The next `count` bytes, fewer only where the data end.

        A length that damage or malice made huge costs one chunk, not an allocation of that length.
        """
        parts = []
        left = count
        while left:
            part = self._file.read(min(left, _CHUNK))
            if not part:
                break
            parts.append(part)
            left -= len(part)
        self.offset += count - left
        return b"".join(parts)

    def take(self, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            CutShort: the data end before.
        """
        data = self.take_up_to(count)
        if len(data) < count:
            raise CutShort(f"{count - len(data)} of {count} bytes are missing")
        return data

    def seek(self, offset: int) -> None:
        """Continue at `offset` bytes from the stream's start."""
        self._file.seek(self._base + offset)
        self.offset = offset

    def size(self) -> int:
        """Bytes from the stream's start to the end of the file as it is now; the position is kept."""
        here = self._file.tell()
        end = self._file.seek(0, 2)
        self._file.seek(here)
        return end - self._base


class RecordBytes:
    """The bytes of one record as they are taken from a source, kept until its check can be made."""

    def __init__(self, head: bytes, source: ByteSource) -> None:
        self._parts = [head]
        self._source = source

    def take(self, count: int) -> bytes:
        """The next `count` bytes of the record."""
        self._parts.append(self._source.take(count))
        return self._parts[-1]

    def take_varint(self) -> int:
        """The next varint of the record."""
        stored = self.take(1)
        while stored[-1] >= 0x80:
            if len(stored) == MAX_VARINT_BYTES:
                raise Damaged(f"a varint is longer than {MAX_VARINT_BYTES} bytes")
            stored += self.take(1)
        return read_varints(stored)[0]

    def all(self) -> bytes:
        """Everything taken so far."""
        return b"".join(self._parts)
