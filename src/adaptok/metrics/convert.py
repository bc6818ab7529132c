"""Published checkpoints to the state dicts of our modules.

In: arrays by path in Flax's layout (kernels H W I O or D H W I O). Out: tensors by parameter name.
Every step is a copy or a correctly rounded operation: the result is the same bytes on every machine and can
be pinned. Next on the walk: weights.py, which stores it.
"""

import numpy as np
import torch
from torch import Tensor

from adaptok.metrics.unpickle import Arrays

State = dict[str, Tensor]
"""Parameters by name, as `load_state_dict` takes them."""

BATCH_NORM_EPS = 1e-3
"""Of the published I3D."""


def lpips_state(arrays: Arrays) -> State:
    """`convs.N.weight` and `convs.N.bias` of the backbone; `heads.N`, a weight per channel of each stage."""
    state: State = {}
    for path, array in arrays.items():
        module, layer, leaf = path.split("/")
        if module.startswith("NetLinLayer_"):
            state[f"heads.{_number(module)}"] = _tensor(array.reshape(-1))
        elif leaf == "kernel":
            state[f"convs.{_number(layer)}.weight"] = _tensor(_output_first(array))
        else:
            state[f"convs.{_number(layer)}.bias"] = _tensor(array)
    return state


def i3d_state(arrays: Arrays) -> State:
    """The parameters of `I3D`: batch norm folded into the convolutions, sibling 1×1 convolutions joined."""
    origins = {"conv1": ["Conv3d_1a_7x7"], "conv2": ["Conv3d_2b_1x1"], "conv3": ["Conv3d_2c_3x3"]}
    for module in {path.split("/")[1] for path in arrays if path.startswith("params/Mixed_")}:
        ours = f"mixed.{module.removeprefix('Mixed_')}"
        origins[f"{ours}.squeeze"] = [f"{module}/Branch_{branch}/Conv3d_0a_1x1" for branch in range(3)]
        origins[f"{ours}.wide"] = [f"{module}/Branch_1/Conv3d_0b_3x3"]
        origins[f"{ours}.narrow"] = [f"{module}/Branch_2/Conv3d_0b_3x3"]
        origins[f"{ours}.pooled"] = [f"{module}/Branch_3/Conv3d_0b_1x1"]
    state: State = {}
    for ours, theirs in origins.items():
        kernels, biases = zip(*(_folded(arrays, unit) for unit in theirs), strict=True)
        state[f"{ours}.weight"] = _tensor(np.concatenate(kernels))
        state[f"{ours}.bias"] = _tensor(np.concatenate(biases))
    classifier = "params/Logits/Conv3d_0c_1x1/Conv_0"
    state["logits.weight"] = _tensor(arrays[f"{classifier}/kernel"][0, 0, 0].T)
    state["logits.bias"] = _tensor(arrays[f"{classifier}/bias"])
    return state


def _folded(arrays: Arrays, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Kernel and bias (float64) of a convolution with the batch norm after it, which has no scale."""
    kernel = _output_first(arrays[f"params/{unit}/Conv_0/kernel"]).astype(np.float64)
    bias = arrays[f"params/{unit}/BatchNorm_0/bias"].astype(np.float64)
    mean = arrays[f"batch_stats/{unit}/BatchNorm_0/mean"].reshape(-1).astype(np.float64)
    variance = arrays[f"batch_stats/{unit}/BatchNorm_0/var"].reshape(-1).astype(np.float64)
    scale = 1 / np.sqrt(variance + BATCH_NORM_EPS)
    kernel = kernel * scale[:, None, None, None, None]
    # 1×1×1 kernels are matrices in `I3D`.
    return kernel.squeeze((2, 3, 4)) if kernel.shape[2:] == (1, 1, 1) else kernel, bias - mean * scale


def _output_first(kernel: np.ndarray) -> np.ndarray:
    """... I O to O I ..."""
    return np.moveaxis(kernel, (-1, -2), (0, 1))


def _number(name: str) -> int:
    return int(name.rsplit("_", 1)[1])


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
