"""Who updates which weights, and how fast.

In: a network and its `OptimizerConfig`. Out: one or two optimizers, and the rate of every step as a function of that
step alone. Next on the walk: learner.py.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from adaptok.blocks.transformer import Stack
from adaptok.generation.generator import Llama
from adaptok.training.settings import OptimizerConfig
from adaptok.training.sharding import by_kind, own_part, whole

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration that Muon's authors chose for fast convergence."""


class Muon(Optimizer):
    """Momentum whose update is made orthogonal, scaled to the size that Adam's updates have.

    As `torch.optim.Muon` with match_rms_adamw, but in the parameters' own precision: that one computes in bfloat16,
    which processors without bfloat16 units emulate (25 times slower on the machine this was written on).
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(list(params), {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(f"Muon updates matrices, got a parameter of shape {tuple(p.shape)}")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have gradients."""
        if closure is not None:
            raise ValueError("Muon takes no closure")
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, p.grad, group)

    def _update(self, p: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(p)
        momentum = state["momentum_buffer"]
        momentum.lerp_(gradient, 1 - group["momentum"])
        # A sharded matrix is made orthogonal as a whole, by every process.
        update = own_part(orthogonal(whole(gradient.lerp(momentum, group["momentum"]))), like=p)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(update, alpha=-group["lr"] * 0.2 * math.sqrt(max(p.shape)))


def orthogonal(matrix: Float[Tensor, "N M"], rounds: int = 5) -> Float[Tensor, "N M"]:
    """The nearest matrix with all singular values (roughly) one."""
    a, b, c = NEWTON_SCHULZ
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(rounds):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def make_optimizers(network: nn.Module, config: OptimizerConfig) -> list[Optimizer]:
    """AdamW for all weights that learn, or Muon for the transformers' matrices and AdamW for the rest."""
    learning = {name: p for name, p in network.named_parameters() if p.requires_grad}
    matrices: dict[str, nn.Parameter] = {}
    if config.kind == "muon":
        stacks = [name for name, module in network.named_modules() if isinstance(module, Stack | Llama)]
        matrices = {
            name: p for name, p in learning.items() if p.ndim == 2 and any(name.startswith(f"{s}.") for s in stacks)
        }
    rest = {name: p for name, p in learning.items() if name not in matrices}
    linear = {f"{name}.weight" for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    kinds: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, p in rest.items():
        rate = (config.prior_rate or config.rate) if "prior" in name.split(".") else config.rate
        decay = config.weight_decay if config.decay == "all" or name in linear else 0.0
        kinds.setdefault((rate, decay), []).append(p)
    groups: list[dict[str, Any]] = [
        {"params": kind, "lr": rate, "weight_decay": decay}
        for (rate, decay), weights in kinds.items()
        for kind in by_kind(weights)
        if kind
    ]
    # Weight decay 0 makes AdamW plain Adam, the paper's choice.
    optimizers: list[Optimizer] = [AdamW(groups, lr=config.rate, betas=config.betas, weight_decay=config.weight_decay)]
    if matrices:
        optimizers.append(Muon(matrices.values(), lr=config.matrix_rate, weight_decay=config.weight_decay))
    return optimizers


def rate_factor(config: OptimizerConfig, step: int, steps: int) -> float:
    """Linear warm-up to 1, then a cosine down to the final rate at the last step."""
    if step < config.warmup:
        return (step + 1) / config.warmup
    final = config.final_rate / config.rate
    along = min(1.0, (step - config.warmup) / max(1, steps - 1 - config.warmup))
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * along))
