"""The block-causal scorer: what would each candidate length of a block cost in quality?

In: latents and embedded codes of blocks. Out: for one block a predicted loss at every multiple of `step` tokens, in
a single pass over the whole block, given earlier blocks cut to what they got. Next on the walk: problem.py.
"""

from collections.abc import Sequence
from typing import no_type_check

import torch
from jaxtyping import Float
from torch import Tensor, nn

from adaptok.blocks.kept import block_sizes, real_rows
from adaptok.blocks.layout import Chunk, Segment
from adaptok.blocks.memory import Memory
from adaptok.blocks.transformer import Stack
from adaptok.blocks.visibility import SCORER, Role
from adaptok.config import ScorerConfig, TokenizerConfig
from adaptok.shapes import Kept, Scores
from adaptok.tokenizer.checks import check_kept
from adaptok.tokenizer.model import Encoding

_LATENTS = frozenset({Role.LATENT})


class Scorer(nn.Module):
    """Predicts losses; higher is worse."""

    smoothing: Tensor | None

    def __init__(self, config: ScorerConfig, tokenizer: TokenizerConfig) -> None:
        super().__init__()
        self.config = config
        self.geometry = tokenizer.geometry
        self.project = nn.Linear(tokenizer.encoder.width + tokenizer.decoder.width, config.width)
        self.positions = nn.Parameter(0.02 * torch.randn(tokenizer.geometry.tokens, config.width))
        self.stack = Stack(config.stack, SCORER)
        self.norm = nn.LayerNorm(config.width, eps=1e-5)
        self.head = nn.Sequential(nn.Linear(config.width, 2 * config.width), nn.Tanh(), nn.Linear(2 * config.width, 1))
        fit = None if config.smooth is None else polynomial_fit(self.lengths, config.smooth)
        self.register_buffer("smoothing", fit, persistent=False)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The candidate lengths that scores belong to."""
        step = self.config.step
        return tuple(range(step, self.geometry.tokens_per_block + 1, step))

    @no_type_check
    def score(self, encoding: Encoding, kept: Kept, block: int) -> Scores:
        """Scores of `block`: earlier blocks cut to `kept`, this one whole, later ones absent."""
        batch, blocks = encoding.codes.shape[:2]
        if not 0 <= block < blocks:
            raise ValueError(f"block must lie in 0..{blocks - 1}, got {block}")
        check_kept(kept, batch, blocks, self.geometry)
        memory = self.remember(encoding.blocks(0, block), kept[:, :block], None) if block else None
        return self.score_block(encoding.blocks(block, block + 1), memory)

    def score_block(self, encoding: Encoding, memory: Memory | None) -> Scores:
        """Scores of the one block in `encoding`, after what `memory` holds."""
        first = 0 if memory is None else memory.blocks
        whole = torch.full_like(encoding.codes[:, :, 0], self.geometry.tokens_per_block)
        out, _ = self.stack(self.arrange(encoding, whole, first), memory, read=_LATENTS, last=True)
        return self.read(out.tokens)

    def score_all(self, encoding: Encoding, kept: Kept) -> Float[Tensor, "B K S"]:
        """Scores of every block, each after the earlier ones cut to `kept`."""
        memory, scores = None, []
        for k in range(encoding.codes.shape[1]):
            part = encoding.blocks(k, k + 1)
            scores.append(self.score_block(part, memory))
            memory = self.remember(part, kept[:, k : k + 1], memory)
        return torch.stack(scores, dim=1)

    def score_once(self, encoding: Encoding) -> Float[Tensor, "B K S"]:
        """Scores of all blocks in one pass, each given the earlier blocks whole."""
        whole = torch.full_like(encoding.codes[:, :, 0], self.geometry.tokens_per_block)
        out, _ = self.stack(self.arrange(encoding, whole, first=0), None, read=_LATENTS, last=True)
        blocks = out.tokens.unflatten(1, (out.blocks, -1))
        return torch.stack([self.read(blocks[:, k]) for k in range(out.blocks)], dim=1)

    def remember(self, encoding: Encoding, kept: Kept, memory: Memory | None) -> Memory:
        """The memory after the blocks in `encoding`, each cut to its kept tokens."""
        first = 0 if memory is None else memory.blocks
        _, memory = self.stack(self.arrange(encoding, kept, first), memory, read=frozenset())
        return memory

    def arrange(self, encoding: Encoding, kept: Kept, first: int, sizes: tuple[int, ...] = ()) -> Chunk:
        """The transformer's input: of every block its kept tokens, in `sizes` rows (as many as needed if empty)."""
        m = self.geometry.tokens_per_block
        sizes = sizes or block_sizes(kept)
        x = self.project(torch.cat([encoding.latents, encoding.embedded], dim=-1))
        slots = self.positions[first * m : (first + len(sizes)) * m].unflatten(0, (len(sizes), m))
        x = x + slots.to(x.dtype)
        present = real_rows(kept, sizes)
        return Chunk(
            tokens=torch.cat([x[:, k, :n] for k, n in enumerate(sizes)], dim=1),
            segments=tuple(Segment(Role.LATENT, first + k, n) for k, n in enumerate(sizes)),
            blocks=len(sizes),
            present=None if present is None else torch.cat(present, dim=1),
        )

    def read(self, tokens: Tensor) -> Scores:
        """Scores at the last token of every candidate length of one block."""
        step = self.config.step
        scores = self.head(self.norm(tokens[:, step - 1 :: step]))[..., 0]
        return scores if self.smoothing is None else scores @ self.smoothing.to(scores.dtype)


def polynomial_fit(lengths: Sequence[int], degree: int) -> Float[Tensor, "S S"]:
    """The matrix that takes a curve over `lengths` to the polynomial in their logarithm that is nearest to it."""
    places = torch.tensor(lengths, dtype=torch.float64, device="cpu").log()
    places = (places - places.mean()) / places.abs().max().clamp(min=1)
    basis, _ = torch.linalg.qr(torch.stack([places**power for power in range(degree + 1)], dim=1))
    return (basis @ basis.T).float()
