"""Damaged streams give a prefix of whole blocks or a clear error: never a crash, a wrong block or much memory."""

import io
import struct
import tracemalloc
import zlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_makers import EVERY_FEATURE, HEADER, Pipe, block_ends, is_prefix, random_blocks, read, stored

from adaptok.stream import StreamError, StreamHeader, TokenReader

SMALL = replace(HEADER, tokens=6, codebook=1000, model="m", fingerprint="", budget="")
CODED = replace(SMALL, entropy_coded=True)
RICH = replace(EVERY_FEATURE, tokens=6, codebook=1000, candidates=(0, 6), model="m", budget="")
STREAMS = {
    "a block per record": (SMALL, 6, 1, True),
    "a clip per record": (SMALL, 10, 4, True),
    "timestamps and scores": (RICH, 5, 2, True),
    "entropy coded": (CODED, 5, 2, True),
    "no blocks": (SMALL, 0, 1, True),
    "never closed": (SMALL, 7, 4, False),
}


@pytest.fixture(params=STREAMS)
def stream(request):
    header, count, per_record, closed = STREAMS[request.param]
    blocks = random_blocks(header, count)
    return (
        stored(header, blocks, per_record, closed=closed),
        blocks,
        block_ends(header, blocks, per_record),
        closed,
    )


def _header_size(data: bytes) -> int:
    return 16 + struct.unpack_from("<H", data, 10)[0]


def _check(damaged: bytes, original: bytes, blocks, ends, first_change: int) -> None:
    """Whatever comes out is a prefix and holds every block of the records before the change."""
    # Every other one as from a pipe, where nothing can be looked up at the end.
    file = Pipe(damaged, 1 << 16) if first_change % 2 else io.BytesIO(damaged)
    try:
        reader = TokenReader(file)
    except StreamError:
        assert first_change < _header_size(original)
        return
    found = list(reader.coded() if reader.header.entropy_coded else reader)
    assert is_prefix(found, blocks)
    assert len(found) >= sum(end <= first_change for end in ends)
    assert reader.damage is not None
    if len(found) < len(blocks):
        assert f"{len(found)} blocks are whole" in reader.damage


@pytest.mark.parametrize("change", [0xFF, 0x01, 0x80])
def test_every_flipped_byte(stream, change):
    data, blocks, ends, _ = stream
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= change
        _check(bytes(damaged), data, blocks, ends, place)


def test_every_removed_byte(stream):
    data, blocks, ends, _ = stream
    for place in range(len(data)):
        _check(data[:place] + data[place + 1 :], data, blocks, ends, place)


def test_every_added_byte(stream):
    data, blocks, ends, _ = stream
    for place in range(len(data) - 1):
        octet = bytes([data[place] ^ 0x41])
        _check(data[:place] + octet + data[place:], data, blocks, ends, place)


def test_every_truncation(stream):
    data, blocks, ends, _ = stream
    for size in range(len(data)):
        _check(data[:size], data, blocks, ends, size)


def test_every_removed_record_is_noticed():
    blocks = random_blocks(SMALL, 9)
    data, ends = stored(SMALL, blocks), block_ends(SMALL, blocks)
    starts = [_header_size(data), *ends]
    for i in range(9):
        found, reader = read(data[: starts[i]] + data[ends[i] :])
        assert len(found) == i
        assert is_prefix(found, blocks)
        assert reader.damage == (
            f"the stream is damaged (its check fails) at byte {starts[i]}: {i} blocks are whole, "
            f"blocks {i} to 8 are lost"
            if i < 8
            else "the end mark counts 9 blocks, but 8 were found"
        )


def test_a_record_of_another_stream_is_not_taken():
    blocks = random_blocks(SMALL, 2)
    data, other = stored(SMALL, blocks), stored(replace(SMALL, model="n"), blocks)
    start = _header_size(data)
    found, reader = read(data[:start] + other[start:])
    assert found == []
    assert reader.damage is not None


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(list(STREAMS)),
    st.integers(0, 2**32),
    st.integers(0, 600),
    st.integers(0, 80),
    st.binary(max_size=80),
)
def test_any_stretch_replaced(name, seed, place, length, patch):
    header, count, per_record, closed = STREAMS[name]
    blocks = random_blocks(header, count, seed % 7)
    data = stored(header, blocks, per_record, closed=closed)
    place %= len(data)
    damaged = data[:place] + patch + data[place + length :]
    try:
        found, reader = read(damaged)
    except StreamError:
        return
    assert is_prefix(found, blocks)
    assert len(found) == len(blocks) or reader.damage


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_after_a_header(noise, piped):
    start = stored(RICH, [], closed=False)
    reader = TokenReader(Pipe(start + noise) if piped else io.BytesIO(start + noise))
    assert list(reader) == []
    assert reader.damage


def test_seeking_works_around_damage_before_the_target():
    header = replace(SMALL, tokens=4)
    blocks = random_blocks(header, 200)
    data = bytearray(stored(header, blocks))
    data[block_ends(header, blocks)[10] + 1] ^= 1
    reader = TokenReader(io.BytesIO(bytes(data)))
    assert len(list(reader)) == 11
    reader.seek(150)
    assert is_prefix(list(reader), [replace(block) for block in blocks[150:]])
    with pytest.raises(StreamError, match="no block 30: the stream is damaged .* blocks 11 to 199 are lost"):
        reader.seek(30)


def test_a_lying_index_does_no_harm():
    from adaptok.stream.index import Index, write_end

    blocks = random_blocks(SMALL, 9)
    data = stored(SMALL, blocks, closed=False)
    check = struct.unpack_from("<I", data, _header_size(data) - 4)[0]
    for entries in ([(0, 0)], [(0, 5), (4, 2**60)], [(3, _header_size(data))]):
        reader = TokenReader(io.BytesIO(data + write_end(Index(9, 33, 64, entries), check)))
        reader.seek(5)
        assert len(list(reader)) == 4


def _with_body(body: bytes, flags: int = 0, version: int = 1) -> bytes:
    start = struct.pack("<8sBBH", b"\x89ADTK\r\n\x1a", version, flags, len(body)) + body
    return start + struct.pack("<I", zlib.crc32(start))


GEOMETRY = [16, 4, 64, 4096, 8, 8, 8, 8, 25, 1, 1, 25, 0, 0, 0]


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, 0, "frames per clip is 0"),
        (1, 0, "blocks per clip is 0"),
        (1, 3, "16 frames do not divide into 3 blocks"),
        (2, 0, "tokens per block is 0"),
        (3, 1, "codebook size is 1"),
        (3, 2**32 - 1, "codebook size is 4294967295, outside 2..16777216"),
        (4, 0, "height is 0"),
        (6, 2**32 - 1, "source height is 4294967295, outside 1..65535"),
        (7, 0, "source width is 0"),
        (7, 2_000_000, "source width is 2000000, outside 1..65535"),
        (8, 0, "frame rate numerator is 0"),
        (8, 2**32 - 1, "frame rate numerator is 4294967295, outside 1..2147483647"),
        (9, 0, "contradicts itself"),
        (11, 0, "contradicts itself"),
        (12, 2**64 - 1, "frame count is"),
        (13, 3, "0 scores of 3 bytes"),
        (14, 65535, "contradicts itself"),
    ],
)
def test_hostile_headers_are_refused(place, value, reason):
    numbers = [*GEOMETRY[:place], value, *GEOMETRY[place + 1 :]]
    with pytest.raises(StreamError, match=reason):
        read(_with_body(struct.pack("<HHHIHHIIIIIIQBH", *numbers) + b"\0\0\0"))


def test_a_hostile_source_size_is_refused():
    numbers = [*GEOMETRY[:6], 60_000, 60_000, *GEOMETRY[8:]]
    with pytest.raises(StreamError, match="60000×60000 have more than 134217728 pixels"):
        read(_with_body(struct.pack("<HHHIHHIIIIIIQBH", *numbers) + b"\0\0\0"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a token stream"),
        (b"RIFF" * 10, "not a token stream"),
        (b"\x89ADTK\n\x1a" + bytes(80), "not a token stream"),
        (b"\x89ADTK\r\n\x1a", "cut short inside its header"),
        (_with_body(b""), "contradicts itself"),
        (_with_body(struct.pack("<HHHIHHIIIIIIQBH", *GEOMETRY)), "contradicts itself"),
        (_with_body(struct.pack("<HHHIHHIIIIIIQBH", *GEOMETRY) + b"\1\xff\0\0"), "contradicts itself"),
        (_with_body(struct.pack("<HHHIHHIIIIIIQBH", *GEOMETRY) + b"\0\0\0\0"), "fields take 54|fields take"),
        (_with_body(bytes(60), version=2), "version 2; this program reads version 1"),
        (_with_body(bytes(60), flags=0x80), "unknown flags 0x80"),
    ],
)
def test_what_is_no_stream_is_refused_in_one_line(data, reason):
    with pytest.raises(StreamError, match=reason) as caught:
        read(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fps": Fraction(2**33)}, "frame rate numerator"),
        ({"model": "x" * 256}, "model name in bytes is 256"),
        ({"fingerprint": "xyz"}, "not hexadecimal"),
        ({"fingerprint": "AB"}, "lower-case"),
        ({"candidates": (4, 4), "score_bytes": 2}, "must rise"),
        ({"candidates": (4, 65), "score_bytes": 2}, "at most 64"),
        ({"candidates": (4, 8)}, "2 scores of 0 bytes"),
        ({"frame_count": 0}, "frame count is 0"),
    ],
)
def test_headers_that_cannot_be_stored_are_refused(changes, reason):
    with pytest.raises(StreamError, match=reason):
        replace(HEADER, **changes)


def _peak(data: bytes) -> int:
    tracemalloc.start()
    try:
        read(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_hostile_lengths_cost_no_memory():
    huge = StreamHeader(
        **{
            **{name: getattr(HEADER, name) for name in HEADER.__dataclass_fields__},
            "frames": 65535 // 5 * 5,
            "blocks": 5,
            "tokens": 65535,
            "codebook": 1 << 24,
            "candidates": tuple(range(4096)),
            "score_bytes": 4,
            "has_timestamps": True,
        }
    )
    start = stored(huge, [], closed=False)
    records = [b"\x2f" + b"\xff" * 9 + b"\x01", b"\x2f\x05" + bytes(90), b"\x80" + b"\xff\xff\xff\x7f" + bytes(90)]
    records += [b"\x2f" + bytes(100)]
    read(start)
    for record in records:
        assert _peak(start + record) < 20 * len(start + record) + 200_000
    big = random_blocks(replace(SMALL, tokens=65535, codebook=2), 3, kept=65535)
    data = stored(replace(SMALL, tokens=65535, codebook=2), big, 4)
    assert _peak(data) < 150 * len(data)
    np.testing.assert_array_equal(read(data)[0][2].codes, big[2].codes)
