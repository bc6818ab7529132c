"""Which videos there are: a folder, a manifest or tar shards, as one list.

In: a path. Out: `Entry`s of one split, in a fixed order. A shard is listed by the place of each video inside the tar,
so that all sources are read at random and a run does not depend on how its data are packed. Next: frames.py.
"""

import csv
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUFFIXES = {".avi", ".gif", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm"}


@dataclass(frozen=True)
class Entry:
    """One video: a file, or `size` bytes at `offset` of a shard."""

    path: Path
    name: str
    """How reports call it: the path below the source, or the shard and the key."""
    label: str
    offset: int = 0
    size: int | None = None


def list_videos(source: Path, split: str) -> tuple[Entry, ...]:
    """All videos of a split; none at all is an error."""
    if not source.exists():
        raise ValueError(f"there are no data at {source}")
    if source.suffix in {".csv", ".parquet"}:
        entries = _from_manifest(source, split)
    elif shards := _shards(source, split):
        entries = [entry for shard in shards for entry in _from_shard(shard)]
    elif source.is_dir():
        entries = _from_folder(source, split)
    else:
        raise ValueError(f"{source} is no folder, no .csv or .parquet manifest and no .tar shard")
    if not entries:
        raise ValueError(f"{source} holds no videos of split {split!r}")
    return tuple(sorted(entries, key=lambda entry: entry.name))


def labels(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The classes, in the order of their numbers."""
    return tuple(sorted({entry.label for entry in entries}))


def _from_folder(source: Path, split: str) -> list[Entry]:
    """The sub-folder named like the split if there is one, else everything; a video's folder is its label."""
    root = source / split if (source / split).is_dir() else source
    files = (file for file in root.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    return [
        Entry(file, str(file.relative_to(source)), "" if file.parent == root else file.parent.name) for file in files
    ]


def _from_manifest(source: Path, split: str) -> list[Entry]:
    """Columns file and, if there are any, split and label; files are relative to the manifest."""
    rows = _parquet_rows(source) if source.suffix == ".parquet" else _csv_rows(source)
    if rows and "file" not in rows[0]:
        raise ValueError(f"{source} has no column 'file'; it has {', '.join(rows[0])}")
    for number, row in enumerate(rows, 1):
        if not isinstance(row["file"], str) or not row["file"]:
            raise ValueError(f"{source}: row {number} names no file: {row['file']!r}")
    return [
        Entry(source.parent / row["file"], row["file"], str(row.get("label") or ""))
        for row in rows
        if row.get("split", split) == split
    ]


def _csv_rows(source: Path) -> list[dict[str, Any]]:
    try:
        with source.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{source} is not a readable CSV file: {_first_line(error)}") from None


def _parquet_rows(source: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError(f"{source}: reading Parquet needs pyarrow (pip install pyarrow); CSV needs nothing") from None
    try:
        return parquet.read_table(source).to_pylist()
    except (ArrowException, OSError) as error:
        raise ValueError(f"{source} is not a readable Parquet file: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _shards(source: Path, split: str) -> list[Path]:
    """A single tar, or the tars of a folder: those whose name or folder contains the split where any does."""
    if source.suffix == ".tar":
        return [source]
    if not source.is_dir():
        return []
    tars = sorted(source.rglob("*.tar"))
    named = [tar for tar in tars if split in str(tar.relative_to(source))]
    return named or tars


def _from_shard(shard: Path) -> list[Entry]:
    """WebDataset's convention: files of one sample share the name up to the first dot; .cls is the label."""
    entries, classes = [], {}
    try:
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                key, _, kind = member.name.partition(".")
                if f".{kind}".lower() in SUFFIXES:
                    entries.append(
                        (key, Entry(shard, f"{shard.name}/{member.name}", "", member.offset_data, member.size))
                    )
                elif kind == "cls" and (content := tar.extractfile(member)) is not None:
                    classes[key] = content.read().decode().strip()
    except tarfile.TarError as error:
        raise ValueError(f"{shard} is not a readable tar: {error}") from None
    return [Entry(entry.path, entry.name, classes.get(key, ""), entry.offset, entry.size) for key, entry in entries]
