"""The autoregressive prior: a small network that predicts each kept token from those before it.

In: unit code vectors of the kept tokens, in order. Out: cross-entropy of every next token; its gradient flows back
through the vectors, so the codes become easier to predict for a generator. Used in training only (and to code
streams more tightly); next on the walk: model.py.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from adaptok.blocks.layout import Chunk, Segment
from adaptok.blocks.memory import Memory
from adaptok.blocks.transformer import Stack
from adaptok.blocks.visibility import TOKENS, Role
from adaptok.config import PriorConfig
from adaptok.tokenizer.quantizer import sample_rows

Vectors = Float[Tensor, "B N E"]


class Prior(nn.Module):
    """A GPT over continuous code vectors whose predictions are compared with the codebook."""

    def __init__(self, config: PriorConfig, slots: int, code_width: int) -> None:
        super().__init__()
        self.config = config
        self.project_in = nn.Linear(code_width, config.width)
        self.positions = nn.Parameter(0.02 * torch.randn(slots, config.width))
        self.stack = Stack(config.stack, TOKENS)
        self.norm = nn.LayerNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, code_width)

    def forward(self, vectors: Vectors, slots: Int[Tensor, "B N"]) -> Vectors:
        """The unit vector expected after each token; `slots` are the tokens' places in the full sequence."""
        return self._run(vectors, slots, None, last=True)[0]

    def step(self, vectors: Vectors, slots: Int[Tensor, "B N"], memory: Memory | None) -> tuple[Vectors, Memory]:
        """The same for the next tokens of a sequence, after those in `memory`."""
        return self._run(vectors, slots, memory, last=False)

    def _run(
        self, vectors: Vectors, slots: Int[Tensor, "B N"], memory: Memory | None, last: bool
    ) -> tuple[Vectors, Memory]:
        x = self.project_in(vectors) + self.positions[slots]
        segments = (Segment(Role.TOKEN, 0 if memory is None else memory.blocks, x.shape[1]),)
        out, memory = self.stack(Chunk(x, segments, 1), memory, read=frozenset({Role.TOKEN}), last=last)
        return F.normalize(self.head(self.norm(out.tokens)), dim=-1), memory

    def logits(
        self, vectors: Vectors, slots: Int[Tensor, "B N"], entries: Float[Tensor, "V E"]
    ) -> Float[Tensor, "B N V"]:
        """Scores of every code as the next token."""
        return self(vectors, slots) @ entries.T / self.config.temperature


def prior_loss(
    prior: Prior,
    vectors: Vectors,
    codes: Int[Tensor, "B N"],
    kept: Bool[Tensor, "B N"],
    entries: Float[Tensor, "V E"],
    mix: float,
    generator: Generator,
) -> Float[Tensor, ""]:
    """Mean cross-entropy of the kept tokens after the first, averaged over rounds.

    The first round reads the true tokens. Each later round reads a mixture in which a share `mix` of the tokens is
    replaced by samples from the round before, as they will be when a generator reads its own output.
    Only pairs of two kept tokens count: the predecessor of a token is the last kept one, not a dropped one.
    """
    order = (~kept).long().argsort(dim=1, stable=True)[:, : int(kept.sum(dim=1).max())]
    real = kept.gather(1, order)[:, 1:]
    targets = codes.gather(1, order)[:, 1:]
    inputs = vectors.gather(1, order[..., None].expand(-1, -1, vectors.shape[-1]))
    if not bool(real.any()):
        return vectors.sum() * 0.0
    replaced = (torch.rand(targets.shape, generator=generator, device=generator.device) < mix).to(real.device)
    truth, losses = inputs, []
    for round_ in range(prior.config.rounds):
        logits = prior.logits(inputs[:, :-1], order[:, :-1], entries)
        losses.append(F.cross_entropy(logits[real], targets[real]))
        if round_ + 1 < prior.config.rounds:
            sampled = F.embedding(sample_rows(logits.detach(), generator), entries)
            inputs = torch.cat([truth[:, :1], torch.where(replaced[..., None], sampled, truth[:, 1:])], dim=1)
    return torch.stack(losses).mean()
