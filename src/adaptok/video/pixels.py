"""A decoded FFmpeg frame to upright 8-bit RGB.

In comes what a decoder made (any pixel format, bit depth, alpha, display matrix), out goes an (H,W,3) array as a viewer
would show it. `container.py` and `folder.py` use this.
"""

from typing import TYPE_CHECKING, cast

import av
import numpy as np
from av.sidedata.sidedata import Type
from jaxtyping import UInt8

from adaptok.video.frame import Image

if TYPE_CHECKING:
    from av.sidedata.sidedata import SideDataContainer


def upright(frame: av.VideoFrame) -> tuple[Image, tuple[str, ...]]:
    """The picture as shown, and notes about what was done to it."""
    flat, alpha = _rgb(frame)
    image, turn = _turned(flat, frame)
    return np.ascontiguousarray(image), (*alpha, *turn)


def _rgb(frame: av.VideoFrame) -> tuple[Image, tuple[str, ...]]:
    """8-bit RGB; alpha is composited on black, which is what most players show behind a transparent video."""
    transparent = frame.format.name == "pal8" or any(part.is_alpha for part in frame.format.components)
    if not transparent:
        return frame.to_ndarray(format="rgb24"), ()
    rgba: UInt8[np.ndarray, "H W 4"] = frame.to_ndarray(format="rgba")
    alpha = rgba[..., 3:].astype(np.uint16)
    if alpha.min() == 255:
        return rgba[..., :3], ()
    blended = (rgba[..., :3] * alpha + 127) // 255
    return blended.astype(np.uint8), ("transparent pixels are shown on black",)


def _turned(image: Image, frame: av.VideoFrame) -> tuple[UInt8[np.ndarray, "H2 W2 3"], tuple[str, ...]]:
    """The image after its display matrix: quarter turns and mirrorings; other angles are left as stored."""
    if frame.rotation % 90:
        return image, (f"rotation by {frame.rotation} degrees is not applied",)
    matrix = _display_matrix(frame)
    if matrix is None:
        # All that is left without the matrix is its angle, counted counter-clockwise.
        quarters = round(frame.rotation / 90) % 4
        turned = np.rot90(image, quarters)
        return turned, (f"turned by {90 * quarters} degrees as its metadata ask",) if quarters else ()
    # The pixel in column p and row q is shown in column a p + c q and row b p + d q, up to a shift.
    a, b, c, d = matrix
    if (a, b, c, d) == (1, 0, 0, 1):
        return image, ()
    image = image[::d, ::a] if a else image.swapaxes(0, 1)[::b, ::c]
    return image, ("turned or mirrored as its metadata ask",)


def _display_matrix(frame: av.VideoFrame) -> tuple[int, int, int, int] | None:
    """Signs of the matrix's four linear entries; the identity when there is none, None when it cannot be read."""
    try:
        # PyAV's stub gives the attribute the type of one entry; it is the container of all.
        side_data = cast("SideDataContainer", frame.side_data)
        entries = [bytes(data) for data in side_data if data.type is Type.DISPLAYMATRIX]
    except ValueError:
        # PyAV cannot list side data when a kind it does not know (EXIF of still images) is among them.
        return None
    if not entries:
        return 1, 0, 0, 1
    a, b, _, c, d = np.sign(np.rint(np.frombuffer(entries[0], np.int32)[:5] / 65536)).astype(int).tolist()
    return a, b, c, d
