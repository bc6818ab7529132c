"""The adversary: a transformer over 3D patches that tells real clips from decoded ones.

In: clips of whole blocks. Out: one score per patch, positive for real. Its losses are the non-saturating ones with
one-sided label smoothing, and LeCam regularisation, which keeps real and decoded scores near each other's averages
when data are few. Next on the walk: codebook.py.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from adaptok.blocks.layout import Chunk, Segment
from adaptok.blocks.transformer import Stack
from adaptok.blocks.visibility import Reach, Role, Visibility
from adaptok.config import Geometry, StackConfig
from adaptok.shapes import Video
from adaptok.tokenizer.patches import PatchEmbedding
from adaptok.tokenizer.positions import patch_positions
from adaptok.training.settings import AdversaryConfig

Verdicts = Float[Tensor, "B N"]

_EVERYTHING = Visibility({Role.PATCH: {Role.PATCH: Reach.OWN}})


class Discriminator(nn.Module):
    """Sees the whole clip at once: it judges, so it need not be causal."""

    positions: Tensor

    def __init__(self, geometry: Geometry, config: AdversaryConfig) -> None:
        super().__init__()
        stack = StackConfig(width=config.width, depth=config.depth, heads=config.heads)
        self.patches = PatchEmbedding(geometry, config.width)
        self.register_buffer("positions", patch_positions(geometry, config.width), persistent=False)
        self.stack = Stack(stack, _EVERYTHING)
        self.norm = nn.LayerNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, 1)

    def forward(self, video: Video) -> Verdicts:
        """Scores of all patches."""
        x = self.patches(2 * video - 1)
        x = x + self.positions[: x.shape[1]].to(x.dtype)
        # All patches form one block, so that each sees all.
        chunk = Chunk(x, (Segment(Role.PATCH, 0, x.shape[1]),), 1)
        out, _ = self.stack(chunk, None, read=frozenset({Role.PATCH}))
        return self.head(self.norm(out.tokens))[..., 0]


def generator_loss(fake: Verdicts) -> Float[Tensor, ""]:
    """Non-saturating: the decoder wants its clips to be called real."""
    return F.softplus(-fake).mean()


def discriminator_loss(real: Verdicts, fake: Verdicts, real_label: float) -> Float[Tensor, ""]:
    """Binary cross-entropy; real clips count as `real_label` (one-sided smoothing), decoded ones as 0."""
    real_loss = F.binary_cross_entropy_with_logits(real, torch.full_like(real, real_label))
    return 0.5 * (real_loss + F.softplus(fake).mean())


class LeCam(nn.Module):
    """Running means of both scores, and the penalty for straying from the other one's."""

    means: Tensor

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("means", torch.zeros(2))

    def forward(self, real: Verdicts, fake: Verdicts) -> Float[Tensor, ""]:
        """The penalty at the present means."""
        real_mean, fake_mean = self.means
        return F.relu(real - fake_mean).square().mean() + F.relu(real_mean - fake).square().mean()

    @torch.no_grad()
    def update(self, means: Float[Tensor, "2"]) -> None:
        """Move towards a batch's means of real and decoded scores."""
        self.means.lerp_(means.to(self.means.dtype), 1 - self.decay)
