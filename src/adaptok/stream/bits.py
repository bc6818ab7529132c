"""Integers to bytes and back: codes at a fixed number of bits, counts as varints.

In come integer arrays or single integers, out go bytes, and the other way round. Nothing here knows of records or
files; `header.py` and `records.py` are next on the walk. The byte layout is specified in `docs/format.md`.
"""

import numpy as np
from jaxtyping import Int32, Integer

from adaptok.stream.errors import StreamError

MAX_CODE_BITS = 24
MAX_VARINT_BYTES = 10
"""Ten groups of seven bits hold any 64-bit integer."""


def bits_per_code(codebook: int) -> int:
    """⌈log2 V⌉: the width of one packed code."""
    return (codebook - 1).bit_length()


def packed_size(count: int, bits: int) -> int:
    """Bytes that `count` packed integers of `bits` bits take."""
    return (count * bits + 7) // 8


def pack(values: Integer[np.ndarray, " N"], bits: int) -> bytes:
    """Write integers of `bits` bits one after another, most significant bit first, zeros after the last.

    Raises:
        ValueError: a value needs more bits or is negative.
    """
    if values.size == 0:
        return b""
    if values.min() < 0 or values.max() >> bits:
        raise ValueError(f"values {values.min()}..{values.max()} do not fit {bits} bits")
    word = _word(bits)
    octets = np.ascontiguousarray(values, dtype=f">u{word}").view(np.uint8).reshape(-1, word)
    return np.packbits(np.unpackbits(octets, axis=1)[:, 8 * word - bits :]).tobytes()


def unpack(data: bytes, bits: int, count: int) -> Int32[np.ndarray, " N"]:
    """Read `count` integers of `bits` bits; the opposite of `pack`.

    Raises:
        StreamError: `data` is not exactly as long as `count` integers need, or the bits after the last are not zero.
    """
    if len(data) != packed_size(count, bits):
        raise StreamError(f"{count} values of {bits} bits need {packed_size(count, bits)} bytes, not {len(data)}")
    if count == 0:
        return np.zeros(0, np.int32)
    stored = np.unpackbits(np.frombuffer(data, np.uint8))
    if stored[count * bits :].any():
        raise StreamError("bits after the last value are not zero")
    word = _word(bits)
    wide = np.zeros((count, 8 * word), np.uint8)
    wide[:, 8 * word - bits :] = stored[: count * bits].reshape(count, bits)
    return np.packbits(wide, axis=1).view(f">u{word}").reshape(-1).astype(np.int32)


def _word(bits: int) -> int:
    """Bytes of the smallest machine integer that holds `bits` bits: less to move, and bounded memory at few bits."""
    return 1 if bits <= 8 else 2 if bits <= 16 else 4


def varint(value: int) -> bytes:
    """An unsigned integer in groups of seven bits, the low group first, the top bit set on all bytes but the last."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_varints(data: bytes) -> list[int]:
    """All varints of `data`, which must end with the last of them.

    Raises:
        StreamError: the last varint is cut short, or one is longer than a 64-bit integer needs.
    """
    values, value, shift = [], 0, 0
    for octet in data:
        if shift == 7 * MAX_VARINT_BYTES:
            raise StreamError(f"a varint is longer than {MAX_VARINT_BYTES} bytes")
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            values.append(value)
            value, shift = 0, 0
    if shift:
        raise StreamError("the last varint is cut short")
    return values


def zigzag(value: int) -> int:
    """A signed integer as an unsigned one, small for small magnitudes: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    """The opposite of `zigzag`."""
    return -((value + 1) >> 1) if value & 1 else value >> 1
