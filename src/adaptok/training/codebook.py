"""How a codebook lives: k-means of real vectors at the start, codes that follow theirs, revival of those without any.

In: unit vectors as the encoder makes them. Out: a codebook whose entries lie where the vectors are.
Next on the walk: learner.py.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Generator, Tensor

from adaptok.tokenizer.quantizer import Quantizer, nearest_rows

Units = Float[Tensor, "N E"]


def cosine_kmeans(points: Units, count: int, generator: Generator, rounds: int = 10) -> Float[Tensor, "V E"]:
    """Centres of unit length; a centre that loses all its points moves to a random one."""
    centres = points[_pick(len(points), count, generator)]
    for _ in range(rounds):
        nearest = nearest_rows(points, centres)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        empty = torch.bincount(nearest, minlength=count) == 0
        centres = F.normalize(sums, dim=1)
        centres[empty] = points[_pick(len(points), int(empty.sum()), generator)]
    return centres


def _pick(total: int, count: int, generator: Generator) -> Int[Tensor, " count"]:
    """Random indices, without repetition as far as that goes."""
    rounds = -(-count // total)
    return torch.cat([torch.randperm(total, generator=generator) for _ in range(max(1, rounds))])[:count]


class CodebookUse(torch.nn.Module):
    """How often each code was used lately, as a multiple of an even share, and where its vectors were."""

    share: Tensor
    sums: Tensor

    def __init__(self, size: int, width: int, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("share", torch.ones(size))
        self.register_buffer("sums", torch.zeros(size, width))

    @torch.no_grad()
    def update(self, counts: Float[Tensor, " V"]) -> None:
        """Count a step's codes."""
        even = counts * len(counts) / counts.sum().clamp(min=1)
        self.share.lerp_(even.to(self.share.dtype), 1 - self.decay)

    @torch.no_grad()
    def follow(self, quantizer: Quantizer, sums: Float[Tensor, "V E"]) -> None:
        """Move codes to the running mean of their vectors; `sums` are those of this step (see `vector_sums`).

        Adam moves a code by at most its rate a step, and only when it is used: too slow for an encoder that learns.
        """
        if not self.sums.any():
            self.sums.copy_(quantizer.entries() * sums.norm(dim=1).mean())
        self.sums.lerp_(sums.to(self.sums), 1 - self.decay)
        # What faded away, for want of vectors, gives no direction any more.
        alive = self.sums.norm(dim=1) > 1e-6
        quantizer.codebook[alive] = F.normalize(self.sums[alive], dim=1).to(quantizer.codebook)

    @torch.no_grad()
    def revive(self, quantizer: Quantizer, vectors: Units, below: float, generator: Generator) -> Int[Tensor, " dead"]:
        """Put codes used less than `below` of an even share at random vectors of this step; which ones they were."""
        dead = (self.share < below).nonzero()[:, 0]
        if len(dead):
            chosen = vectors[_pick(len(vectors), len(dead), generator).to(vectors.device)]
            quantizer.codebook[dead] = chosen.to(quantizer.codebook.dtype)
            self.sums[dead] = chosen.to(self.sums) * self.sums.norm(dim=1).mean()
            self.share[dead] = 1.0
        return dead


@torch.no_grad()
def vector_sums(quantizer: Quantizer, vectors: Units) -> Float[Tensor, "V E"]:
    """For every code the sum of the vectors that are nearest to it."""
    codes = quantizer.entries()
    nearest = nearest_rows(vectors, codes)
    return torch.zeros_like(codes).index_add_(0, nearest, vectors.to(codes.dtype))
