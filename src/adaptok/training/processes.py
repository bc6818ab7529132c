"""The processes and devices of a run.

In: a `RunConfig`. Out: Fabric, started, and the few things processes must agree on. Next on the walk: finite.py.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from lightning_fabric import Fabric
from torch import Tensor

from adaptok.training.settings import RunConfig
from adaptok.training.sharding import Sharding


def make_fabric(run: RunConfig) -> Fabric:
    """Start the processes of a run; under torchrun or Slurm they are there already and are joined."""
    try:
        fabric = Fabric(
            accelerator=run.accelerator,
            devices=run.devices,
            num_nodes=run.nodes,
            strategy=Sharding(run.devices * run.nodes) if run.strategy == "fsdp" else run.strategy,
            precision=run.precision,
        )
    except RuntimeError as error:  # Lightning's own errors are such, too
        reason = str(error).splitlines()[0]
        raise ValueError(f"run.accelerator {run.accelerator!r} with {run.devices} devices: {reason}") from None
    fabric.launch()
    return fabric


def over_all(fabric: Fabric, value: Tensor, by: Literal["mean", "sum", "max"]) -> Tensor:
    """The mean, the sum or the maximum over all processes, the same in each."""
    if fabric.world_size == 1:
        return value
    result = fabric.all_reduce(value, reduce_op=by)
    assert isinstance(result, Tensor)
    return result.to(value.device)


def means_over_all(fabric: Fabric, values: Mapping[str, float]) -> dict[str, float]:
    """Each value's mean over all processes, which must hold the same names."""
    if fabric.world_size == 1:
        return dict(values)
    means = over_all(fabric, torch.tensor(list(values.values()), device=fabric.device), "mean")
    return dict(zip(values, means.tolist(), strict=True))


def rows_of_all(fabric: Fabric, rows: Tensor) -> Tensor:
    """The rows of all processes, equally many of each, one process after the other."""
    places = rows.new_zeros(fabric.world_size, *rows.shape)
    places[fabric.global_rank] = rows
    return over_all(fabric, places, "sum").flatten(0, 1)
