"""Video codecs at a given number of bits: never more where that is possible, nearly all of it, and the truth."""

import numpy as np
import pytest
from evaluation_makers import FPS, pattern

from adaptok.evaluation import reference
from adaptok.evaluation.reference import Coder, Ladder, coder_for, decode, encode, without_sei

NAMES = [name for name in reference.CODERS if coder_for(name) is not None]


def coder(name: str) -> Coder:
    found = coder_for(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_bits_are_met_from_below(name: str) -> None:
    ladder = Ladder(coder(name), pattern(12, 64, 64, 0), FPS)
    coarsest, finest = ladder._at(0).bits, ladder._at(len(ladder.coder.qualities) - 1).bits
    assert coarsest < finest
    for bits in np.geomspace(1.2 * coarsest, 0.9 * finest, 5):
        assert 0.7 * bits <= ladder.within(bits).bits <= bits
    assert ladder.within(coarsest / 2).bits == coarsest


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_back_is_the_clip(name: str) -> None:
    images = pattern(12, 32, 48, 1)
    c = coder(name)
    errors = []
    for quality in (c.qualities[0], c.qualities[len(c.qualities) // 2], c.qualities[-15]):
        shown = decode(c, encode(c, images, FPS, quality))
        assert shown.shape == images.shape
        errors.append(float(np.square(shown.astype(float) - images).mean()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 100


def test_the_same_clip_gives_the_same_bytes() -> None:
    images = pattern(12, 32, 32, 2)
    first = encode(coder("h264"), images, FPS, 30.0).packets
    assert all(encode(coder("h264"), images, FPS, 30.0).packets == first for _ in range(20))


def test_odd_sizes() -> None:
    images = pattern(12, 33, 35, 3)
    shown = decode(coder("h264"), encode(coder("h264"), images, FPS, 10.0))
    assert shown.shape == images.shape


def test_side_information_does_not_count() -> None:
    unit, sei = b"\x65picture", b"\x06x264 and its options"
    assert without_sei(b"\x00\x00\x00\x01" + sei + b"\x00\x00\x01" + unit) == b"\x00\x00\x01" + unit
    coded = encode(coder("h264"), pattern(12, 32, 32, 4), FPS, 51.0)
    assert not any(b"x264" in packet for packet in coded.packets)


def test_an_encoder_that_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference.av, "codecs_available", {"h264"})
    assert coder_for("h264") is None
    assert coder_for("av1") is None
