"""The embedded generator speaks the embedded tokenizer's tokens, and what it makes is a video."""

from pathlib import Path

import adaptok
from adaptok.generation import Director, Sampling, open_generator

MODELS = Path(__file__).parents[2] / "src" / "adaptok" / "models"


def test_it_belongs_to_the_embedded_tokenizer() -> None:
    config = open_generator("tiny-ar").config
    assert config.tokenizer == adaptok.load("tiny").fingerprint
    assert config.classes == ("bend", "jack", "wave_one", "wave_two")


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
