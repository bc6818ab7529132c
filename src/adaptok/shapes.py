"""The letters of the project, as types.

B batch, T frames, H W pixels, C channels, K blocks per clip, P patches per block, M latent tokens per block,
D model width, V codebook size, E code width, S candidate lengths, R rows that share a budget, N tokens of any kind.

*latent* is continuous, *code* is an integer, *token* is one kept code.
"""

from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

Video: TypeAlias = Float[Tensor, "B 3 T H W"]
"""Pixels in [0, 1], time before space."""

Tokens: TypeAlias = Float[Tensor, "B N D"]
"""A run of vectors of any role."""

LatentBlocks: TypeAlias = Float[Tensor, "B K M D"]
CodeBlocks: TypeAlias = Int[Tensor, "B K M"]
Kept: TypeAlias = Int[Tensor, "B K"]
"""How many tokens of each block are retained, counted from the block's head."""

Present: TypeAlias = Bool[Tensor, "B _"]
"""False where a batch mate's longer block forced padding."""

Scores: TypeAlias = Float[Tensor, "B S"]
"""Predicted loss of one block at every candidate length; higher is worse."""
