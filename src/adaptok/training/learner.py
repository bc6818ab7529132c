"""A network that learns: its copy on the hardware, its optimizers, its averaged weights, and all of that as tensors.

In: a module and its settings. Out: updates, and the state a checkpoint holds. Next on the walk: checkpoint.py.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from adaptok.blocks.transformer import Layer
from adaptok.generation.generator import Layer as GeneratorLayer
from adaptok.training.finite import check_finite
from adaptok.training.optimizers import Muon, make_optimizers, rate_factor
from adaptok.training.settings import OptimizerConfig, RunConfig
from adaptok.training.sharding import own_part, shard_layers, whole


class Learner:
    """One network with everything that changes while it learns."""

    def __init__(self, fabric: Fabric, network: nn.Module, config: OptimizerConfig, steps: int, run: RunConfig) -> None:
        self.fabric = fabric
        self.network = network
        """The plain module, whose weights are saved."""
        self.config = config
        self.steps = steps
        # With 16-bit gradients overflow is part of the plan: the scaler skips such a step and scales less.
        self._must_be_finite = run.precision != "16-mixed"
        network.to(fabric.device)
        if run.compile:
            network.compile()
        self.forward = fabric.setup_module(network)
        """What to call instead of the module, so that processes share gradients."""
        # Made after the module is set up, as sharding replaces weights.
        self.optimizers = make_optimizers(network, config)
        self._peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]
        self._ready: list[Any] = [fabric.setup_optimizers(optimizer) for optimizer in self.optimizers]

    def clip(self, step: int, names: Sequence[str]) -> float:
        """Limit the gradients that `fabric.backward` left; their norm before that.

        Raises:
            NotFinite: the norm is no number; `names` are the videos that are to blame.
        """
        limit = float("inf") if self.config.clip is None else self.config.clip
        norms = [
            self.fabric.clip_gradients(self.forward, optimizer, max_norm=limit, error_if_nonfinite=False)
            for optimizer in self._ready
        ]
        norm = math.sqrt(sum(float(norm) ** 2 for norm in norms if norm is not None))
        if self._must_be_finite:
            check_finite(self.fabric, torch.tensor(norm), "the norm of the gradient", names, step)
        return norm

    def update(self, step: int) -> None:
        """Apply the clipped gradients."""
        factor = rate_factor(self.config, step, self.steps)
        for optimizer, peaks in zip(self._ready, self._peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
            optimizer.step()
            optimizer.zero_grad()

    def tensors(self) -> dict[str, Tensor]:
        """Weights that learn, buffers, and optimizer states, by name."""
        result = {f"weights/{name}": whole(value) for name, value in _own_state(self.network).items()}
        names: dict[Tensor, str] = {p: name for name, p in self.network.named_parameters()}
        for optimizer in self.optimizers:
            for p, state in optimizer.state.items():
                result |= {f"optimizer/{names[p]}/{key}": whole(torch.as_tensor(v)) for key, v in state.items()}
        return result

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`."""
        weights, states = below(tensors, "weights/"), below(tensors, "optimizer/")
        with torch.no_grad():
            for name, value in _own_state(self.network).items():
                value.copy_(own_part(weights[name], like=value))
        names = {p: name for name, p in self.network.named_parameters()}
        for optimizer in self.optimizers:
            found = {}
            for number, p in enumerate(p for group in optimizer.param_groups for p in group["params"]):
                state = {
                    key: own_part(value, like=p) if value.shape == p.shape else value
                    for key, value in below(states, f"{names[p]}/").items()
                }
                if state:
                    if ("momentum_buffer" in state) != isinstance(optimizer, Muon):
                        raise ValueError("the state was saved with another optimizer.kind than the recipe's")
                    found[number] = state
            optimizer.load_state_dict({**optimizer.state_dict(), "state": found})


def save_memory(network: nn.Module, fabric: Fabric, run: RunConfig) -> None:
    """Where the run asks for it, let every transformer layer forget its inner results and compute them again for the
    gradient, or let every process hold only its part of each layer.
    """
    for layer in network.modules() if run.activation_checkpointing else ():
        if isinstance(layer, Layer | GeneratorLayer):
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)  # type: ignore[method-assign]
    if run.strategy == "fsdp":
        shard_layers(network, fabric)


class Average:
    """Exponential moving average of the weights: smoother than the last ones, and the ones that are shipped."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self._network = network
        self._mean = {name: p.detach().clone() for name, p in network.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Follow the weights after `step`; quickly at first."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, p in self._network.named_parameters():
            if name in self._mean:
                self._mean[name].lerp_(p, 1 - decay)

    @torch.no_grad()
    def jump(self, name: str, rows: Int[Tensor, " N"] | slice = slice(None)) -> None:
        """Take over weights, or some of their rows, that were set rather than learnt."""
        self._mean[name][rows] = self._network.get_parameter(name)[rows]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The network with averaged weights for a while."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, mean in self._mean.items():
            p = self._network.get_parameter(name)
            held = p.detach().clone()
            p.copy_(mean)
            mean.copy_(held)

    def tensors(self) -> dict[str, Tensor]:
        """The averages by name."""
        return {name: whole(mean) for name, mean in self._mean.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`."""
        for name, mean in self._mean.items():
            mean.copy_(own_part(tensors[name], like=mean))


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _own_state(network: nn.Module) -> dict[str, Tensor]:
    """Weights that learn, and buffers that are part of the state; not the frozen judges."""
    frozen = {name for name, p in network.named_parameters() if not p.requires_grad}
    return {name: value for name, value in network.state_dict(keep_vars=True).items() if name not in frozen}
