"""Blocks into a `.adtk` stream, one at a time, as they come.

In come a header and consecutive blocks, out go bytes to any binary file, a pipe included; `reader.py` is next on the
walk. Nothing already written is touched again, so a reader can follow while the stream grows. Memory does not grow with
the stream.
"""

from types import TracebackType

from adaptok.stream.block import Block
from adaptok.stream.errors import StreamError
from adaptok.stream.header import StreamHeader, header_check
from adaptok.stream.index import Index, write_end
from adaptok.stream.reader import TokenReader
from adaptok.stream.records import MAX_BLOCKS, validate, write_record
from adaptok.stream.source import Updatable, Writable


class TokenWriter:
    """Writes a stream; as a context manager it is closed at the end, and left open-ended after an error.

    `blocks_per_record` blocks share one check. 1 is for live streams: every block leaves at once and is verified alone.
    More (K, say) is for files: less overhead, and damage costs up to that many blocks less one more. Records end where
    the count of blocks is a multiple of it, so that with K a seek to a clip's start meets a record's start.
    """

    def __init__(self, file: Writable, header: StreamHeader, *, blocks_per_record: int = 1) -> None:
        stored = header.to_bytes()
        self._start(file, header, header_check(stored), len(stored), Index(), blocks_per_record)
        file.write(stored)
        file.flush()

    @classmethod
    def append(cls, file: Updatable, *, blocks_per_record: int = 1, drop_damage: bool = False) -> "TokenWriter":
        """Continue the stream in `file`, which must be open for reading and writing and stand at its start.

        The end mark is removed and written anew on `close`. A stream that was never closed is scanned; if it turns out
        cut or damaged it is refused, unless `drop_damage` allows to remove all that follows its last good block.

        Raises:
            StreamError: not a token stream, or damaged.
        """
        reader = TokenReader(file)
        index, end = reader.good_part()
        if reader.damage and end < reader.size() and not drop_damage:
            raise StreamError(f"cannot append: {reader.damage}")
        writer = cls.__new__(cls)
        writer._start(file, reader.header, reader.header_check, end, index, blocks_per_record)
        reader.rewind(end)
        file.truncate()
        return writer

    def _start(
        self, file: Writable, header: StreamHeader, check: int, offset: int, index: Index, blocks_per_record: int
    ) -> None:
        if not 1 <= blocks_per_record <= MAX_BLOCKS:
            raise StreamError(f"blocks per record is {blocks_per_record}, outside 1..{MAX_BLOCKS}")
        self.header = header
        self._file = file
        self._check = check
        self._offset = offset
        self._index = index
        self._per_record = blocks_per_record
        self._waiting: list[Block] = []
        self._closed = False

    @property
    def blocks(self) -> int:
        """Blocks taken so far, which is also the index that the next one must have."""
        return self._index.blocks + len(self._waiting)

    @property
    def offset(self) -> int:
        """Bytes written so far."""
        return self._offset

    def write(self, block: Block) -> None:
        """Take the next block; it reaches the file when its record is full.

        Raises:
            StreamError: out of order, or not what the header announces.
        """
        if self._closed:
            raise StreamError("the stream is closed")
        if block.index != self.blocks:
            raise StreamError(f"block {block.index} comes after {self.blocks} blocks")
        validate(block, self.header)
        self._waiting.append(block)
        # Only a record's last block may be short, so a short one ends the record.
        if self.blocks % self._per_record == 0 or block.frames < self.header.frames_per_block:
            self.flush()

    def flush(self) -> None:
        """Write the blocks that wait for their record to fill."""
        if self._waiting:
            self._emit(write_record(self._waiting, self.header, self._check))

    def _emit(self, stored: bytes) -> None:
        self._file.write(stored)
        self._file.flush()
        self._index.add(len(self._waiting), sum(block.frames for block in self._waiting), self._offset)
        self._offset += len(stored)
        self._waiting = []

    def close(self) -> None:
        """Write what waits and the end mark; the file itself stays open."""
        if self._closed:
            return
        self.flush()
        end = write_end(self._index, self._check)
        self._file.write(end)
        self._file.flush()
        self._offset += len(end)
        self._closed = True

    def __enter__(self) -> "TokenWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
