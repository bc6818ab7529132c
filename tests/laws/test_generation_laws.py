"""Cached sampling is the slow oracle, token for token, in any company; every stream is one the tokenizer can decode."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[1] / "generation"))

from generation_makers import class_config, frame_config, random_generator, random_prompt, small_codec

from adaptok.generation import Director, Generator, Prompt, Sampling, sample_blocks
from adaptok.generation.slow import slow_blocks
from adaptok.stream.codec import Tokens

BY_CLASS = {slots: random_generator(class_config(slots=slots)) for slots in (False, True)}
BY_FRAMES = {slots: random_generator(frame_config(slots=slots)) for slots in (False, True)}
CLASSES = BY_CLASS[False]

SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 5]),
    top_p=st.sampled_from([0.6, 1.0]),
    guidance=st.sampled_from([1.0, 0.0, 2.5]),
    guidance_from=st.sampled_from([0, 4]),
    guidance_until=st.sampled_from([None, 4, 9]),
    blocks=st.sampled_from([None, 1, 2, 7]),
    overlap=st.sampled_from([None, 0, 2]),
    max_tokens=st.sampled_from([None, 3]),
)


def generated(generator: Generator, prompts: Sequence[Prompt], sampling: Sampling, batch: int) -> list[list[list[int]]]:
    """Blocks of each sample, in order."""
    found: list[list[list[int]]] = [[] for _ in prompts]
    for block in sample_blocks(generator, prompts, sampling, batch):
        assert block.index == len(found[block.sample]) + len(prompts[block.sample].prefix)
        found[block.sample].append(block.codes.tolist())
    return found


def expected(generator: Generator, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[list[int]]]:
    return [[b.tolist() for b in slow_blocks(generator, prompt, sampling)[len(prompt.prefix) :]] for prompt in prompts]


@pytest.mark.parametrize("slots", [False, True])
@settings(max_examples=25, deadline=None)
@given(sampling=SAMPLINGS, count=st.integers(1, 5), batch=st.integers(1, 5), seed=st.integers(0, 99), data=st.data())
def test_cached_is_uncached_whatever_the_batch(
    slots: bool, sampling: Sampling, count: int, batch: int, seed: int, data: st.DataObject
) -> None:
    generator, most = BY_CLASS[slots], min(sampling.blocks or 3, 3) - 1
    given = [data.draw(st.integers(0, most)) for _ in range(count)]
    prompts = [random_prompt(generator.config, seed + i, n) for i, n in enumerate(given)]
    assert generated(generator, prompts, sampling, batch) == expected(generator, prompts, sampling)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_long_prompt_may_follow_short_samples(batch: int) -> None:
    """Once the cache has dropped what nobody needs, a prompt that is let in can be longer than what is left."""
    for seed in range(12):
        prompts = [random_prompt(CLASSES.config, seed + i, n) for i, n in enumerate((0, 0, 2, 0, 2))]
        sampling = Sampling(temperature=0.5, top_p=0.6, blocks=7, max_tokens=3)
        assert generated(CLASSES, prompts, sampling, batch) == expected(CLASSES, prompts, sampling)


@pytest.mark.parametrize("slots", [False, True])
@settings(max_examples=8, deadline=None)
@given(batch=st.integers(1, 4), seed=st.integers(0, 99), given=st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_the_same_for_given_frames(slots: bool, batch: int, seed: int, given: list[int]) -> None:
    generator = BY_FRAMES[slots]
    prompts = [random_prompt(generator.config, seed + i, n) for i, n in enumerate(given)]
    sampling = Sampling(top_k=9)
    assert generated(generator, prompts, sampling, batch) == expected(generator, prompts, sampling)


def test_single_precision_too() -> None:
    generator = random_generator(class_config(), dtype=torch.float32)
    prompts = [random_prompt(generator.config, seed) for seed in range(12)]
    for sampling in (Sampling(), Sampling(guidance=1.5, blocks=5)):
        wanted = expected(generator, prompts, sampling)
        for batch in (1, 5, 12):
            assert generated(generator, prompts, sampling, batch) == wanted


def test_seeds_decide_and_nothing_else() -> None:
    prompts = [random_prompt(CLASSES.config, seed) for seed in (3, 4, 3)]
    a, b, again = generated(CLASSES, prompts, Sampling(), 3)
    assert a == again
    assert a != b


@settings(max_examples=20, deadline=None)
@given(low=st.integers(1, 6), high=st.integers(1, 6), blocks=st.integers(1, 8), seed=st.integers(0, 999))
def test_lengths_stay_within_bounds(low: int, high: int, blocks: int, seed: int) -> None:
    low, high = min(low, high), max(low, high)
    prompts = [random_prompt(CLASSES.config, seed + i) for i in range(3)]
    sampling = Sampling(min_tokens=low, max_tokens=high, blocks=blocks)
    for sample in generated(CLASSES, prompts, sampling, 2):
        assert len(sample) == blocks
        assert all(low <= len(codes) <= high for codes in sample)
        assert all(0 <= code < CLASSES.config.codebook_size for codes in sample for code in codes)
    forced = generated(CLASSES, prompts, Sampling(tokens_per_block=high, blocks=blocks), 2)
    assert all(len(codes) == high for sample in forced for codes in sample)


def check_streams(count: int, decode_every: int, folder: Path) -> None:
    """Random weights in single precision: whatever comes out must be a stream like any other."""
    codec = small_codec()
    config = class_config(tokenizer=codec.fingerprint, min_tokens=2)
    director = Director(random_generator(config, dtype=torch.float32), codec)
    labels = [i % 4 if i % 4 < 3 else None for i in range(count)]
    seen = 0
    for sample in generated(director.generator, director.prompts(labels, seed=5), Sampling(temperature=1.3), batch=64):
        assert len(sample) == 3
        assert all(2 <= len(codes) <= 6 for codes in sample)
        assert all(0 <= code < 32 for codes in sample for code in codes)
        seen += 1
    assert seen == count
    for take in director.takes(director.prompts(labels[::decode_every], seed=5), Sampling(temperature=1.3), batch=64):
        (tokens,) = take.tokens
        assert take.frames.shape == (6, 8, 12, 3)
        tokens.save(folder / "a.adtk", overwrite=True)
        back = Tokens.open(folder / "a.adtk")
        assert all(np.array_equal(a.codes, b.codes) for a, b in zip(tokens.blocks, back.blocks, strict=True))
        assert np.array_equal(codec.decode(back), take.frames)


def test_a_thousand_streams_are_valid(tmp_path: Path) -> None:
    check_streams(1000, 10, tmp_path)


@pytest.mark.slow
def test_ten_thousand_streams_are_valid(tmp_path: Path) -> None:
    check_streams(10_000, 1, tmp_path)
