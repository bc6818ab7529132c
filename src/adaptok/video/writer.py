"""Frames to a video file or a folder of PNG images, whole or not at all.

In come images with times, out goes the file at the path given, once the last frame is in; `compare.py`, next on the
walk, draws what a reconstruction looks like beside its original. Which container keeps what exactly is in
`docs/decisions/0012-video-io.md`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from types import TracebackType

import av
from av.codec.context import CodecContext
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext

from adaptok.video.frame import Image
from adaptok.video.output import OutputError, whole_file, whole_folder
from adaptok.video.palette import Palette

_BT601, _LIMITED = 6, 1
"""FFmpeg's numbers for the colour matrix and range its converter uses; written so that players undo the same one."""


@dataclass(frozen=True)
class FileFormat:
    """How one kind of file is written; `time_base` is the finest the container can store, None for any."""

    muxer: str
    codec: str
    pixels: str
    options: dict[str, str]
    time_base: Fraction | None


_H264 = {"crf": "16"}
_VP9 = {"crf": "20", "b:v": "0", "deadline": "realtime", "cpu-used": "6"}
FILE_FORMATS = {
    ".mp4": FileFormat("mp4", "libx264", "yuv420p", _H264, None),
    ".mov": FileFormat("mov", "libx264", "yuv420p", _H264, None),
    ".mkv": FileFormat("matroska", "libx264", "yuv420p", _H264, Fraction(1, 1000)),
    ".webm": FileFormat("webm", "libvpx-vp9", "yuv420p", _VP9, Fraction(1, 1000)),
    ".gif": FileFormat("gif", "gif", "pal8", {}, Fraction(1, 100)),
}


def create_video(
    path: str | PathLike[str],
    *,
    height: int,
    width: int,
    fps: Fraction,
    time_base: Fraction,
    overwrite: bool = False,
) -> "VideoWriter":
    """A writer for `path`: a file by its suffix, a folder of PNG images when it has none.

    Raises:
        OutputError: unknown suffix, the path is taken, or the system refuses.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in FILE_FORMATS:
        return FileWriter(path, height, width, fps, time_base, overwrite=overwrite)
    if suffix:
        known = ", ".join(FILE_FORMATS)
        raise OutputError(f"cannot write {path}: {known} or a name without suffix for a folder of PNG images")
    return PngFolderWriter(path, height, width, overwrite=overwrite)


class VideoWriter(ABC):
    """Takes frames one by one; as a context manager it keeps the result only if no error leaves the block.

    An open `ExitStack` holds the temporary output: closing it well puts the output in place, closing it with an error
    removes it.
    """

    def __init__(self, path: Path, height: int, width: int) -> None:
        self.path = path
        self.size = (height, width)
        self.frames = 0
        self._open = True
        self._stack = ExitStack()

    def write(self, image: Image, pts: int) -> None:
        """Add the next frame, shown from `pts` on, in the time base the writer was made with.

        Raises:
            OutputError: wrong size, or the system refuses to write.
        """
        if not self._open:
            raise OutputError(f"{self.path} is already finished")
        if image.shape[:2] != self.size:
            raise OutputError(f"frame {self.frames} has size {image.shape[:2]}, the video {self.size}")
        self._write(image, pts)
        self.frames += 1

    def close(self) -> None:
        """Finish the output and put it in place; on failure nothing is left behind.

        Raises:
            OutputError: no frames came, or the system refuses to write.
        """
        with self:
            pass

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._open:
            return
        self._open = False
        stack = self._stack.pop_all()
        if kind is None:
            with stack:
                if not self.frames:
                    self._abandon()
                    raise OutputError(f"cannot write {self.path}: there are no frames")
                self._finish()
        else:
            self._abandon()
            stack.__exit__(kind, error, trace)

    @abstractmethod
    def _write(self, image: Image, pts: int) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...

    @abstractmethod
    def _abandon(self) -> None: ...


class FileWriter(VideoWriter):
    """A video file through one of FFmpeg's encoders."""

    def __init__(
        self, path: Path, height: int, width: int, fps: Fraction, time_base: Fraction, *, overwrite: bool
    ) -> None:
        super().__init__(path, height, width)
        kind = FILE_FORMATS[path.suffix.lower()]
        self._source_base, self._time_base = time_base, kind.time_base or time_base
        self._step = max(1, round(1 / (fps * self._time_base)))
        self._last: int | None = None
        self._palette = Palette(height, width, self._time_base) if kind.pixels == "pal8" else None
        with _one_line(path), ExitStack() as stack:
            file = stack.enter_context(whole_file(path, overwrite=overwrite))
            self._container = av.open(file, "w", format=kind.muxer, options=_clock(kind, time_base))
            stream = self._container.add_stream(kind.codec, rate=fps, options=kind.options)
            assert isinstance(stream, av.VideoStream)  # the table names video encoders only
            self._stream, context = stream, stream.codec_context
            context.width, context.height = width, height
            # 4:2:0 stores one colour per 2x2 pixels; H.264 then has no odd sizes, and 4:4:4 is its way out.
            odd = kind.codec == "libx264" and (height % 2 or width % 2)
            context.pix_fmt = "yuv444p" if odd else kind.pixels
            if kind.pixels != "pal8":
                context.colorspace, context.color_range = _BT601, _LIMITED
            context.time_base = self._stream.time_base = self._time_base
            self._stack = stack.pop_all()

    def _write(self, image: Image, pts: int) -> None:
        frame = av.VideoFrame.from_ndarray(image, format="rgb24")
        shown = round(pts * self._source_base / self._time_base)
        # Two frames that a coarse clock cannot tell apart would be an error to the muxer.
        if self._last is not None and self._time_base != self._source_base:
            shown = max(shown, self._last + 1)
        if self._last is not None and shown <= self._last:
            raise OutputError(f"frame {self.frames} is shown at {pts}, not after the frame before it")
        self._last = shown
        frame.pts, frame.time_base, frame.duration = shown, self._time_base, self._step
        with _one_line(self.path):
            for ready in [frame] if self._palette is None else self._palette.push(frame):
                self._container.mux(self._stream.encode(ready))

    def _finish(self) -> None:
        with _one_line(self.path):
            for ready in [] if self._palette is None else self._palette.finish():
                self._container.mux(self._stream.encode(ready))
            self._container.mux(self._stream.encode())
            self._container.close()

    def _abandon(self) -> None:
        # Closing frees the encoder; that it cannot finish a file that is about to vanish is no news.
        with suppress(FFmpegError, OSError, ValueError):
            self._container.close()


class PngFolderWriter(VideoWriter):
    """One PNG file per frame; exact pixels, no times."""

    NAME = "frame_{:06d}.png"

    def __init__(self, path: Path, height: int, width: int, *, overwrite: bool) -> None:
        super().__init__(path, height, width)
        if min(height, width) < 1:
            raise OutputError(f"cannot write images of size {height} x {width}")
        self._folder = self._stack.enter_context(whole_folder(path, overwrite=overwrite, ours="frame_*.png"))

    def _write(self, image: Image, pts: int) -> None:
        del pts  # a folder of images has no times
        encoder = CodecContext.create("png", "w")
        assert isinstance(encoder, VideoCodecContext)
        encoder.height, encoder.width = self.size
        encoder.pix_fmt, encoder.time_base = "rgb24", Fraction(1, 25)
        packets = encoder.encode(av.VideoFrame.from_ndarray(image, format="rgb24")) + encoder.encode()
        name = self.NAME.format(self.frames)
        with _one_line(self.path):
            (self._folder / name).write_bytes(b"".join(bytes(packet) for packet in packets))

    def _finish(self) -> None: ...

    def _abandon(self) -> None: ...


def _clock(kind: FileFormat, time_base: Fraction) -> dict[str, str]:
    """MP4 stores the first frame's time on a clock of its own, in milliseconds unless told; tell it the video's."""
    ticks = time_base.denominator * -(-1000 // time_base.denominator)
    return {"movie_timescale": str(ticks)} if kind.time_base is None and ticks < 1 << 31 else {}


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turn what the system or FFmpeg say into one line with the user's path."""
    try:
        yield
    except (OSError, FFmpegError) as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
