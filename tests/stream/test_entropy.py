"""Entropy coding under the prior: bit-exact back, and never a wrong block."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from adaptok.stream import StreamError, TokenBlock, same_block
from adaptok.stream.entropy import EntropyCoder
from adaptok.tokenizer import Tokenizer
from tiny_models import GEOMETRY, tiny_bundle, tiny_config


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return tiny_bundle(dtype=torch.float32).tokenizer


def blocks(count: int, seed: int = 0) -> list[TokenBlock]:
    rng = np.random.default_rng(seed)
    return [
        TokenBlock(index=i, frames=2, codes=rng.integers(0, 32, rng.integers(0, GEOMETRY.tokens_per_block + 1)))
        for i in range(count)
    ]


def test_codes_return_exactly(tokenizer: Tokenizer) -> None:
    original = blocks(8)
    coder, decoder = EntropyCoder(tokenizer), EntropyCoder(tokenizer)
    coded = [coder.encode(block) for block in original]
    assert all(same_block(decoder.decode(c), b) for c, b in zip(coded, original, strict=True))
    late = EntropyCoder(tokenizer)
    assert same_block(late.decode(coded[GEOMETRY.blocks]), original[GEOMETRY.blocks])


@torch.no_grad()
def test_a_prior_that_knows_saves_bytes(tokenizer: Tokenizer) -> None:
    """Tokens drawn from the prior itself take about its entropy, less than packing them."""
    rng = np.random.default_rng(0)
    warm = tiny_bundle(dtype=torch.float32).tokenizer
    prior = warm.prior
    prior.config = replace(prior.config, temperature=0.05)
    bits, payload, tokens = 0.0, 0, 0
    for index in range(30):
        coder = EntropyCoder(warm)
        drawn: list[int] = []
        coder._begin(3 * index)
        for place in range(GEOMETRY.tokens_per_block):
            p = coder._context.expected
            code = int(rng.integers(32)) if p is None else int(rng.choice(32, p=p))
            bits += 5.0 if p is None else -np.log2(p[code])
            drawn.append(code)
            coder._read(code, place)
        block = TokenBlock(index=3 * index, frames=2, codes=np.array(drawn))
        payload += len(EntropyCoder(warm).encode(block).payload) - 2
        tokens += len(drawn)
    assert bits < 0.8 * 5 * tokens, "the prior is sharp"
    assert 8 * payload < bits + 30 * 33, "at most a word more than the entropy per block"


def test_another_prior_is_found_out(tokenizer: Tokenizer) -> None:
    coded = EntropyCoder(tokenizer).encode(replace(blocks(1)[0], codes=np.arange(6)))
    other = EntropyCoder(tiny_bundle(seed=5, dtype=torch.float32).tokenizer)
    with pytest.raises(StreamError, match="does not decode to what was coded"):
        other.decode(coded)


def test_blocks_out_of_turn_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(StreamError, match="block 1 is out of turn"):
        EntropyCoder(tokenizer).encode(blocks(2)[1])


def test_a_model_without_prior_is_refused() -> None:
    config = tiny_config()
    bare = Tokenizer(replace(config.tokenizer, prior=None))
    with pytest.raises(ValueError, match="needs the model's prior"):
        EntropyCoder(bare)
