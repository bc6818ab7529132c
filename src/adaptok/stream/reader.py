"""Blocks out of a `.adtk` stream: from a file, a pipe, or a file that is still being written.

In comes a binary file, out come verified blocks, then a sentence about what was lost, if anything; `files.py` is next
on the walk. A block is yielded only after its record's check has passed, so what comes out is what went in.
"""

from collections import deque
from collections.abc import Iterator
from types import TracebackType

from adaptok.stream.block import Block, CodedBlock, TokenBlock
from adaptok.stream.errors import CutShort, StreamError
from adaptok.stream.header import read_header
from adaptok.stream.index import End, Index, find_end, read_end
from adaptok.stream.records import NOT_BLOCKS, read_record
from adaptok.stream.source import ByteSource, Readable


class TokenReader:
    """Iterates over a stream's blocks; iterating again goes on where the last iteration stopped.

    After the blocks run out, `complete` tells whether the end mark was reached, and `damage` is None or says what was
    lost. A stream without end mark may still be growing: iterate again to get what was added since.
    """

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._source = ByteSource(file)
        self.header, self.header_check = read_header(self._source)
        self._first_offset = self._source.offset
        self._next = 0
        self._ready: deque[Block] = deque()
        self._seen = Index()
        self._dead = False
        self.complete = False
        self.damage: str | None = None

    def __iter__(self) -> Iterator[TokenBlock]:
        """The blocks from here on.

        Raises:
            StreamError: the codes are entropy coded; `coded` yields them as stored.
        """
        if self.header.entropy_coded:
            raise StreamError("the stream is entropy coded: its codes need the model's prior to be read")
        for block in self._blocks():
            if isinstance(block, TokenBlock):
                yield block

    def coded(self) -> Iterator[CodedBlock]:
        """The blocks from here on of an entropy-coded stream, their payloads untouched."""
        if not self.header.entropy_coded:
            raise StreamError("the stream is not entropy coded")
        for block in self._blocks():
            if isinstance(block, CodedBlock):
                yield block

    def _blocks(self) -> Iterator[Block]:
        while self._ready or self._read():
            yield self._ready.popleft()

    @property
    def position(self) -> int:
        """The index of the block that comes next."""
        return self._ready[0].index if self._ready else self._next

    def end(self) -> Index | None:
        """Counts and index of a closed stream; None where the file cannot seek or has no sound end mark."""
        if not self._source.seekable:
            return None
        here = self._source.offset
        end = find_end(self._source, self.header_check)
        self._source.seek(here)
        return end.index if end else None

    def seek(self, block: int) -> None:
        """Go to `block`; without an index the way there is read, and remembered.

        Raises:
            StreamError: the file cannot seek, or there is no such block.
        """
        if not self._source.seekable:
            raise StreamError("this stream comes from a pipe and cannot seek")
        if block < 0:
            raise StreamError(f"no block {block}: blocks are counted from 0")
        indexed = (self.end() or self._seen).before(block)
        # Where the index points to damage, the way from the start is the other chance.
        for start in dict.fromkeys((indexed or (0, self._first_offset), (0, self._first_offset))):
            self._next = start[0]
            self.rewind(start[1])
            while self._next <= block and self._read():
                if self._next > block:
                    while self._ready[0].index < block:
                        self._ready.popleft()
                    return
                self._ready.clear()
            if self._next == block:
                return
        raise StreamError(f"no block {block}: {self.damage or f'the stream has {self._next}'}")

    def good_part(self) -> tuple[Index, int]:
        """The index of all verified blocks and the offset where they end; reads all of a stream never closed."""
        end = find_end(self._source, self.header_check)
        if end is not None:
            return end.index, end.offset
        self._next, self._seen = 0, Index()
        self.rewind(self._first_offset)
        stop = self._first_offset
        while self._read():
            self._ready.clear()
            stop = self._source.offset
        return self._seen, stop

    def rewind(self, offset: int) -> None:
        """Stand at `offset` bytes from the stream's start, whatever was read before."""
        self._source.seek(offset)
        self._ready.clear()
        self.complete = False

    def size(self) -> int:
        """Bytes of the stream's file as it is now."""
        return self._source.size()

    def _read(self) -> bool:
        """Make the next record's blocks ready; False at the end, with `complete` and `damage` set."""
        if self.complete or self._dead:
            return False
        self.damage = None
        start = self._source.offset
        head = self._source.take_up_to(1)
        try:
            if not head:
                raise CutShort("no end mark")
            if head[0] & NOT_BLOCKS:
                self._finish(read_end(head, self._source, self.header_check))
                return False
            blocks = read_record(head, self._source, self.header, self.header_check, self._next)
        except CutShort as error:
            self._stop(start, f"the stream was cut, or is still being written ({error})")
            return False
        except StreamError as error:
            self._stop(start, f"the stream is damaged ({error})")
            return False
        if self._next == self._seen.blocks:
            self._seen.add(len(blocks), sum(block.frames for block in blocks), start)
        self._ready.extend(blocks)
        self._next += len(blocks)
        return True

    def _finish(self, end: End) -> None:
        self.complete = True
        if end.index.blocks != self._next:
            self.damage = f"the end mark counts {end.index.blocks} blocks, but {self._next} were found"
        elif not end.footer_intact:
            self.damage = "the last bytes of the stream are damaged; no block is lost"

    def _stop(self, start: int, reason: str) -> None:
        if self._source.seekable:
            self._source.seek(start)
            end = self.end()
        else:
            self._dead, end = True, None
        if end is None:
            lost = f"blocks from {self._next} on are lost or not there yet"
        elif end.blocks <= self._next:
            lost = "no block is lost"
        else:
            lost = f"blocks {self._next} to {end.blocks - 1} are lost"
        self.damage = f"{reason} at byte {start}: {self._next} blocks are whole, {lost}"

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "TokenReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
