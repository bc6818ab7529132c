import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_makers import EVERY_FEATURE, HEADER, Pipe, block_ends, is_prefix, random_blocks, read, stored

from adaptok.stream import StreamError, TokenBlock, TokenReader, TokenWriter, max_payload, same_block


@st.composite
def header_changes(draw):
    """Fields of a header, which the test builds: the type checker's own random numbers are not for strategies."""
    blocks = draw(st.integers(1, 5))
    tokens = draw(st.integers(1, 130))
    codebook = draw(st.integers(2, 70000) | st.just(1 << 24))
    candidates = tuple(sorted(draw(st.sets(st.integers(0, tokens), max_size=5))))
    return {
        "model": draw(st.text(max_size=20)),
        "budget": draw(st.text(max_size=20)),
        "fingerprint": draw(st.binary(max_size=32)).hex(),
        "blocks": blocks,
        "frames": blocks * draw(st.integers(1, 6)),
        "tokens": tokens,
        "codebook": codebook,
        "frame_count": draw(st.none() | st.integers(1, 10**9)),
        "has_timestamps": draw(st.booleans()),
        "entropy_coded": draw(st.booleans()),
        "candidates": candidates,
        "score_bytes": draw(st.sampled_from([2, 4])) if candidates else 0,
    }


@settings(max_examples=60, deadline=None)
@given(header_changes(), st.integers(0, 40), st.integers(1, 16), st.integers(0, 2**32 - 1), st.booleans())
def test_every_stream_returns(changes, count, per_record, seed, piped):
    header = replace(HEADER, **changes)
    blocks = random_blocks(header, count, seed)
    data = stored(header, blocks, per_record)
    reader = TokenReader(Pipe(data) if piped else io.BytesIO(data))
    found = list(reader.coded() if header.entropy_coded else reader)
    assert reader.header == header
    assert len(found) == count
    assert is_prefix(found, blocks)
    assert reader.complete
    assert reader.damage is None


@settings(max_examples=15, deadline=None)
@given(header_changes(), st.integers(1, 150), st.integers(1, 16), st.data(), st.booleans())
def test_seeking_equals_reading(changes, count, per_record, data, closed):
    header = replace(HEADER, **changes)
    blocks = random_blocks(header, count)
    reader = TokenReader(io.BytesIO(stored(header, blocks, per_record, closed=closed)))
    for _ in range(4):
        place = data.draw(st.integers(0, count))
        reader.seek(place)
        assert reader.position == place
        rest = list(reader.coded() if header.entropy_coded else reader)
        assert len(rest) == count - place
        assert all(map(same_block, rest, blocks[place:]))


def test_seeking_past_the_end_says_how_many_there_are():
    reader = TokenReader(io.BytesIO(stored(HEADER, random_blocks(HEADER, 5))))
    with pytest.raises(StreamError, match="no block 6: the stream has 5"):
        reader.seek(6)
    with pytest.raises(StreamError, match="counted from 0"):
        reader.seek(-1)


def test_a_pipe_cannot_seek_but_says_so():
    reader = TokenReader(Pipe(stored(HEADER, random_blocks(HEADER, 5))))
    assert reader.end() is None
    with pytest.raises(StreamError, match="pipe"):
        reader.seek(2)


@pytest.mark.parametrize("per_record", [1, 3, 4, 16])
def test_records_end_at_multiples_and_reach_the_file_at_once(per_record):
    blocks = random_blocks(HEADER, 33)
    ends = block_ends(HEADER, blocks, per_record)
    changes = [i for i in range(1, 33) if ends[i] != ends[i - 1]]
    assert changes == list(range(per_record, 33, per_record))


def test_the_index_of_a_long_stream_stays_small(monkeypatch):
    monkeypatch.setattr("adaptok.stream.index.MAX_ENTRIES", 8)
    header = replace(HEADER, tokens=1)
    blocks = random_blocks(header, 1500)
    data = stored(header, blocks)
    reader = TokenReader(io.BytesIO(data))
    index = reader.end()
    assert index is not None
    assert (index.blocks, index.frames) == (1500, 1499 * 4 + 1)
    assert 4 <= len(index.entries) <= 8
    for place in (0, 63, 64, 1499):
        reader.seek(place)
        assert same_block(next(iter(reader)), blocks[place])


def test_entropy_coded_streams_are_not_taken_for_plain_ones():
    coded = replace(HEADER, entropy_coded=True)
    reader = TokenReader(io.BytesIO(stored(coded, random_blocks(coded, 2))))
    with pytest.raises(StreamError, match="entropy coded"):
        list(reader)
    plain = TokenReader(io.BytesIO(stored(HEADER, random_blocks(HEADER, 2))))
    with pytest.raises(StreamError, match="not entropy coded"):
        list(plain.coded())


def _block(**changes):
    fields = {"index": 0, "frames": 4, "codes": np.zeros(3, np.int32)} | changes
    return TokenBlock(**fields)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"index": 1}, "block 1 comes after 0 blocks"),
        ({"frames": 0}, "0 frames, outside 1..4"),
        ({"frames": 5}, "5 frames, outside 1..4"),
        ({"codes": np.zeros(65, np.int32)}, "65 tokens, outside 0..64"),
        ({"codes": np.array([4096])}, "outside the codebook of 4096"),
        ({"codes": np.array([-1])}, "outside the codebook of 4096"),
        ({"timestamps": (1, 2, 3, 4)}, "timestamps"),
        ({"scores": np.zeros(2, np.float32)}, "scores"),
    ],
)
def test_blocks_that_the_header_does_not_announce_are_refused(changes, reason):
    writer = TokenWriter(io.BytesIO(), HEADER)
    with pytest.raises(StreamError, match=reason):
        writer.write(_block(**changes))


def test_timestamps_are_one_per_real_frame_and_bounded():
    writer = TokenWriter(io.BytesIO(), replace(HEADER, has_timestamps=True))
    with pytest.raises(StreamError, match="one per real frame"):
        writer.write(_block(frames=3, timestamps=(1, 2, 3, 4)))
    with pytest.raises(StreamError, match="outside"):
        writer.write(_block(frames=1, timestamps=(2**62,)))


def test_a_payload_has_a_limit():
    header = replace(HEADER, entropy_coded=True)
    block = replace(random_blocks(header, 1)[0], payload=bytes(max_payload(header) + 1))
    with pytest.raises(StreamError, match="the limit is 448"):
        TokenWriter(io.BytesIO(), header).write(block)


def test_a_closed_writer_takes_no_more():
    with TokenWriter(io.BytesIO(), HEADER) as writer:
        pass
    writer.close()
    with pytest.raises(StreamError, match="closed"):
        writer.write(_block())
    with pytest.raises(StreamError, match=r"outside 1\.\.16"):
        TokenWriter(io.BytesIO(), HEADER, blocks_per_record=17)


def test_scores_keep_their_precision():
    for size, exact in ((4, True), (2, False)):
        header = replace(EVERY_FEATURE, score_bytes=size)
        block = replace(random_blocks(EVERY_FEATURE, 1)[0], scores=np.array([0.1, 1, 2, 3], np.float32))
        found = read(stored(header, [block]))[0][0].scores
        assert found is not None
        assert found.dtype == np.float32
        assert (found[0] == np.float32(0.1)) == exact
        np.testing.assert_allclose(found, block.scores, rtol=1e-3)
