import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptok.stream import StreamError
from adaptok.stream.bits import (
    bits_per_code,
    pack,
    packed_size,
    read_varints,
    unpack,
    unzigzag,
    varint,
    zigzag,
)


@given(st.data(), st.integers(1, 24))
def test_codes_return(data, bits):
    codes = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=70)), np.int64)
    stored = pack(codes, bits)
    assert len(stored) == packed_size(len(codes), bits)
    np.testing.assert_array_equal(unpack(stored, bits, len(codes)), codes)


def test_the_first_code_is_in_the_top_bits():
    assert pack(np.array([0xABC, 0xDEF]), 12).hex() == "abcdef"
    assert pack(np.array([1, 2, 3]), 3).hex() == "2980"


@pytest.mark.parametrize("codebook", [2, 3, 1000, 1024, 1025, 4096, 1 << 24])
def test_bits_are_the_rounded_up_logarithm(codebook):
    assert bits_per_code(codebook) == int(np.ceil(np.log2(codebook)))


@pytest.mark.parametrize("value", [-1, 8])
def test_a_code_that_does_not_fit_is_refused(value):
    with pytest.raises(ValueError, match="do not fit 3 bits"):
        pack(np.array([0, value]), 3)


def test_bytes_that_are_not_packed_codes_are_refused():
    with pytest.raises(StreamError, match="need 2 bytes"):
        unpack(b"\0", 3, 5)
    with pytest.raises(StreamError, match="not zero"):
        unpack(b"\xff", 3, 2)


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_varints_return(values):
    assert read_varints(b"".join(map(varint, values))) == values


@pytest.mark.parametrize("data", [b"\x80", b"\xff" * 10 + b"\x01"])
def test_a_broken_varint_is_refused(data):
    with pytest.raises(StreamError, match="varint"):
        read_varints(data)


@given(st.integers(-(2**63), 2**63))
def test_zigzag_returns_and_is_not_negative(value):
    assert zigzag(value) >= 0
    assert unzigzag(zigzag(value)) == value
