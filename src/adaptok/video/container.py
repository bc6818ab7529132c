"""Frames of a video file, or of a single image, decoded lazily by FFmpeg through PyAV.

In comes a path, out come `Frame`s; `folder.py` does the same for a folder of images, `reader.py` chooses. What can be
read of a damaged file is read, and a note says what could not.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, dropwhile, pairwise
from pathlib import Path

import av
from av.container import InputContainer
from av.error import FFmpegError

from adaptok.video.frame import Frame, Image, Marks, VideoError, VideoInfo, VideoReader, chosen
from adaptok.video.pixels import upright

DEFAULT_FPS = Fraction(25)

_NOT_VIDEO = {"tty", "bin", "xbin", "adf", "idf"}
"""FFmpeg's renderers of text files as pictures; nobody who names a text file means that."""


def open_container(path: Path) -> InputContainer:
    """The file as FFmpeg sees it.

    Raises:
        VideoError: FFmpeg makes nothing of it.
    """
    try:
        # "file:" keeps odd names from being taken for other protocols; the list keeps playlists off the network.
        container = av.open(
            f"file:{path}", metadata_errors="replace", options={"protocol_whitelist": "file,crypto,data"}
        )
    except (FFmpegError, OSError) as error:
        raise VideoError(f"{path} is not a readable video: {error.strerror}") from None
    if container.format.name in _NOT_VIDEO:
        container.close()
        raise VideoError(f"{path} is not a video: it looks like text")
    return container


class ContainerReader(VideoReader):
    """One video track of one file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._container = open_container(path)
        try:
            self._open_track()
        except BaseException:
            self._container.close()
            raise

    def _open_track(self) -> None:
        streams = self._container.streams
        track = streams.best("video")
        if not isinstance(track, av.VideoStream):
            raise VideoError(f"{self._path} has no video track")
        track.thread_type = "AUTO"
        self._track = track
        self._note_other_tracks()
        self._bad_packets = 0
        self._time_base = track.time_base or Fraction(1, 1000)
        self._decoder = self._decoded()
        # The first frame is decoded now: only it tells the shown size, and whether there is anything to read at all.
        first = next(self._decoder, None)
        if first is None:
            raise VideoError(f"{self._path} has no readable frames")
        self._first: av.VideoFrame | None = first
        image, _ = upright(first)
        fps = track.average_rate or track.guessed_rate
        if not fps:
            self.note(f"the file gives no frame rate; {DEFAULT_FPS} frames per second are assumed")
        self.info = VideoInfo(
            height=image.shape[0],
            width=image.shape[1],
            fps=fps or DEFAULT_FPS,
            time_base=self._time_base,
            frame_count=track.frames or None,
        )
        self._step = max(1, round(1 / (self.info.fps * self._time_base)))

    def _note_other_tracks(self) -> None:
        streams = self._container.streams
        if streams.audio:
            self.note(f"{len(streams.audio)} audio track{'s' * (len(streams.audio) > 1)} ignored")
        if len(streams.video) > 1:
            self.note(f"{len(streams.video) - 1} further video tracks ignored")
        aspect = self._track.sample_aspect_ratio
        if aspect and aspect != 1:
            self.note(f"pixels are not square ({aspect}); they are kept as stored")

    def _decoded(self) -> Iterator[av.VideoFrame]:
        """Whatever the decoder can make of the file: damaged packets are passed over, as players do."""
        packets = self._container.demux(self._track)
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except (FFmpegError, OSError) as error:
                self.note(f"the file cannot be read to its end: {error.strerror}")
                return
            try:
                yield from packet.decode()
            except FFmpegError:
                self._bad_packets += 1

    def _frames(self) -> Iterator[Frame]:
        pts, end, count = None, 0, 0
        for decoded in self._pass():
            pts = self._next_pts(decoded.pts, pts)
            end = pts + (decoded.duration or self._step)
            yield Frame(self._image(decoded), pts)
            count += 1
        if self._bad_packets:
            self.note(f"the file is damaged: {self._bad_packets} packets could not be decoded, {count} frames were")
        self._note_early_end(end)

    def marks(self) -> Marks:
        """One pass that decodes without making pictures; key frames are where reading can begin."""
        self._begin()
        times, keys = [], []
        for number, decoded in enumerate(self._pass()):
            times.append(decoded.pts)
            if decoded.key_frame or not number:
                keys.append(number)
        known = [time for time in times if time is not None]
        if len(known) < len(times) or any(b <= a for a, b in pairwise(known)):
            # Frames cannot be told apart by their times: reading begins at the beginning.
            return Marks(len(times))
        return Marks(len(times), tuple(keys), tuple(known[number] for number in keys))

    def pick(self, numbers: Sequence[int], marks: Marks) -> list[Image]:
        """Decode from the last key frame before the first of `numbers` up to the last of them."""
        self._begin()
        place = bisect_right(marks.numbers, numbers[0]) - 1
        begin, time = marks.numbers[place], marks.times[place]
        decoded: Iterator[av.VideoFrame] = self._pass()
        if begin:
            try:
                self._container.seek(time, stream=self._track)
                decoded = dropwhile(lambda frame: frame.pts is None or frame.pts < time, self._decoded())
                first = next(decoded, None)
            except (FFmpegError, OSError):
                first = None
            if first is None or first.pts != time:
                raise VideoError(f"{self._path} cannot be entered at frame {begin}")
            decoded = chain([first], decoded)
        return [self._image(frame) for frame in chosen(decoded, numbers, begin)]

    def _pass(self) -> Iterator[av.VideoFrame]:
        """The decoder's frames from the first on."""
        first, self._first = self._first, None
        assert first is not None
        return chain([first], self._decoder)

    def _image(self, decoded: av.VideoFrame) -> Image:
        image, notes = upright(decoded)
        for sentence in notes:
            self.note(sentence)
        if image.shape[:2] != (self.info.height, self.info.width):
            self.note("the picture's size changes in the middle; later frames are scaled to the first one's")
            whole = av.VideoFrame.from_ndarray(image, format="rgb24")
            image = whole.to_ndarray(format="rgb24", width=self.info.width, height=self.info.height)
        return image

    def _next_pts(self, stored: int | None, previous: int | None) -> int:
        """The frame's time; where it is missing or does not rise, one that does."""
        if stored is None:
            return 0 if previous is None else previous + self._step
        if previous is not None and stored <= previous:
            self.note("some frame times did not rise and were moved")
            return previous + 1
        return stored

    def _note_early_end(self, end: int) -> None:
        """A file cut in the middle often raises no error; it just ends before the time it announced."""
        track, container = self._track, self._container
        if track.duration:
            announced = ((track.start_time or 0) + track.duration) * self._time_base
        elif container.duration and not container.streams.audio:
            announced = Fraction((container.start_time or 0) + container.duration, av.time_base)
        else:
            return
        reached = end * self._time_base
        if announced - reached > 2 / self.info.fps:
            self.note(f"the video ends at {float(reached):.2f} s of {float(announced):.2f} s: cut or damaged")

    def close(self) -> None:
        """Close the file and its decoder."""
        self._container.close()
