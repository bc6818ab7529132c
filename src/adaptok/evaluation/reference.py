"""What video codecs make of the same clips with the same bits: H.264 and AV1 by the encoders inside PyAV.

In: a clip and a number of bits. Out: what a viewer sees after the finest constant quality that fits into them, and the
bits it really took. Rate control aims at averages over seconds, a clip lasts less than one: a search over qualities
meets the limit as closely as the encoder allows. Where even the coarsest quality takes more, that one is given with its
true bits. Next on the walk: work.py.
"""

import os
import re
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from av.codec.context import CodecContext, Flags
from av.error import FFmpegError
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from jaxtyping import UInt8

Images = UInt8[np.ndarray, "T H W 3"]
_START_CODE = re.compile(rb"\x00\x00\x00?\x01")
_SEI = 6
"""H.264's units of side information; x264 writes 680 bytes of its own name and options into the first one."""


@dataclass(frozen=True)
class Coder:
    """An encoder, its decoder, and its qualities from coarse to fine."""

    encoder: str
    decoder: str
    options: tuple[tuple[str, str], ...]
    qualities: tuple[float, ...]
    """Values of `crf`."""


CODERS: dict[str, tuple[Coder, ...]] = {
    # Plain code: with assembly, which may read beyond small frames, the same clip gives other bytes each time.
    "h264": (
        Coder(
            "libx264",
            "h264",
            (("preset", "slow"), ("x264-params", "asm=0")),
            tuple(51 - step / 2 for step in range(93)),
        ),
    ),
    "av1": (
        Coder("libsvtav1", "libdav1d", (("preset", "4"),), tuple(float(63 - step) for step in range(63))),
        Coder("libaom-av1", "libdav1d", (("cpu-used", "4"), ("b:v", "0")), tuple(float(63 - s) for s in range(63))),
    ),
}
"""For every reference the encoders that serve, the preferred first. Near 0 x264 jumps to lossless: that is left out."""


def coder_for(reference: str) -> Coder | None:
    """The first encoder that this build of FFmpeg has, or None."""
    for coder in CODERS[reference]:
        if {coder.encoder, coder.decoder} <= av.codecs_available:
            return coder
    return None


@dataclass(frozen=True, eq=False)
class Coded:
    """A clip after a codec."""

    bits: int
    packets: tuple[bytes, ...]
    header: bytes | None


class Ladder:
    """One clip at every quality of one encoder, each made when first asked for."""

    def __init__(self, coder: Coder, images: Images, fps: Fraction) -> None:
        self.coder = coder
        self._images = images
        self._fps = fps
        self._made: dict[int, Coded] = {}

    def within(self, bits: float | int) -> Coded:
        """The finest quality of at most `bits`, or else the coarsest there is."""
        fits, above = 0, len(self.coder.qualities)
        while above - fits > 1:
            middle = (fits + above) // 2
            if self._at(middle).bits <= bits:
                fits = middle
            else:
                above = middle
        return self._at(fits)

    def _at(self, rung: int) -> Coded:
        if rung not in self._made:
            self._made[rung] = encode(self.coder, self._images, self._fps, self.coder.qualities[rung])
        return self._made[rung]


def encode(coder: Coder, images: Images, fps: Fraction, quality: float) -> Coded:
    """All frames at one quality; bits are those of the pictures, as a token stream's are those of its codes."""
    # SVT-AV1 tells the terminal about itself unless told not to.
    os.environ.setdefault("SVT_LOG", "1")
    height, width = images.shape[1:3]
    context = CodecContext.create(coder.encoder, "w")
    assert isinstance(context, VideoCodecContext)  # the table names video encoders only
    context.height, context.width = height, width
    # 4:2:0 stores one colour per 2×2 pixels and H.264 then has no odd sizes.
    context.pix_fmt = "yuv444p" if height % 2 or width % 2 else "yuv420p"
    context.framerate, context.time_base = fps, 1 / fps
    context.options = {**dict(coder.options), "crf": f"{quality:g}"}
    context.thread_count = 1  # more threads change the bits
    context.flags |= Flags.global_header
    packets = []
    try:
        for number, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = number, 1 / fps
            packets += context.encode(frame)
        packets += context.encode()
    except FFmpegError as error:
        raise ValueError(f"{coder.encoder} cannot encode {width}×{height}: {error.strerror}") from error
    data = tuple(without_sei(bytes(packet)) if coder.encoder == "libx264" else bytes(packet) for packet in packets)
    return Coded(8 * sum(map(len, data)), data, context.extradata)


def decode(coder: Coder, coded: Coded) -> Images:
    """The frames in the order in which they are shown."""
    context = CodecContext.create(coder.decoder, "r")
    assert isinstance(context, VideoCodecContext)
    context.extradata, context.thread_count = coded.header, 1
    frames = [frame for data in coded.packets for frame in context.decode(Packet(data))]
    frames += context.decode(None)
    return np.stack([frame.to_ndarray(format="rgb24") for frame in frames])


def without_sei(data: bytes) -> bytes:
    """A packet's units but for side information, which no picture needs."""
    units = _START_CODE.split(data)[1:]
    return b"".join(b"\x00\x00\x01" + unit for unit in units if unit and unit[0] & 31 != _SEI)
