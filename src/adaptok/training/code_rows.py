"""What a generator knows of codes before it has seen them: their vectors in the tokenizer's codebook.

In: a generator and a codebook. Out: the same generator, whose rows for codes (in the embedding and in the head) are
computed by a small network from the code vectors instead of being learnt one by one, so that what is learnt of one code
holds for its neighbours. With few clips that is most of what can be learnt at all. `plain_state` is the generator as
users open it: plain rows, no codebook. Next on the walk: generator_recipe.py.
"""

from operator import attrgetter

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from adaptok.generation.generator import Generator

_HIDDEN = 256


class CodeRows(nn.Module):
    """A matrix whose first V rows are a function of V code vectors; only the rows behind them are its own."""

    codes: Tensor

    def __init__(self, codebook: Float[Tensor, "V E"], width: int) -> None:
        super().__init__()
        self.register_buffer("codes", F.normalize(codebook.detach(), dim=-1))
        first, last = nn.Linear(codebook.shape[1], _HIDDEN), nn.Linear(_HIDDEN, width)
        # Unit vectors to hidden values of size 1, and those to rows of the size that embeddings start with.
        nn.init.normal_(first.weight, std=1.0)
        nn.init.normal_(first.bias, std=0.5)
        nn.init.normal_(last.weight, std=0.04 / _HIDDEN**0.5)
        nn.init.zeros_(last.bias)
        self.network = nn.Sequential(first, nn.GELU(), last)

    def forward(self, own: Float[Tensor, "N D"]) -> Float[Tensor, "rows D"]:
        """All rows."""
        return torch.cat([self.network(self.codes), own])

    def right_inverse(self, weight: Float[Tensor, "rows D"]) -> Float[Tensor, "N D"]:
        """The rows that are learnt one by one: the end of a block, classes, the separator."""
        return weight[len(self.codes) :].clone()


def share_rows(generator: Generator, codebook: Float[Tensor, "V E"]) -> None:
    """Compute the rows of codes from now on."""
    for module in (generator.embedding, generator.head):
        register_parametrization(module, "weight", CodeRows(codebook, module.weight.shape[1]))


def plain_state(generator: Generator) -> dict[str, Tensor]:
    """The weights by the names of a generator that computes none of them."""
    with torch.device("meta"):
        names = Generator(generator.config).state_dict()
    with torch.no_grad():
        return {name: attrgetter(name)(generator).detach() for name in names}
