"""The slow oracle of sampling.py: one sample, no cache, no batch; every id costs a pass over the whole sequence."""

from collections.abc import Callable

import numpy as np
import torch

from adaptok.generation.choice import Draws, choose, guide
from adaptok.generation.generator import Generator
from adaptok.generation.sampling import check_prompts, ids_of, keep_last
from adaptok.generation.sequence import Codes, Prompt, class_ids
from adaptok.generation.settings import Sampling


@torch.no_grad()
def slow_blocks(
    generator: Generator,
    prompt: Prompt,
    sampling: Sampling,
    slide: Callable[[int, tuple[Codes, ...]], Prompt] | None = None,
) -> tuple[Codes, ...]:
    """All blocks of one sample, given ones included; what `sample_blocks` must give for it in any company."""
    config, rules = generator.config, sampling.rules(generator.config)
    check_prompts([prompt], config, rules, slide)
    draws, tokens = Draws(prompt.seed), 0
    everything = list(prompt.prefix)
    window = list(prompt.prefix)
    while len(everything) < rules.blocks:
        if len(window) == config.blocks:
            blocks = tuple(window)
            prompt = keep_last(prompt, blocks, rules.overlap) if slide is None else slide(0, blocks)
            window = list(prompt.prefix)
        codes: list[int] = []
        while True:
            told = Prompt(prompt.condition, prompt.seed, tuple(window))
            plain = _last_scores(generator, np.append(ids_of(told, config), codes))
            if rules.guided(tokens):
                free = _last_scores(generator, np.append(ids_of(told, config, class_ids(config, None)), codes))
                plain = guide(plain, free, torch.tensor([True]), sampling.guidance)
            chosen = choose(
                plain,
                torch.tensor([draws.next()], dtype=torch.float64),
                torch.tensor([len(codes) >= rules.low]),
                torch.tensor([len(codes) >= rules.high]),
                sampling,
            )
            tokens += 1
            if chosen.item() == config.end:
                break
            codes.append(int(chosen))
        block = np.array(codes, np.int64)
        window.append(block)
        everything.append(block)
    return tuple(everything)


def _last_scores(generator: Generator, ids: np.ndarray) -> torch.Tensor:
    row = torch.from_numpy(ids.astype(np.int64))[None].to(generator.head.weight.device)
    return generator(row)[:, -1]
