"""The embedded model is the one that the model card describes, and as good as it was."""

from pathlib import Path

import numpy as np
import pytest

import adaptok
from adaptok import Budget
from adaptok.demo import sample_clip
from adaptok.stream.codec import Codec
from adaptok.stream.compare import psnr

ROOT = Path(__file__).parents[2]
FLOORS = {8: 16.2, 16: 19.2, 32: 20.9}
"""PSNR in dB on the bundled clip at so many tokens per block, a little below what was measured."""


@pytest.fixture(scope="module")
def codec() -> Codec:
    return adaptok.load("tiny")


@pytest.fixture(scope="module")
def frames(codec: Codec) -> np.ndarray:
    return sample_clip(codec).images


def quality(codec: Codec, frames: np.ndarray, per_block: int, strategy: str) -> float:
    return psnr(frames, codec.reconstruct(frames, Budget(per_block=per_block), strategy))


def test_the_weights_are_those_of_the_model_card(codec: Codec) -> None:
    card = (ROOT / "docs" / "models" / "tiny.md").read_text()
    assert codec.fingerprint in card
    assert codec.identity in card


def test_the_model_is_the_preset(codec: Codec) -> None:
    assert codec.bundle.config == adaptok.preset("tiny")


def test_the_package_stays_small() -> None:
    folder = ROOT / "src" / "adaptok" / "models" / "tiny"
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 20e6


def test_quality_holds_and_rises_with_the_budget(codec: Codec, frames: np.ndarray) -> None:
    found = {per_block: quality(codec, frames, per_block, "ipal") for per_block in FLOORS}
    for per_block, floor in FLOORS.items():
        assert found[per_block] >= floor
    assert sorted(found.values()) == list(found.values())


def test_adaptive_is_at_least_as_good_as_even(codec: Codec, frames: np.ndarray) -> None:
    for per_block in FLOORS:
        assert quality(codec, frames, per_block, "ipal") >= quality(codec, frames, per_block, "fixed")
