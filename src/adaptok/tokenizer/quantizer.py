"""Stochastic vector quantizer: latents to integers and back.

In: latents (…,D). Out: codes, integers 0..V−1, and their vectors. A latent is projected to E numbers and scaled to
unit length; the code is the codebook entry of highest cosine similarity, or in training a sample from the softmax
over all similarities. Next on the walk: tail_drop.py in training, allocation in use, then decoder.py.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn

from adaptok.config import QuantizerConfig

PRODUCTS = 1 << 20
"""Products of vectors and codes that are looked at together."""
RUN = 128
"""Of them, those whose maximum is found at once."""
LEAST = -80.0
"""Logits farther below the largest have no chance either way; their exponentials are no normal numbers any more, and
take a processor some eighty times as long."""


@dataclass(frozen=True)
class Quantized:
    """Codes in training, with what the losses need."""

    codes: Int[Tensor, "*batch"]
    vectors: Float[Tensor, "*batch E"]
    """Unit codebook vectors; gradients pass straight through to the latents."""
    directions: Float[Tensor, "*batch E"]
    """Unit vectors as they were before the codebook."""
    loss: Float[Tensor, ""]
    """Codebook loss plus weighted commitment loss, averaged over kept tokens."""
    usage: Float[Tensor, ""]
    """Share of the codebook that the kept tokens of this batch use."""
    perplexity: Float[Tensor, ""]
    """Effective number of codes in use: V where all are equally frequent, 1 where one takes all."""


class Quantizer(nn.Module):
    """A codebook of unit vectors between two linear maps.

    Latents and code vectors come as blocks (…,K,M,·); `first` says which block of the clip is the first of them. Only a
    quantizer whose blocks are turned asks.
    """

    def __init__(self, config: QuantizerConfig, blocks: int, width_in: int, width_out: int) -> None:
        super().__init__()
        self.config = config
        self.project_in = nn.Linear(width_in, config.code_width)
        self.codebook = nn.Parameter(F.normalize(torch.randn(config.codebook_size, config.code_width), dim=-1))
        self.project_out = nn.Linear(config.code_width, width_out)
        self.turns = nn.Parameter(rotations(blocks, config.code_width)) if config.turned else None

    def entries(self) -> Float[Tensor, "V E"]:
        """The codebook at unit length."""
        return F.normalize(self.codebook, dim=-1)

    def direction(self, latents: Float[Tensor, "*batch D"], first: int = 0) -> Float[Tensor, "*batch E"]:
        """What is compared with the codebook."""
        with full_precision(latents):
            vectors = self.project_in(latents.to(self.codebook.dtype))
            if self.turns is not None:
                vectors = vectors @ self.turns[first : first + latents.shape[-3]]
            return F.normalize(vectors, dim=-1)

    def nearest(self, latents: Float[Tensor, "*batch D"], first: int = 0) -> Int[Tensor, "*batch"]:
        """The code of every latent."""
        return nearest_rows(self.direction(latents, first), self.entries())

    def lookup(self, codes: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch E"]:
        """Unit vectors of codes."""
        return F.embedding(codes, self.entries())

    def embed(self, vectors: Float[Tensor, "*batch E"], first: int = 0) -> Float[Tensor, "*batch D"]:
        """Code vectors as the decoder and the scorer read them."""
        if self.turns is not None:
            vectors = vectors @ self.turns[first : first + vectors.shape[-3]].mT.to(vectors.dtype)
        return self.project_out(vectors)

    def forward(
        self,
        latents: Float[Tensor, "*batch D"],
        kept: Bool[Tensor, "*batch"],
        generator: Generator,
        strength: Float[Tensor, "*batch"] | None = None,
    ) -> Quantized:
        """Sample codes; tokens outside `kept` are coded too, but count in no loss and no statistic.

        `strength` says how far each vector moves from its direction (0) to its code (1, also where None): while
        quantization is phased in, a part of the tokens stays continuous.
        """
        z = self.direction(latents)
        entries = self.entries()
        with torch.no_grad():
            codes = sample_codes(z / self.config.temperature, entries, generator)
        chosen = F.embedding(codes, entries)
        codebook = (chosen - z.detach()).square().mean(dim=-1)
        commitment = (z - chosen.detach()).square().mean(dim=-1)
        loss = ((codebook + self.config.commitment * commitment) * kept).sum() / kept.sum().clamp(min=1)
        usage, perplexity = codebook_use(codes, kept, self.config.codebook_size)
        moved = chosen - z if strength is None else strength[..., None] * (chosen - z)
        return Quantized(codes, z + moved.detach(), z, loss, usage, perplexity)


def full_precision(beside: Tensor) -> AbstractContextManager[object]:
    """No half precision on the device of a tensor: it cannot tell neighbouring codes apart."""
    kind = beside.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def rotations(count: int, width: int, angle: float = 0.2) -> Float[Tensor, "K E E"]:
    """The identity, then small rotations in random planes; every model of a size starts from the same ones."""
    random = torch.randn(count, width, width, generator=Generator().manual_seed(0), device="cpu")
    skew = (random - random.mT) * (angle / width**0.5)
    skew[0] = 0
    return torch.matrix_exp(skew)


def nearest_rows(vectors: Float[Tensor, "*batch E"], entries: Float[Tensor, "V E"]) -> Int[Tensor, "*batch"]:
    """For every vector the entry of largest product, the first one of equals."""
    with full_precision(vectors):
        found = [largest(part @ entries.T) for part in _parts(vectors, entries)]
    return torch.cat(found).reshape(vectors.shape[:-1])


def largest(rows: Float[Tensor, "N V"]) -> Int[Tensor, " N"]:
    """`rows.argmax(dim=1)`, run by run: a processor finds a maximum several times as fast as its place."""
    if rows.shape[1] % RUN:
        return rows.argmax(dim=1)
    runs = rows.unflatten(1, (-1, RUN))
    best = runs.amax(dim=2).argmax(dim=1)
    inside = runs.gather(1, best[:, None, None].expand(-1, 1, RUN))[:, 0].argmax(dim=1)
    return best * RUN + inside


def sample_codes(
    vectors: Float[Tensor, "*batch E"], entries: Float[Tensor, "V E"], generator: Generator
) -> Int[Tensor, "*batch"]:
    """For every vector an entry from the softmax over all products."""
    with full_precision(vectors):
        drawn = [sample_rows(part @ entries.T, generator) for part in _parts(vectors, entries)]
    return torch.cat(drawn).reshape(vectors.shape[:-1])


def _parts(vectors: Float[Tensor, "*batch E"], entries: Float[Tensor, "V E"]) -> tuple[Float[Tensor, "_ E"], ...]:
    """Vectors in runs whose table of products stays in a processor's cache: a large codebook is then twice as fast."""
    return vectors.reshape(-1, vectors.shape[-1]).split(max(1, PRODUCTS // len(entries)))


def sample_rows(logits: Float[Tensor, "*batch V"], generator: Generator) -> Int[Tensor, "*batch"]:
    """One index per row from the softmax of its logits."""
    rows = logits.float().flatten(0, -2)
    weights = (rows - rows.amax(dim=-1, keepdim=True)).clamp_(min=LEAST).exp_()
    # One uniform number per row against the cumulated weights: torch.multinomial would draw one per weight.
    ladder = weights.cumsum(dim=-1)
    height = torch.rand(len(ladder), 1, generator=generator, device=generator.device).to(ladder.device)
    draws = torch.searchsorted(ladder, height * ladder[:, -1:], right=True)
    return draws.clamp(max=logits.shape[-1] - 1).reshape(logits.shape[:-1])


def codebook_use(
    codes: Int[Tensor, "*batch"], kept: Bool[Tensor, "*batch"], size: int
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Share of the codebook that the kept codes use, and the perplexity of that use."""
    counts = torch.bincount(codes.flatten(), weights=kept.flatten().double(), minlength=size)
    p = counts / counts.sum().clamp(min=1)
    return (counts > 0).double().mean(), torch.exp(-torch.special.xlogy(p, p).sum())
