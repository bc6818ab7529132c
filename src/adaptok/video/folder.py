"""A folder of images as a video: file names in natural order, a frame rate by agreement.

In comes a folder, out come `Frame`s. `reader.py`, next on the walk, chooses between this and `container.py`.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from av.error import FFmpegError

from adaptok.video.container import open_container
from adaptok.video.frame import Frame, Image, VideoError, VideoInfo, VideoReader
from adaptok.video.pixels import upright

IMAGE_SUFFIXES = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


def natural_key(name: str) -> list[tuple[int, str]]:
    """Sorts frame2 before frame10: digits count as numbers, all else as text regardless of case."""
    return [(int(part), "") if part.isdecimal() else (-1, part.lower()) for part in re.split(r"(\d+)", name)]


class FolderReader(VideoReader):
    """Every image of a folder, one frame each; other files are ignored with a note."""

    def __init__(self, path: Path, fps: Fraction) -> None:
        super().__init__()
        visible = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
        images = [file for file in visible if file.suffix.lower() in IMAGE_SUFFIXES]
        if not images:
            raise VideoError(f"{path} is a folder without images")
        if len(images) < len(visible):
            self.note(f"{len(visible) - len(images)} files in the folder are not images and were ignored")
        self._files = sorted(images, key=lambda file: natural_key(file.name))
        first = self._read(self._files[0])
        self.info = VideoInfo(
            height=first.shape[0],
            width=first.shape[1],
            fps=fps,
            time_base=1 / fps,
            frame_count=len(self._files),
        )

    def _read(self, file: Path) -> Image:
        with open_container(file) as container:
            try:
                decoded = next(container.decode(video=0))
            except (FFmpegError, StopIteration, IndexError):
                raise VideoError(f"{file} is not a readable image") from None
            image, notes = upright(decoded)
        for sentence in notes:
            self.note(sentence)
        return image

    def _frames(self) -> Iterator[Frame]:
        size = (self.info.height, self.info.width)
        for pts, file in enumerate(self._files):
            image = self._read(file)
            if image.shape[:2] != size:
                raise VideoError(f"{file} has size {image.shape[:2]}, the first image of its folder has {size}")
            yield Frame(image, pts)

    def close(self) -> None:
        """Nothing is held open between two images."""
