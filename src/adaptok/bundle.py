"""A tokenizer and its scorer as one thing, in memory and on disk.

In: a `ModelConfig`, or a folder with `config.yaml` and `model.safetensors`. Out: modules with their weights.
Nothing is unpickled or executed; a folder appears whole or not at all.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from adaptok.allocation.scorer import Scorer
from adaptok.config import ModelConfig, model_config_from_yaml, model_config_to_yaml, preset
from adaptok.tokenizer.model import Tokenizer

CONFIG_FILE = "config.yaml"
WEIGHTS_FILE = "model.safetensors"
N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True)
class Bundle:
    """What a checkpoint holds; `scorer` is None where the model has fixed lengths."""

    config: ModelConfig
    tokenizer: Tokenizer
    scorer: Scorer | None

    @property
    def modules(self) -> nn.ModuleDict:
        """Both networks under their names in a checkpoint."""
        parts: dict[str, nn.Module] = {"tokenizer": self.tokenizer}
        if self.scorer is not None:
            parts["scorer"] = self.scorer
        return nn.ModuleDict(parts)

    @property
    def config_yaml(self) -> str:
        """What `config.yaml` of a checkpoint says."""
        return model_config_to_yaml(self.config)

    def to(self, device: torch.device | str) -> "Bundle":
        """Move all weights (in place, as PyTorch modules do)."""
        self.modules.to(device)
        return self

    def save(self, folder: Path | str, dtype: torch.dtype | None = None) -> None:
        """Write `config.yaml` and `model.safetensors`; with a `dtype` such as torch.float16, in that precision."""
        save_model(Path(folder), self.modules, self.config_yaml, dtype)


def save_model(folder: Path, modules: nn.Module, config_yaml: str, dtype: torch.dtype | None = None) -> None:
    """Write `config.yaml` and `model.safetensors` into a folder, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    state = modules.state_dict()
    weights = {name: value.to(dtype or value.dtype).contiguous() for name, value in state.items()}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        save_file(weights, Path(scratch) / WEIGHTS_FILE)
        (Path(scratch) / CONFIG_FILE).write_text(config_yaml, encoding="utf-8")
        for name in (WEIGHTS_FILE, CONFIG_FILE):
            os.replace(Path(scratch) / name, folder / name)


def build(config: ModelConfig | str) -> Bundle:
    """A model with random weights, in evaluation mode, from a configuration or a preset's name."""
    if isinstance(config, str):
        config = preset(config)
    tokenizer = Tokenizer(config.tokenizer).eval()
    scorer = None if config.scorer is None else Scorer(config.scorer, config.tokenizer).eval()
    return Bundle(config, tokenizer, scorer)


def open_bundle(folder: Path | str) -> Bundle:
    """Read a folder that `Bundle.save` wrote."""
    folder = Path(folder)
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ValueError(f"{folder} holds no model: there is no {CONFIG_FILE} in it")
    bundle = build(model_config_from_yaml(path.read_text(encoding="utf-8"), str(path)))
    fill(bundle.modules, read_weights(folder / WEIGHTS_FILE), source=str(folder / WEIGHTS_FILE))
    return bundle


def on_device(network: N, device: torch.device | str) -> N:
    """Move a network; a device that is not there is a ValueError."""
    try:
        return network.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {str(device)!r} cannot be used here: {str(error).splitlines()[0]}") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file."""
    if not path.is_file():
        raise ValueError(f"there are no weights at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from None


def fill(module: nn.Module, weights: Mapping[str, Tensor], source: str) -> None:
    """Copy weights into a module; every tensor must be there, fit, and be wanted."""
    wanted = module.state_dict()
    _refuse(source, "lacks", sorted(wanted.keys() - weights.keys()))
    _refuse(source, "has unknown", sorted(weights.keys() - wanted.keys()))
    misfits = [
        f"{name} {tuple(weights[name].shape)} instead of {tuple(value.shape)}"
        for name, value in wanted.items()
        if weights[name].shape != value.shape
    ]
    _refuse(source, "has misshapen", misfits)
    module.load_state_dict(dict(weights))


def _refuse(source: str, what: str, names: list[str]) -> None:
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise ValueError(f"{source} {what} tensors: {', '.join(names[:3])}{more}")
