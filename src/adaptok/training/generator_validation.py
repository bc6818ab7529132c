"""How good a generator is: how surprised it is by clips it never saw, and what it dreams up.

In: sequences of held-out clips. Out: perplexity per token against two baselines that know nothing of order, the uniform
one and the frequencies of training; and a picture of samples where the tokenizer is at hand.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from adaptok.generation.config import GeneratorConfig
from adaptok.generation.generate import Director
from adaptok.generation.generator import Generator
from adaptok.generation.sequence import IGNORED, Ids, Prompt, SequenceBatch
from adaptok.generation.settings import Sampling
from adaptok.stream.codec import Codec
from adaptok.training.loop import Validation
from adaptok.training.token_corpus import TokenCorpus
from adaptok.training.validation import picture


@torch.no_grad()
def validate_generator(
    generator: Generator,
    batches: Sequence[SequenceBatch],
    unigram: float,
    codec: Codec | None,
    conditions: Sequence[Ids],
) -> Validation:
    """Measure the mean loss per token; show a sample per condition."""
    device = generator.head.weight.device
    total = torch.zeros(2, dtype=torch.float64)
    ends = torch.zeros(2, dtype=torch.float64)
    for batch in batches:
        counted = batch.targets != IGNORED
        targets = batch.targets[counted]
        logits = generator(batch.inputs.to(device), counted.to(device))
        loss = F.cross_entropy(logits.float(), targets.to(device), reduction="none").cpu().double()
        total += torch.stack([loss.sum(), torch.tensor(float(batch.tokens))])
        closing = targets == generator.config.end
        ends += torch.stack([loss[closing].sum(), closing.sum().double()])
    mean = (total[0] / total[1]).item()
    values = {
        "perplexity": math.exp(mean),
        "perplexity_unigram": math.exp(unigram),
        "perplexity_uniform": float(generator.config.outputs),
        "bits_per_token": mean / math.log(2),
        "bits_per_end": (ends[0] / ends[1]).item() / math.log(2),
    }
    shown = None if codec is None else picture([_samples(Director(generator, codec), conditions)])
    return Validation(values, quality=-mean, picture=shown)


def _samples(director: Director, conditions: Sequence[Ids]) -> Tensor:
    """Videos (B,3,T,H,W), a sample per condition, the same seeds every time."""
    prompts = [Prompt(condition, seed) for seed, condition in enumerate(conditions)]
    takes = sorted(director.takes(prompts, Sampling(), batch=len(prompts)), key=lambda take: take.sample)
    return torch.from_numpy(np.stack([take.frames for take in takes])).permute(0, 4, 1, 2, 3).float() / 255


def unigram_loss(train: TokenCorpus, val: TokenCorpus, clips: Sequence[int], config: GeneratorConfig) -> float:
    """Mean loss per token of the frequencies in training, every id counted once more than it was seen."""
    counts = np.bincount(train.codes, minlength=config.outputs).astype(np.float64) + 1
    counts[config.end] += train.lengths.size
    surprise = -np.log(counts / counts.sum())
    codes = np.concatenate([np.concatenate(val.blocks(clip)) for clip in clips])
    ends = len(clips) * config.blocks
    return float((surprise[codes].sum() + ends * surprise[config.end]) / (len(codes) + ends))
