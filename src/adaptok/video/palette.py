"""Full colour to the 256 colours a GIF frame may have, chosen anew for every frame.

In come RGB frames, out come frames with a palette each, one for one; `writer.py` encodes them. A palette per frame
needs one pass and one frame of memory, where a palette for the whole video would need all frames first.
"""

from fractions import Fraction

import av
from av.filter import Graph


class Palette:
    """FFmpeg's palette filters as a small machine: push a frame, take what is ready."""

    def __init__(self, height: int, width: int, time_base: Fraction) -> None:
        graph = Graph()
        self._source = graph.add_buffer(
            width=width, height=height, format=av.VideoFormat("rgb24", width, height), time_base=time_base
        )
        split = graph.add("split")
        choose = graph.add("palettegen", "stats_mode=single:reserve_transparent=0")
        apply = graph.add("paletteuse", "new=1")
        self._source.link_to(split)
        split.link_to(apply, 0, 0)
        split.link_to(choose, 1, 0)
        choose.link_to(apply, 0, 1)
        apply.link_to(graph.add("buffersink"))
        graph.configure()
        self._graph = graph

    def push(self, frame: av.VideoFrame) -> list[av.VideoFrame]:
        """Put a frame in, get those that are ready."""
        self._source.push(frame)
        return self._ready()

    def finish(self) -> list[av.VideoFrame]:
        """What is left once the last frame is in."""
        self._source.push(None)
        return self._ready()

    def _ready(self) -> list[av.VideoFrame]:
        frames: list[av.VideoFrame] = []
        while True:
            try:
                frame = self._graph.pull()
            except (BlockingIOError, EOFError):
                return frames
            if isinstance(frame, av.VideoFrame):
                frames.append(frame)
