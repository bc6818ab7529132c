"""Videos of every kind, made by the encoders that come with PyAV."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from jaxtyping import UInt8


def picture(i: int, height: int, width: int) -> UInt8[np.ndarray, "H W 3"]:
    """Smooth, so that lossy codecs keep it, and different in all four corners, so that turns show."""
    y, x = np.mgrid[:height, :width] / max(height, width)
    channels = [60 + 120 * x + 3 * i, 200 - 150 * y, 40 + 100 * x * y + 5 * i]
    image = np.stack(channels, -1).clip(0, 255).astype(np.uint8)
    image[: height // 3, : width // 4] = (230, 30, 30)
    return image


def pictures(count: int, height: int = 48, width: int = 64) -> list[np.ndarray]:
    return [picture(i, height, width) for i in range(count)]


def make_video(
    path: Path,
    images: list[np.ndarray],
    *,
    codec: str = "libx264",
    pixels: str = "yuv420p",
    fps: Fraction = Fraction(25),
    times: list[int] | None = None,
    time_base: Fraction | None = None,
    rotation: int = 0,
    mirrored: bool = False,
    audio: bool = False,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Write `images` with the encoder named, without any of the project's own code."""
    base = time_base or 1 / fps
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream = container.add_stream(codec, rate=fps, options=options or {})
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = pixels
        stream.codec_context.time_base = stream.time_base = base
        if rotation or mirrored:
            stream.set_display_rotation(rotation, hflip=mirrored)
        sound = container.add_stream("aac", rate=44100) if audio else None
        for i, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgba" if image.shape[-1] == 4 else "rgb24")
            frame.pts, frame.time_base = (times[i] if times else i), base
            container.mux(stream.encode(frame))
        if sound is not None:
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            silence.sample_rate = 44100
            container.mux(sound.encode(silence))
            container.mux(sound.encode())
        container.mux(stream.encode())
    return path


def worst_mean_difference(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    assert [image.shape for image in found] == [image.shape for image in expected]
    return max(float(np.abs(a.astype(int) - b.astype(int)).mean()) for a, b in zip(found, expected, strict=True))
