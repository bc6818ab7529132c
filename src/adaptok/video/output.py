"""Files and folders that appear whole or not at all.

In comes a path, out comes a file object (or a folder) to fill; on success it takes the path's place, on any error or
interrupt it vanishes. Used by `writer.py`, next on the walk, and by the token stream's files.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class OutputError(ValueError):
    """Something that cannot be written; the message names the path and why."""


@contextmanager
def whole_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A temporary file beside `path` that becomes `path` when the block ends well.

    Raises:
        OutputError: `path` exists and may not be replaced, or the system refuses to write.
    """
    with _one_line(path):
        target = path.resolve()
        refuse_existing(target, overwrite)
        temporary = _beside(target)
        try:
            with open(temporary, "xb+") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            refuse_existing(target, overwrite)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def whole_folder(path: Path, *, overwrite: bool, ours: str) -> Iterator[Path]:
    """A temporary folder beside `path` that becomes `path` when the block ends well.

    An existing folder is replaced only if `overwrite` is set and it holds nothing but files that match `ours`, so that
    a mistyped path cannot cost anyone their pictures.

    Raises:
        OutputError: as for `whole_file`.
    """
    with _one_line(path):
        target = path.resolve()
        _refuse_existing_folder(target, overwrite, ours)
        temporary, replaced = _beside(target), _beside(target)
        try:
            temporary.mkdir()
            yield temporary
            _refuse_existing_folder(target, overwrite, ours)
            if target.exists():
                os.replace(target, replaced)
            os.replace(temporary, target)
            shutil.rmtree(replaced, ignore_errors=True)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _beside(target: Path) -> Path:
    return target.with_name(f".adaptok-{secrets.token_hex(6)}.part")


def refuse_existing(target: Path, overwrite: bool) -> None:
    """Raise OutputError where a file may not be put at `target`."""
    if target.is_dir():
        raise OutputError(f"cannot write {target}: it is a folder")
    if target.exists() and not target.is_file():
        raise OutputError(f"cannot write {target}: it is not a regular file")
    if target.exists() and not overwrite:
        raise OutputError(f"{target} exists; it is replaced only when asked for (--force, overwrite=True)")


def _refuse_existing_folder(target: Path, overwrite: bool, ours: str) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError(f"cannot write {target}: it is not a folder")
    if not overwrite:
        raise OutputError(f"{target} exists; it is replaced only when asked for (--force, overwrite=True)")
    foreign = [entry.name for entry in target.iterdir() if not entry.match(ours)]
    if foreign:
        raise OutputError(f"{target} is not replaced: it holds {foreign[0]}, which was not written here")


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turn the system's refusals (no space, no permission, no such folder) into one line with the user's path."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
