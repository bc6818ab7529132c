"""Videos to clips: which windows of a video are looked at, and their pixels at the model's size.

In: an entry of the listing. Out: `Window`s of T frames, centre-cropped, at places that depend on nothing but the
video's content and the seed. A video that cannot be read, or is shorter than a clip, is a VideoError. Next: store.py.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from adaptok.config import Geometry
from adaptok.training.frames import as_file
from adaptok.training.listing import Entry
from adaptok.video import VideoError, centre_cropped, open_video

Images = UInt8[np.ndarray, "T H W 3"]
ABSENT = "absent"
_PIECE = 1 << 20


@dataclass(frozen=True, eq=False)
class Window:
    """T frames in a row at the model's size."""

    start: int
    """Number of its first frame in the video."""
    fps: Fraction
    images: Images


def spread(entries: Sequence[Entry], count: int | None) -> tuple[Entry, ...]:
    """At most `count` entries, evenly over the list, so that all its folders are represented."""
    if count is None or count >= len(entries):
        return tuple(entries)
    return tuple(entries[i * len(entries) // count] for i in range(count))


def content_of(entry: Entry) -> str:
    """sha256 of the video's bytes; a file that is not there has no content, which reading will report."""
    digest = hashlib.sha256()
    try:
        with entry.path.open("rb") as file:
            file.seek(entry.offset)
            left = entry.size
            while piece := file.read(_PIECE if left is None else min(_PIECE, left)):
                digest.update(piece)
                left = None if left is None else left - len(piece)
    except OSError:
        return ABSENT
    return digest.hexdigest()


def read_windows(entry: Entry, content: str, geometry: Geometry, count: int, seed: int) -> list[Window]:
    """Up to `count` windows of a video; fewer where it has not that many places for one."""
    with as_file(entry) as path:
        with open_video(path) as video:
            fps, frames = video.info.fps, video.info.frame_count
        windows = None
        if frames is not None and frames >= geometry.frames:
            windows = _cut(path, _places(frames, geometry.frames, count, f"{seed} {content}"), geometry)
        if windows is None:
            # The file says nothing of its length, or more than is true: only reading tells.
            with open_video(path) as video:
                frames = sum(1 for _ in video)
            if frames < geometry.frames:
                raise VideoError(f"{entry.name} has {frames} frames, a clip has {geometry.frames}")
            windows = _cut(path, _places(frames, geometry.frames, count, f"{seed} {content}"), geometry)
    if windows is None:
        raise VideoError(f"{entry.name} gave {frames} frames once and fewer the next time")
    return [Window(start, fps, images) for start, images in windows]


def _places(frames: int, length: int, count: int, key: str) -> list[int]:
    """First frames of the windows: the places where one can start are cut into `count` stretches, each gives one."""
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))
    edges = np.arange(count + 1) * (frames - length + 1) // count
    return [int(rng.integers(low, high)) for low, high in pairwise(edges.tolist()) if high > low]


def _cut(path: Path, starts: list[int], geometry: Geometry) -> list[tuple[int, Images]] | None:
    """The windows at `starts`, which rise; None where the video ends before the last one does."""
    wanted = {number for start in starts for number in range(start, start + geometry.frames)}
    images: dict[int, Images] = {}
    with open_video(path) as video:
        for number, frame in enumerate(video):
            if number in wanted:
                images[number] = centre_cropped(frame.image[None], geometry.height, geometry.width)
            if len(images) == len(wanted):
                break
    if len(images) < len(wanted):
        return None
    return [(s, np.concatenate([images[number] for number in range(s, s + geometry.frames)])) for s in starts]
