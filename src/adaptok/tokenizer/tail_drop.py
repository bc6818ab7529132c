"""How many tokens of each block survive in training: the block-mask sampler.

In: a law of lengths. Out: `kept` (B,K), the tokens retained from each block's head; because tails are dropped at
random, information that matters gathers at the head. Next on the walk: decoder.py.
"""

import torch
from torch import Generator

from adaptok.config import LengthConfig
from adaptok.shapes import Kept


def sample_kept(config: LengthConfig, batch: int, blocks: int, tokens_per_block: int, generator: Generator) -> Kept:
    """Draw lengths on the generator's device, independently per block."""
    shape = (1 if config.shared else batch, blocks)
    if config.law == "full":
        return torch.full((batch, blocks), tokens_per_block, device=generator.device)
    u = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
    if config.law == "uniform":
        kept = config.min + (u * (config.max - config.min + 1)).floor()
    else:
        kept = _truncated_normal(u, config).round()
    return kept.clamp(config.min, config.max).long().expand(batch, blocks)


def _truncated_normal(u: torch.Tensor, config: LengthConfig) -> torch.Tensor:
    """The inverse of the normal distribution cut half a token outside [min, max], at uniform `u`."""
    bounds = torch.tensor([config.min - 0.5, config.max + 0.5], dtype=torch.float64, device=u.device)
    low, high = torch.special.ndtr((bounds - config.mean) / config.std)
    return config.mean + config.std * torch.special.ndtri(low + u * (high - low))
