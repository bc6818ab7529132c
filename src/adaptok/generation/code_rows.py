"""What a generator knows of codes before it has seen them: their vectors in the tokenizer's codebook.

In: a generator and a codebook. Out: the same generator, whose rows for codes (in the embedding and in the head) are
computed by a small network from the code vectors instead of being learnt one by one, so that what is learnt of one code
holds for its neighbours. With few clips that is most of what can be learnt at all. Such a generator is trained and
stored with the network and the vectors, which are a fraction of the rows; `settle` writes the rows out for use.
Next on the walk: bundle.py.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations

from adaptok.generation.generator import Generator

_HIDDEN = 256


class CodeRows(nn.Module):
    """A matrix whose first V rows are a function of V code vectors; only the rows behind them are its own."""

    codes: Tensor

    def __init__(self, codebook: Float[Tensor, "V E"], width: int, stored: bool) -> None:
        super().__init__()
        self.register_buffer("codes", codebook.detach().clone(), persistent=stored)
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
    """Compute the rows of codes from their unit vectors from now on; these are stored once, with the embedding."""
    for module in (generator.embedding, generator.head):
        rows = CodeRows(codebook, module.weight.shape[1], stored=module is generator.embedding)
        register_parametrization(module, "weight", rows)


def settle(generator: Generator) -> Generator:
    """The same generator with rows of its own, as they are now: nothing is computed anew at every step."""
    for module in (generator.embedding, generator.head):
        if is_parametrized(module):
            rows = module.weight.detach()
            remove_parametrizations(module, "weight", leave_parametrized=False)
            module.weight = nn.Parameter(rows)
    return generator


def stored_codes(weights: Mapping[str, Tensor]) -> Float[Tensor, "V E"] | None:
    """The code vectors among stored weights; None where every row is stored."""
    return weights.get("embedding.parametrizations.weight.0.codes")
