"""Original and reconstructions side by side, enlarged, with a running bar of tokens under each budget.

In: the clip and its passages. Out: an mp4. Next on the walk: page.py.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from adaptok.demo.passage import Passage, Shown
from adaptok.video import create_video, token_bars

SIZE = 256
"""Frames are enlarged by the smallest whole factor that makes them this high."""
BARS_HEIGHT = 96
_GAP = 8


def write_film(path: Path, clip: Shown, passages: Sequence[Passage], block_frames: int, tokens_per_block: int) -> None:
    """Write the comparison, as many frames as the clip has."""
    first = _picture(clip, passages, 0, block_frames, tokens_per_block)
    with create_video(
        path,
        height=first.shape[0],
        width=first.shape[1],
        fps=clip.fps,
        time_base=1 / Fraction(clip.fps),
        overwrite=True,
    ) as writer:
        for number in range(len(clip.images)):
            writer.write(_picture(clip, passages, number, block_frames, tokens_per_block), number)


def _picture(
    clip: Shown, passages: Sequence[Passage], number: int, block_frames: int, tokens_per_block: int
) -> UInt8[np.ndarray, "H W 3"]:
    """The original, then every budget from left to right, each over its bars."""
    factor = -(-SIZE // clip.images.shape[1])
    panels = [
        images[number].repeat(factor, 0).repeat(factor, 1) for images in (clip.images, *(p.images for p in passages))
    ]
    height, width = panels[0].shape[:2]
    bars = [
        token_bars(p.tokens.kept[: number // block_frames + 1].tolist(), tokens_per_block, BARS_HEIGHT)
        for p in passages
    ]
    # Both sides even, which H.264 wants.
    across = len(panels) * (width + _GAP)
    canvas = np.full((height + _GAP + BARS_HEIGHT + height % 2, across + across % 2, 3), 255, np.uint8)
    for place, panel in enumerate(panels):
        left = place * (width + _GAP)
        canvas[:height, left : left + width] = panel
        if place:
            bar = bars[place - 1][:, :width]
            canvas[height + _GAP : height + _GAP + BARS_HEIGHT, left : left + bar.shape[1]] = bar
    return canvas
