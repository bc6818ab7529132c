"""The door of `video/`: any path to a `VideoReader`.

In comes a path to a video file, an image or a folder of images; out comes a reader with facts, notes and frames.
`clips.py` is next on the walk.
"""

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from os import PathLike
from pathlib import Path

from adaptok.video.container import DEFAULT_FPS, ContainerReader
from adaptok.video.folder import FolderReader
from adaptok.video.frame import Image, Marks, VideoError, VideoReader


def open_video(path: str | PathLike[str], *, image_fps: Fraction = DEFAULT_FPS) -> VideoReader:
    """Open what FFmpeg can read; `image_fps` is the frame rate given to a folder of images.

    Raises:
        VideoError: one line that names the path and what is wrong.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return FolderReader(path, image_fps)
        if not path.exists():
            raise VideoError(f"{path} does not exist")
        if path.is_file() and path.stat().st_size == 0:
            raise VideoError(f"{path} is empty")
    except OSError as error:
        raise VideoError(f"{path} cannot be read: {error.strerror}") from None
    return ContainerReader(path)


def images_at(path: str | PathLike[str], numbers: Sequence[int], marks: Marks) -> list[Image]:
    """The images of frames with these rising numbers, read from the nearest of the video's `marks`."""
    # Some formats announce key frames that cannot be entered; from the beginning it always goes.
    with suppress(VideoError), open_video(path) as video:
        return video.pick(numbers, marks)
    with open_video(path) as video:
        return video.pick(numbers, Marks(marks.count))
