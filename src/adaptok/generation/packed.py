"""A generator for few rows at a time: weights laid out once as the processor's matrix library reads them fastest.

In: a generator. Out: one that computes the same from packed copies of its matrices. A step of sampling multiplies a
handful of rows with every weight there is, so it is as fast as weights come out of memory; PyTorch's own product reads
them several times for 2 to 32 rows. Where nothing can be packed (other devices, other precisions, builds without
oneDNN) the generator itself comes back. Next on the walk: sampling.py.
"""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from adaptok.generation.generator import Generator

_ROWS = 8
"""What the layout is chosen for; measured, it serves 1 to 64 rows alike."""


class PackedLinear(nn.Module):
    """A linear layer without bias, by PyTorch's own operators for frozen graphs."""

    def __init__(self, weight: Float[Tensor, "out in"]) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS)

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        """The product."""
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, None, "none", [], "")


def packed(generator: Generator) -> Generator:
    """The same generator on packed weights, which are as they were at this moment, or itself."""
    weight = generator.head.weight
    fits = weight.device.type == "cpu" and weight.dtype == torch.float32
    if not (fits and torch.backends.mkldnn.is_available()):
        return generator
    twin = _swap(generator)
    assert isinstance(twin, Generator)
    return twin


def _swap(module: nn.Module) -> nn.Module:
    """A copy that shares everything but its linear layers."""
    if isinstance(module, nn.Linear):
        return PackedLinear(module.weight)
    twin = copy.copy(module)
    twin._modules = {name: _swap(child) for name, child in module.named_children()}
    return twin
