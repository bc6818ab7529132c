"""Decoded frames at hand: from the video each time, from memory, or from files mapped into it.

In: `Entry`s. Out: for each readable one its frames (T,H,W,3) at a modest size. The disk cache holds one array file per
video, written whole or not at all, so an interrupted build goes on where it stopped, and several runs share it.
Unreadable videos are reported and left out. Next on the walk: augment.py.
"""

import hashlib
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from jaxtyping import UInt8

from adaptok.metrics.weights import cache_dir
from adaptok.training.listing import Entry
from adaptok.video import Image, Marks, VideoError, images_at, open_video, stretched, whole_file

T = TypeVar("T")
Frames = UInt8[np.ndarray, "T H W 3"]
log = logging.getLogger(__name__)


class Film:
    """The frames of a video that is not kept decoded: only those that are asked for are read and held."""

    def __init__(self, entry: Entry, short_side: int, marks: Marks) -> None:
        self.entry = entry
        self.short_side = short_side
        self.marks = marks

    def __len__(self) -> int:
        return self.marks.count

    def __getitem__(self, which: int | np.integer | slice | np.ndarray) -> np.ndarray:
        """As the array of all frames gives it."""
        asked = np.arange(len(self))[which]
        numbers, places = np.unique(asked, return_inverse=True)
        with as_file(self.entry) as path:
            images = images_at(path, numbers.tolist(), self.marks)
        return np.stack([_reduced(image, self.short_side) for image in images])[places.reshape(asked.shape)]


AnyFrames: TypeAlias = Frames | Film


class FrameStore:
    """Frames of a list of videos; `entries` are the readable ones."""

    def __init__(self, entries: Sequence[Entry], short_side: int, cached: Sequence[Path | Frames | None]) -> None:
        self.entries = tuple(entries)
        self.short_side = short_side
        self._cached = tuple(cached)
        self._marks: dict[int, Marks] = {}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def identities(self) -> list[str]:
        """What tells each video's frames apart from others'."""
        return [_identity(entry, self.short_side) for entry in self.entries]

    def frames(self, number: int) -> AnyFrames:
        """All frames of one video, a view into the file where they are mapped."""
        held = self._cached[number]
        if held is None:
            return self._film(number)
        return np.load(held, mmap_mode="r", allow_pickle=False) if isinstance(held, Path) else held

    def cut(self, number: int, clip: Callable[[AnyFrames], T]) -> tuple[Entry, T]:
        """What `clip` makes of a video's frames; of the next one's, with a report, where this one cannot be read."""
        for place in range(number, number + len(self)):
            entry = self.entries[place % len(self)]
            try:
                return entry, clip(self.frames(place % len(self)))
            except (VideoError, OSError) as error:
                log.warning("%s is left out: %s", entry.name, error)
        raise ValueError(f"none of the {len(self)} videos can be read")

    def _film(self, number: int) -> Film:
        """The first time a video is asked for, all of it is decoded to count its frames, but nothing is kept."""
        entry = self.entries[number]
        if number not in self._marks:
            with as_file(entry) as path, open_video(path) as video:
                self._marks[number] = video.marks()
        return Film(entry, self.short_side, self._marks[number])


def open_store(
    entries: Sequence[Entry],
    cache: Literal["none", "memory", "disk"],
    folder: Path | None,
    short_side: int,
    workers: int = 0,
    first: int = 0,
    track: Callable[[Iterable[Path | None], int], Iterable[Path | None]] = lambda items, _: items,
) -> FrameStore:
    """Decode what the cache lacks; `track` may show progress over the results, whose number it gets.

    Processes that begin at different places of the list, each at its `first`, share the work.
    """
    if cache == "none":
        return FrameStore(entries, short_side, [None] * len(entries))
    folder = folder or cache_dir() / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    make = partial(_cached_file, folder=folder, short_side=short_side)
    turned = [*entries[first:], *entries[:first]]
    if workers:
        # Spawned, as a fork of a process with running threads may lock up.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            files = list(track(pool.map(make, turned), len(entries)))
    else:
        files = list(track(map(make, turned), len(entries)))
    files = files[len(entries) - first :] + files[: len(entries) - first]
    readable = [(entry, file) for entry, file in zip(entries, files, strict=True) if file is not None]
    if not readable:
        raise ValueError(f"none of the {len(entries)} videos can be read")
    kept = [entry for entry, _ in readable]
    if cache == "disk":
        return FrameStore(kept, short_side, [file for _, file in readable])
    return FrameStore(kept, short_side, [np.load(file, allow_pickle=False) for _, file in readable])


def decode(entry: Entry, short_side: int) -> Frames:
    """Every frame, reduced."""
    with as_file(entry) as path, open_video(path) as video:
        return np.stack([_reduced(frame.image, short_side) for frame in video])


@contextmanager
def as_file(entry: Entry) -> Iterator[Path]:
    """The video as a file of its own; one in a shard is copied out for a while."""
    if entry.size is None:
        yield entry.path
        return
    with tempfile.NamedTemporaryFile(suffix=Path(entry.name).suffix) as copy:
        with entry.path.open("rb") as shard:
            shard.seek(entry.offset)
            copy.write(shard.read(entry.size))
        copy.flush()
        yield Path(copy.name)


def _reduced(image: Image, short_side: int) -> UInt8[np.ndarray, "h w 3"]:
    """The image with a shorter side of `short_side`, never enlarged."""
    height, width, _ = image.shape
    scale = min(1.0, short_side / min(height, width))
    return stretched(image[None], max(1, round(height * scale)), max(1, round(width * scale)))[0]


def _identity(entry: Entry, short_side: int) -> str:
    """Tells a video's frames apart from others', and from those of the same file after a change."""
    stat = entry.path.stat()
    identity = f"{entry.path.resolve()} {stat.st_size} {stat.st_mtime_ns} {entry.offset} {short_side}"
    return hashlib.sha256(identity.encode()).hexdigest()[:24]


def _cached_file(entry: Entry, folder: Path, short_side: int) -> Path | None:
    """The array file of one video, made if need be; None, with a report, where the video is unreadable."""
    try:
        path = folder / f"{_identity(entry, short_side)}.npy"
        if not path.exists():
            frames = decode(entry, short_side)
            with whole_file(path, overwrite=True) as file:
                np.save(file, frames, allow_pickle=False)
    except (VideoError, OSError) as error:
        log.warning("%s is left out: %s", entry.name, error)
        return None
    return path
