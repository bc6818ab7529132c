"""Fully sharded training: each process holds a part of every transformer layer, and all of everything else.

In: a network whose layers are too many for one device. Out: the same network; a layer's weights are brought together
while it computes. What lies outside the layers (codebook, queries, positions, a few per cent of the weights) is
written to by recipes and stays whole in every process. Two kinds of weights follow from this, sharded and plain, and
what tells them apart is here alone. Next on the walk: optimizers.py.
"""

import warnings
from collections.abc import Iterable

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer

from adaptok.blocks.transformer import Stack
from adaptok.generation.generator import Llama


class Sharding(ModelParallelStrategy):
    """Fabric's part: processes that each hold a share of the weights and work on a share of the batch."""

    def __init__(self, processes: int) -> None:
        super().__init__(lambda module, _: module, data_parallel_size=processes, tensor_parallel_size=1)

    def clip_gradients_norm(
        self,
        module: nn.Module,
        optimizer: Optimizer,
        max_norm: float,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = True,
    ) -> Float[Tensor, ""]:
        """Clip plain and sharded gradients by their common norm, after averaging the plain ones over all processes.

        PyTorch averages those of sharded layers itself, but refuses lists of both kinds.
        """
        del module
        plain, sharded = by_kind(p for group in optimizer.param_groups for p in group["params"])
        self._average(_gradients(plain))
        norms = [whole(get_total_norm(_gradients(kind), norm_type)) for kind in (plain, sharded) if kind]
        norm = torch.linalg.vector_norm(torch.stack(norms), norm_type)
        if error_if_nonfinite and not norm.isfinite():
            raise RuntimeError(f"the norm of the gradient is {norm.item()}")
        for kind in (plain, sharded):
            clip_grads_with_norm_(kind, max_norm, norm)
        return norm

    def _average(self, gradients: list[Tensor]) -> None:
        """The mean over all processes, in one message."""
        if gradients:
            flat = self.all_reduce(torch.cat([g.flatten() for g in gradients]), reduce_op="mean")
            for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(mean.view_as(gradient))


def shard_layers(network: nn.Module, fabric: Fabric) -> None:
    """Divide the layers of every stack in `network` among the processes."""
    # Layers hand back views of keys and values; nobody writes into those.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    network.to(fabric.device)
    mesh = init_device_mesh(fabric.device.type, (fabric.world_size,))
    for stack in [module for module in network.modules() if isinstance(module, Stack | Llama)]:
        for layer in stack.layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=True)
        # The stack has at most a norm of its own; as the root of its layers it fetches the next one ahead of time.
        fully_shard(stack, mesh=mesh)


def whole(value: Tensor) -> Tensor:
    """All of a tensor, the same in every process; all processes must ask together."""
    return value.full_tensor().detach() if isinstance(value, DTensor) else value


def own_part(value: Tensor, like: Tensor) -> Tensor:
    """The part of a whole tensor that this process holds of `like`."""
    if not isinstance(like, DTensor):
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def by_kind(weights: Iterable[nn.Parameter]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Plain weights and sharded ones: PyTorch updates lists of one kind only."""
    plain: list[nn.Parameter] = []
    sharded: list[nn.Parameter] = []
    for p in weights:
        (sharded if isinstance(p, DTensor) else plain).append(p)
    return plain, sharded


def _gradients(weights: Iterable[nn.Parameter]) -> list[Tensor]:
    return [p.grad for p in weights if p.grad is not None]
