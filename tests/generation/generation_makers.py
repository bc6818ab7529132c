"""Small random generators that the tests share."""

import numpy as np
import torch

from adaptok.bundle import Bundle
from adaptok.generation import Generator, GeneratorConfig, LlamaConfig, Prompt
from adaptok.generation.sequence import class_ids, context_ids
from adaptok.stream.codec import Codec
from tiny_models import tiny_bundle

TRANSFORMER = LlamaConfig(width=24, depth=2, heads=3, multiple_of=8)


def class_config(blocks: int = 3, tokens: int = 6, codes: int = 32, **more: object) -> GeneratorConfig:
    return GeneratorConfig(
        name="test",
        transformer=TRANSFORMER,
        blocks=blocks,
        tokens_per_block=tokens,
        codebook_size=codes,
        classes=("cat", "dog", "7"),
        **more,  # type: ignore[arg-type]
    )


def frame_config(context: int = 2, **more: object) -> GeneratorConfig:
    return GeneratorConfig(
        name="frames",
        transformer=TRANSFORMER,
        blocks=3,
        tokens_per_block=6,
        codebook_size=32,
        context_blocks=context,
        **more,  # type: ignore[arg-type]
    )


def random_generator(config: GeneratorConfig, seed: int = 0, dtype: torch.dtype = torch.float64) -> Generator:
    """Weights large enough that the next id depends on the whole past."""
    torch.manual_seed(seed)
    generator = Generator(config).eval().to(dtype)
    for name, parameter in generator.named_parameters():
        if "norm" not in name:
            torch.nn.init.normal_(parameter, std=0.4)
    return generator


def random_prompt(config: GeneratorConfig, seed: int, given: int = 0) -> Prompt:
    """A class or context at random, and some given blocks."""
    rng = np.random.default_rng(seed)
    m, v = config.tokens_per_block, config.codebook_size
    prefix = tuple(rng.integers(0, v, rng.integers(1, m + 1)) for _ in range(given))
    if config.classes:
        return Prompt(class_ids(config, int(rng.integers(len(config.classes)))), seed, prefix)
    return Prompt(context_ids(config, rng.integers(0, v, (config.context_blocks, m))), seed, prefix)


def small_codec(seed: int = 0) -> Codec:
    bundle: Bundle = tiny_bundle(seed=seed, dtype=torch.float32)
    return Codec(bundle)
