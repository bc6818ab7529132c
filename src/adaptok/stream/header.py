"""The head of a `.adtk` stream: which model wrote it, its geometry, the source video, what each record carries.

In comes a `StreamHeader`, out go its bytes, and back; `records.py` is next on the walk. The header is small, bounded
and checked before any number in it is used. Byte tables: `docs/format.md`.
"""

import struct
import zlib
from dataclasses import dataclass
from fractions import Fraction

from adaptok.stream.bits import MAX_CODE_BITS, bits_per_code
from adaptok.stream.errors import StreamError
from adaptok.stream.source import ByteSource

MAGIC = b"\x89ADTK\r\n\x1a"
VERSION = 1
HAS_TIMESTAMPS, ENTROPY_CODED = 1, 2

_PREFIX = struct.Struct("<8sBBH")
_GEOMETRY = struct.Struct("<HHHIHHIIIIIIQBH")
_CHECK = struct.Struct("<I")
_MAX_CANDIDATES = 4096
MAX_SIDE, MAX_AREA = 0xFFFF, 1 << 27
"""Of source frames: more than any screen or sensor has, little enough that a block of them can be held."""


@dataclass(frozen=True, kw_only=True)
class StreamHeader:
    """Everything a reader must know before the first block.

    `fps` and `time_base` are in Hertz and seconds. Without `has_timestamps`, frame i is shown at i / fps seconds;
    with it every block carries its frames' times in units of `time_base`. `candidates` are the lengths that a block's
    stored scores belong to, empty when no scores are stored, as floats of `score_bytes` bytes each.
    """

    model: str
    fingerprint: str
    """Lower-case hexadecimal, up to 64 bytes when decoded."""
    frames: int
    """T: frames per clip."""
    blocks: int
    """K: blocks per clip."""
    tokens: int
    """M: the most tokens of one block."""
    codebook: int
    """V: codes are below this."""
    height: int
    width: int
    source_height: int
    source_width: int
    fps: Fraction
    time_base: Fraction
    frame_count: int | None = None
    """Frames of the source as far as known at the start; the end of the stream has the true count."""
    budget: str = ""
    has_timestamps: bool = False
    entropy_coded: bool = False
    candidates: tuple[int, ...] = ()
    score_bytes: int = 0

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("frames per clip", self.frames, 1, 0xFFFF),
            ("blocks per clip", self.blocks, 1, 0xFFFF),
            ("tokens per block", self.tokens, 1, 0xFFFF),
            ("codebook size", self.codebook, 2, 1 << MAX_CODE_BITS),
            ("height", self.height, 1, 0xFFFF),
            ("width", self.width, 1, 0xFFFF),
            ("source height", self.source_height, 1, MAX_SIDE),
            ("source width", self.source_width, 1, MAX_SIDE),
            ("frame rate numerator", self.fps.numerator, 1, 0x7FFFFFFF),
            ("frame rate denominator", self.fps.denominator, 1, 0x7FFFFFFF),
            ("time base numerator", self.time_base.numerator, 1, 0x7FFFFFFF),
            ("time base denominator", self.time_base.denominator, 1, 0x7FFFFFFF),
            ("frame count", 1 if self.frame_count is None else self.frame_count, 1, (1 << 63) - 1),
            ("number of candidate lengths", len(self.candidates), 0, _MAX_CANDIDATES),
            ("model name in bytes", len(self.model.encode()), 0, 255),
            ("budget text in bytes", len(self.budget.encode()), 0, 255),
            ("fingerprint in digits", len(self.fingerprint), 0, 128),
        ):
            if not low <= value <= high:
                raise StreamError(f"{name} is {value}, outside {low}..{high}")
        if self.source_height * self.source_width > MAX_AREA:
            raise StreamError(
                f"source frames of {self.source_height}×{self.source_width} have more than {MAX_AREA} pixels"
            )
        if self.frames % self.blocks:
            raise StreamError(f"{self.frames} frames do not divide into {self.blocks} blocks")
        if self.score_bytes not in ((2, 4) if self.candidates else (0,)):
            raise StreamError(f"{len(self.candidates)} scores of {self.score_bytes} bytes each: 2 or 4, and 0 for none")
        if any(not a < b <= self.tokens for a, b in zip((-1, *self.candidates), self.candidates, strict=False)):
            raise StreamError(f"candidate lengths must rise from 0 or more to at most {self.tokens}")
        if self.fingerprint != _raw(self.fingerprint).hex():
            raise StreamError(f"fingerprint {self.fingerprint!r} is not lower-case hexadecimal")

    @property
    def frames_per_block(self) -> int:
        """T / K."""
        return self.frames // self.blocks

    @property
    def code_bits(self) -> int:
        """Bits of one packed code."""
        return bits_per_code(self.codebook)

    def to_bytes(self) -> bytes:
        """The header as stored, its check at the end."""
        flags = HAS_TIMESTAMPS * self.has_timestamps | ENTROPY_CODED * self.entropy_coded
        geometry = _GEOMETRY.pack(
            self.frames,
            self.blocks,
            self.tokens,
            self.codebook,
            self.height,
            self.width,
            self.source_height,
            self.source_width,
            self.fps.numerator,
            self.fps.denominator,
            self.time_base.numerator,
            self.time_base.denominator,
            self.frame_count or 0,
            self.score_bytes,
            len(self.candidates),
        )
        candidates = struct.pack(f"<{len(self.candidates)}H", *self.candidates)
        texts = [self.model.encode(), _raw(self.fingerprint), self.budget.encode()]
        body = geometry + candidates + b"".join(bytes([len(text)]) + text for text in texts)
        stored = _PREFIX.pack(MAGIC, VERSION, flags, len(body)) + body
        return stored + _CHECK.pack(zlib.crc32(stored))


def header_check(stored: bytes) -> int:
    """The check of a stored header; every later check of the stream starts from it, tying records to their stream."""
    return int(_CHECK.unpack(stored[-_CHECK.size :])[0])


def read_header(source: ByteSource) -> tuple[StreamHeader, int]:
    """The header at the start of `source` and its check.

    Raises:
        StreamError: not a token stream, of another version, or damaged.
    """
    prefix = source.take_up_to(_PREFIX.size)
    if not prefix.startswith(MAGIC):
        raise StreamError("not a token stream: it does not start with the .adtk mark")
    if len(prefix) < _PREFIX.size:
        raise StreamError("the token stream is cut short inside its header")
    _, version, flags, body_size = _PREFIX.unpack(prefix)
    stored = prefix + source.take_up_to(body_size + _CHECK.size)
    if version != VERSION:
        raise StreamError(f"token stream of version {version}; this program reads version {VERSION}")
    if len(stored) < _PREFIX.size + body_size + _CHECK.size:
        raise StreamError("the token stream is cut short inside its header, or the header is damaged")
    if zlib.crc32(stored[: -_CHECK.size]) != header_check(stored):
        raise StreamError("the header of the token stream is damaged")
    if flags & ~(HAS_TIMESTAMPS | ENTROPY_CODED):
        raise StreamError(f"token stream with unknown flags {flags:#x}")
    return _parse(flags, stored[_PREFIX.size : -_CHECK.size]), header_check(stored)


def _parse(flags: int, body: bytes) -> StreamHeader:
    """The fields of a header body whose check has passed; a hostile one can still contradict itself."""
    try:
        *numbers, frame_count, score_bytes, candidate_count = _GEOMETRY.unpack_from(body)
        frames, blocks, tokens, codebook, height, width, source_height, source_width, *rates = numbers
        candidates = struct.unpack_from(f"<{candidate_count}H", body, _GEOMETRY.size)
        position = _GEOMETRY.size + 2 * candidate_count
        texts = []
        for _ in range(3):
            end = position + 1 + body[position]
            texts.append(body[position + 1 : end])
            position = end
        if position != len(body):
            raise StreamError(f"the header says {len(body)} bytes but its fields take {position}")
        return StreamHeader(
            model=texts[0].decode(),
            fingerprint=texts[1].hex(),
            budget=texts[2].decode(),
            frames=frames,
            blocks=blocks,
            tokens=tokens,
            codebook=codebook,
            height=height,
            width=width,
            source_height=source_height,
            source_width=source_width,
            fps=Fraction(rates[0], rates[1]),
            time_base=Fraction(rates[2], rates[3]),
            frame_count=frame_count or None,
            has_timestamps=bool(flags & HAS_TIMESTAMPS),
            entropy_coded=bool(flags & ENTROPY_CODED),
            candidates=candidates,
            score_bytes=score_bytes,
        )
    except (struct.error, IndexError, UnicodeDecodeError, ZeroDivisionError) as error:
        raise StreamError(f"the header of the token stream contradicts itself: {error}") from None


def _raw(fingerprint: str) -> bytes:
    try:
        return bytes.fromhex(fingerprint)
    except ValueError:
        raise StreamError(f"fingerprint {fingerprint!r} is not hexadecimal") from None
