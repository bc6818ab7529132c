"""Token streams by path: open, create, append, each with one clear line when it cannot be done.

In comes a path, out comes a reader or a writer. `reader.py` and `writer.py` work on any binary file; this is the last
file of the container. What turns videos into blocks and back is next on the walk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from adaptok.stream.errors import StreamError
from adaptok.stream.header import StreamHeader
from adaptok.stream.reader import TokenReader
from adaptok.stream.writer import TokenWriter
from adaptok.video.output import whole_file


def open_tokens(path: str | PathLike[str]) -> TokenReader:
    """Read a stream; a context manager that closes the file.

    Raises:
        StreamError: missing, a folder, not a token stream, or its header is damaged.
    """
    path = Path(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise StreamError(f"cannot read {path}: {error.strerror}") from None
    try:
        return TokenReader(file)
    except BaseException as error:
        file.close()
        if isinstance(error, StreamError):
            raise StreamError(f"cannot read {path}: {error}") from None
        raise


@contextmanager
def create_tokens(
    path: str | PathLike[str], header: StreamHeader, *, blocks_per_record: int = 1, overwrite: bool = False
) -> Iterator[TokenWriter]:
    """Write a stream that appears at `path` when it is complete, or not at all.

    A stream that is to be followed while it grows is written with `TokenWriter` to an open file instead.

    Raises:
        OutputError: the path is taken, or the system refuses to write.
    """
    with (
        whole_file(Path(path), overwrite=overwrite) as file,
        TokenWriter(file, header, blocks_per_record=blocks_per_record) as writer,
    ):
        yield writer


@contextmanager
def append_tokens(
    path: str | PathLike[str], *, blocks_per_record: int = 1, drop_damage: bool = False
) -> Iterator[TokenWriter]:
    """Continue the stream at `path`, in place; see `TokenWriter.append`.

    Raises:
        StreamError: missing, not a token stream, or damaged.
    """
    path = Path(path)
    try:
        with (
            path.open("r+b") as file,
            TokenWriter.append(file, blocks_per_record=blocks_per_record, drop_damage=drop_damage) as writer,
        ):
            yield writer
    except OSError as error:
        raise StreamError(f"cannot append to {path}: {error.strerror}") from None
