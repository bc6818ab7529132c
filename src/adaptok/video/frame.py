"""What a video is once its file format is forgotten: frames with times, and facts about the whole.

No files are touched here. `reader.py`, next on the walk, opens a path and gives back a `VideoReader`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from types import TracebackType
from typing import TypeAlias, TypeVar

import numpy as np
from jaxtyping import UInt8

T = TypeVar("T")
Image: TypeAlias = UInt8[np.ndarray, "H W 3"]
"""Red, green, blue as stored in files: 0 to 255, gamma applied."""


class VideoError(ValueError):
    """A video that cannot be read; the message names the path and what is wrong with it."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One picture and when it is shown, in units of the video's `time_base`."""

    image: Image
    pts: int


@dataclass(frozen=True, kw_only=True)
class VideoInfo:
    """Facts known before the frames are read."""

    height: int
    width: int
    """Size as shown: rotation is already applied."""
    fps: Fraction
    """Average frames per second."""
    time_base: Fraction
    """Seconds of one unit of a frame's `pts`."""
    frame_count: int | None
    """What the file says of itself; None if it says nothing. The true count is known after the last frame."""


@dataclass(frozen=True)
class Marks:
    """Where reading can begin, learnt by a first pass: `VideoReader.pick` then need not start from the beginning."""

    count: int
    """How many frames there are, exactly."""
    numbers: tuple[int, ...] = (0,)
    """Frames that can be decoded without those before them ..."""
    times: tuple[int, ...] = (0,)
    """... and their `pts`."""


class VideoReader(ABC):
    """Frames in the order they are shown, one in memory at a time, in a single pass.

    A context manager that closes its file. `notes` says in short sentences what was ignored or repaired; it is complete
    only after the last frame, since damage in the middle shows only there.
    """

    info: VideoInfo

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}
        self._started = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a viewer should know, without repetition."""
        return tuple(self._notes)

    def note(self, sentence: str) -> None:
        """Add to `notes`."""
        self._notes[sentence] = None

    def __iter__(self) -> Iterator[Frame]:
        """The frames.

        Raises:
            VideoError: a second pass is asked for, or the video turns out to be unreadable.
        """
        self._begin()
        return self._frames()

    def _begin(self) -> None:
        if self._started:
            raise VideoError("a video can be read once; open it again for a second pass")
        self._started = True

    def marks(self) -> Marks:
        """Count the frames and note where reading can begin; this is the reader's single pass."""
        return Marks(sum(1 for _ in self))

    def pick(self, numbers: Sequence[int], marks: Marks) -> list[Image]:
        """The images of frames with these rising numbers, as a full pass would give them; the reader's single pass.

        Raises:
            VideoError: the video has no such frames; `marks` may be those of another one.
        """
        del marks
        return [frame.image for frame in chosen(self, numbers)]

    @abstractmethod
    def _frames(self) -> Iterator[Frame]:
        """The frames, for `__iter__`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and decoders."""

    def __enter__(self) -> "VideoReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def chosen(frames: Iterable[T], numbers: Sequence[int], first: int = 0) -> list[T]:
    """The frames with these rising numbers out of those from number `first` on; what follows the last is not read."""
    wanted = set(numbers)
    found = [frame for number, frame in enumerate(islice(frames, numbers[-1] + 1 - first), first) if number in wanted]
    if len(found) < len(wanted):
        raise VideoError(f"frame {numbers[-1]} is asked for, but the video has no such frame")
    return found
