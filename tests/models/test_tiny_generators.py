"""The embedded generators speak the embedded tokenizer's tokens, and what they make is a video."""

from pathlib import Path

import numpy as np
import pytest

import adaptok
from adaptok.generation import Director, Sampling, open_generator, predict

MODELS = Path(__file__).parents[2] / "src" / "adaptok" / "models"


@pytest.mark.parametrize("name", ["tiny-ar", "tiny-fp"])
def test_they_belong_to_the_embedded_tokenizer(name: str) -> None:
    config = open_generator(name).config
    assert config.tokenizer == adaptok.load("tiny").fingerprint
    assert config.name == name
    assert config.classes == (("bend", "jack", "wave_one", "wave_two") if name == "tiny-ar" else ())


def test_all_that_ships_stays_small() -> None:
    assert sum(path.stat().st_size for path in MODELS.rglob("*") if path.is_file()) <= 20e6


def test_a_sample_of_every_class() -> None:
    director = Director(open_generator("tiny-ar"), adaptok.load("tiny"))
    config = director.config
    takes = list(director.takes(director.prompts([0, 1, 2, 3], seed=0), Sampling(top_p=0.9), batch=4))
    assert {take.sample for take in takes} == {0, 1, 2, 3}
    for take in takes:
        assert take.frames.shape == (16, 64, 64, 3)
        assert take.frames.std() > 10, "not a plain colour"
        kept = take.tokens[0].kept
        assert config.min_tokens <= kept.min() <= kept.max() <= config.longest


def test_what_follows_the_first_frames_looks_like_them() -> None:
    codec = adaptok.load("tiny")
    clip = adaptok.sample_clip(codec).images[:16]
    found = predict(Director(open_generator("tiny-fp"), codec), clip, Sampling(top_p=0.9), context=5)
    assert found.frames.shape == clip.shape
    assert np.array_equal(found.frames[:5], clip[:5])
    distance = np.abs(found.frames[5:].astype(float) - clip[5:]).mean()
    assert distance < np.abs(clip[5:].astype(float) - clip[5:][:, ::-1, ::-1]).mean(), "nearer than upside down"
