"""A loss or a gradient that is no number ends a run before it harms the weights.

In: a value of this process. Out: nothing, or the same `NotFinite` in all processes, with the step and the videos.
Next on the walk: learner.py.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor

from adaptok.training.processes import over_all


class NotFinite(ValueError):
    """Something is infinite or not a number; the weights are still those before the step."""


def check_finite(fabric: Fabric, value: Float[Tensor, ""], what: str, names: Sequence[str], step: int) -> None:
    """Raise NotFinite, in all processes alike, where the value of any is no number; `names` are the batch's videos."""
    bad = 0 if torch.isfinite(value.detach()) else fabric.global_rank + 1
    worst = int(over_all(fabric, torch.tensor([bad], device=fabric.device), "max"))
    if worst:
        # Only the process whose value it is knows which videos made it.
        number, videos = fabric.broadcast((value.item(), ", ".join(names)), src=worst - 1)
        raise NotFinite(f"step {step}: {what} is {number}; the batch was {videos}")
