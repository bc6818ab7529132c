"""One id out of many: temperature, top-k, top-p, and what a block's length allows.

In: scores of the next id, one number in [0, 1) per sample. Out: the ids chosen. A sample's numbers come from its own
seed, one per token, so what it draws does not depend on who else is in the batch. Next on the walk: cache.py.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from adaptok.generation.settings import Sampling

_STOCK = 256


class Draws:
    """The random numbers of one sample, in order."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._stock: list[float] = []

    def next(self) -> float:
        """The next number."""
        if not self._stock:
            # Drawn by the dozen: a call per token and sample would cost more than all else that is done per token.
            drawn = torch.rand(_STOCK, generator=self._generator, dtype=torch.float64)
            self._stock = drawn.flip(0).tolist()
        return self._stock.pop()


def choose(
    logits: Float[Tensor, "B V1"],
    heights: Float[Tensor, " B"],
    may_end: Bool[Tensor, " B"],
    must_end: Bool[Tensor, " B"],
    sampling: Sampling,
) -> Int[Tensor, " B"]:
    """Sample an id per row; the last one is the end of a block, allowed or forced as the masks say.

    Temperature, top-k and top-p are about codes. When a block ends is left to the generator's own probability: made
    sharper, the one end would gain on thousands of codes that share the rest, and blocks would come out short.
    """
    # On the CPU in double precision: few numbers, the same choice on every device, and not all devices have doubles.
    scores = logits.detach().cpu().double()
    end = torch.where(must_end, 1.0, scores.softmax(dim=1)[:, -1] * may_end)[:, None]
    scores = scores[:, :-1] / sampling.temperature
    if 0 < sampling.top_k < scores.shape[1]:
        least = scores.topk(sampling.top_k, dim=1).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    weights = scores.softmax(dim=1)
    if sampling.top_p < 1:
        falling, order = weights.sort(dim=1, descending=True, stable=True)
        # An id stays if those before it do not yet have the wanted probability: at least one always does.
        kept = falling.cumsum(dim=1) - falling < sampling.top_p
        weights = torch.zeros_like(weights).scatter(1, order, falling * kept)
        weights = weights / weights.sum(dim=1, keepdim=True)
    weights = torch.cat([weights * (1 - end), end], dim=1)
    ladder = weights.cumsum(dim=1)
    total = ladder[:, -1:]
    # Strictly below the total, else rounding could choose an id of no weight.
    height = torch.minimum(heights[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(ladder, height, right=True).squeeze(1)


def guide(
    plain: Float[Tensor, "B V1"], free: Float[Tensor, "B V1"], guided: Bool[Tensor, " B"], guidance: float
) -> Float[Tensor, "B V1"]:
    """Scores moved away from those of "any class", in the rows that are guided."""
    return torch.where(guided[:, None].to(plain.device), free + guidance * (plain - free), plain)
