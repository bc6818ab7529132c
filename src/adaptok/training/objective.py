"""One training pass of the tokenizer: clips in, weighted losses out.

In: clips and the step's conditions (lengths, how much is quantized, which frames are looked at). Out: the loss to
descend, its terms, and the reconstruction. One module, so that data parallelism sees a single forward.
Next on the walk: discriminator.py, then codebook.py.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.func import functional_call

from adaptok.metrics import LPIPS
from adaptok.shapes import Kept, Video
from adaptok.tokenizer.model import Reconstruction, Tokenizer
from adaptok.training.discriminator import Discriminator, generator_loss
from adaptok.training.settings import LossConfig

T = TypeVar("T")


class Sealed(Generic[T]):
    """A value that passes through Fabric whole: it takes dataclasses apart, and refuses frozen ones."""

    def __init__(self, value: T) -> None:
        self.value = value


@dataclass(frozen=True)
class Conditions:
    """What a step decides before the pass."""

    kept: Kept
    strength: Float[Tensor, " B"] | None
    """How far each sample is quantized; None is fully."""
    quantizer_weight: float
    mix: float
    adversary: Discriminator | None
    generator: Generator


@dataclass(frozen=True)
class Losses:
    """What the loss is made of, unweighted, and the pass it comes from."""

    terms: dict[str, Float[Tensor, ""]]
    reconstruction: Reconstruction


class TokenizerObjective(nn.Module):
    """The tokenizer and everything that judges it."""

    def __init__(self, tokenizer: Tokenizer, config: LossConfig) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.config = config
        self.lpips = LPIPS(config.perceptual_net) if config.perceptual else None

    def forward(self, video: Video, conditions: Sealed[Conditions]) -> tuple[Float[Tensor, ""], Sealed[Losses]]:
        """Reconstruct and judge: the loss to descend, and its parts."""
        c, weights = conditions.value, self.config
        result = self.tokenizer(video, c.generator, kept=c.kept, mix=c.mix, strength=c.strength)
        terms: dict[str, Tensor] = {"quantizer": result.quantized.loss}
        total = weights.quantizer * c.quantizer_weight * result.quantized.loss
        if weights.l1:
            terms["l1"] = (result.video - video).abs().mean()
            total = total + weights.l1 * terms["l1"]
        if weights.mse:
            terms["mse"] = (result.video - video).square().mean()
            total = total + weights.mse * terms["mse"]
        if weights.psnr:
            terms["psnr"] = log_error(result.video, video)
            total = total + weights.psnr * terms["psnr"]
        if self.lpips is not None:
            terms["perceptual"] = self._perceptual(result.video, video, c.generator)
            total = total + weights.perceptual * terms["perceptual"]
        if c.adversary is not None:
            terms["adversarial"] = generator_loss(_frozen(c.adversary, result.video))
            total = total + weights.adversarial * terms["adversarial"]
        if result.prior_loss is not None:
            terms["prior"] = result.prior_loss
            total = total + weights.prior * terms["prior"]
        return total, Sealed(Losses(terms, result))

    def _perceptual(self, decoded: Video, video: Video, generator: Generator) -> Float[Tensor, ""]:
        """LPIPS of some frames, the same ones of every clip in the batch."""
        assert self.lpips is not None
        total, count = video.shape[2], self.config.perceptual_frames
        if count is not None and count < total:
            chosen = torch.randperm(total, generator=generator)[:count].sort().values.to(video.device)
            decoded, video = decoded[:, :, chosen], video[:, :, chosen]
        return self.lpips.video(decoded, video).mean()


def log_error(decoded: Video, video: Video, least: float = 1e-4) -> Float[Tensor, ""]:
    """Minus a tenth of the mean PSNR of clips; errors far below `least` (40 dB) gain nothing more."""
    return ((decoded - video).square().flatten(1).mean(dim=1) + least).log10().mean()


def _frozen(adversary: Discriminator, video: Video) -> Float[Tensor, "B N"]:
    """What the discriminator says, with gradients for the video alone."""
    weights = {name: value.detach() for name, value in adversary.named_parameters()}
    return functional_call(adversary, weights, (video,))
