"""Original | reconstruction | tokens per block, side by side, as in the paper's first figure.

In come pairs of frames and the number of tokens of their block, out goes a video in which the rightmost panel shows a
bar per block: the current one dark, earlier ones light, the height the share of the most tokens a block may have. One
pair is in memory at a time. This is the last file of `video/`.
"""

from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from os import PathLike
from types import TracebackType

import numpy as np
from jaxtyping import UInt8

from adaptok.video.frame import Image
from adaptok.video.output import OutputError
from adaptok.video.writer import create_video

BARS = 16
"""Blocks that fit the panel; older ones leave on the left."""
GAP = 8
_BAR, _SPACE = 8, 2
_PANEL = BARS * (_BAR + _SPACE)
_HEADROOM = 16
"""Rows above a full bar, for the number."""
_COMFORTABLE = 192
"""Frames are enlarged by the smallest whole factor that makes them this high."""
_WHITE, _LINE, _EARLIER, _CURRENT = (255, 255, 255), (200, 200, 200), (158, 195, 235), (31, 95, 191)
_DIGIT_ROWS = (
    ("###", "#.#", "#.#", "#.#", "###"),
    (".#.", "##.", ".#.", ".#.", "###"),
    ("###", "..#", "###", "#..", "###"),
    ("###", "..#", ".##", "..#", "###"),
    ("#.#", "#.#", "###", "..#", "..#"),
    ("###", "#..", "###", "..#", "###"),
    ("###", "#..", "###", "#.#", "###"),
    ("###", "..#", ".#.", ".#.", ".#."),
    ("###", "#.#", "###", "#.#", "###"),
    ("###", "#.#", "###", "..#", "###"),
)
"""0 to 9 on 3 x 5 pixels, so that no font has to be found on the user's machine."""


def side_by_side(
    original: Image, reconstruction: Image, kept: Sequence[int], most: int, enlarge: int = 1
) -> UInt8[np.ndarray, "H2 W2 3"]:
    """One picture of the three panels; `kept` are tokens of the latest blocks, the current one last, out of `most`.

    The picture's sides are even, so that every video format takes it.
    """
    left, middle = (image.repeat(enlarge, 0).repeat(enlarge, 1) for image in (original, reconstruction))
    height, width = left.shape[:2]
    panel = token_bars(kept, most, max(height, 4 * _HEADROOM))
    canvas = np.full((_even(len(panel)), _even(2 * (width + GAP) + _PANEL), 3), 255, np.uint8)
    canvas[:height, :width] = left
    canvas[:height, width + GAP : 2 * width + GAP] = middle
    canvas[: len(panel), 2 * (width + GAP) : 2 * (width + GAP) + _PANEL] = panel
    return canvas


def token_bars(kept: Sequence[int], most: int, height: int) -> Image:
    """The panel of bars: the latest `BARS` of `kept`, a line where a full bar ends, the current count in digits."""
    panel = np.full((height, _PANEL, 3), _WHITE, np.uint8)
    full = height - _HEADROOM
    panel[_HEADROOM - 1] = _LINE
    shown = list(kept)[-BARS:]
    for place, count in enumerate(shown):
        bar = round(full * min(count, most) / most)
        x = place * (_BAR + _SPACE)
        colour = _CURRENT if place == len(shown) - 1 else _EARLIER
        panel[height - bar : height, x : x + _BAR] = colour
        if colour is _CURRENT:
            _draw_number(panel, count, x)
    return panel


def _draw_number(panel: Image, number: int, x: int) -> None:
    """Write `number` into the headroom at column `x`, or as far right as it fits, each dot 2 x 2 pixels."""
    rows = [".".join(_DIGIT_ROWS[int(digit)][row] for digit in str(number)) for row in range(5)]
    dots = np.array([[dot == "#" for dot in row] for row in rows]).repeat(2, 0).repeat(2, 1)
    x = max(0, min(x, _PANEL - dots.shape[1]))
    panel[2:12, x : x + dots.shape[1]][dots[:, : _PANEL - x]] = _CURRENT


def _even(size: int) -> int:
    return size + size % 2


class ComparisonWriter:
    """Writes the comparison video as frames come; a context manager that keeps the file only if all went well."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        height: int,
        width: int,
        fps: Fraction,
        time_base: Fraction,
        most: int,
        overwrite: bool = False,
    ) -> None:
        if most < 1:
            raise OutputError(f"a block of at most {most} tokens has no bar")
        self._most = most
        self._enlarge = max(1, -(-_COMFORTABLE // height))
        self._kept: deque[int] = deque(maxlen=BARS)
        self._block = -1
        blank = np.zeros((height, width, 3), np.uint8)
        canvas = side_by_side(blank, blank, [], most, self._enlarge)
        self._writer = create_video(
            path,
            height=canvas.shape[0],
            width=canvas.shape[1],
            fps=fps,
            time_base=time_base,
            overwrite=overwrite,
        )

    def write(self, original: Image, reconstruction: Image, pts: int, *, block: int, kept: int) -> None:
        """Add a pair of frames shown at `pts`, which belong to `block`, of which `kept` tokens were retained."""
        if block != self._block:
            self._block = block
            self._kept.append(kept)
        canvas = side_by_side(original, reconstruction, self._kept, self._most, self._enlarge)
        self._writer.write(canvas, pts)

    def close(self) -> None:
        """Finish the video and put it in place."""
        self._writer.close()

    def __enter__(self) -> "ComparisonWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)
