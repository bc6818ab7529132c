"""A generator on disk: `config.yaml` and `model.safetensors` in a folder, as a tokenizer's bundle has them.

In: a configuration, or such a folder. Out: a generator with its weights. Nothing is unpickled or executed.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from adaptok.bundle import CONFIG_FILE, WEIGHTS_FILE, fill, read_weights
from adaptok.generation.config import (
    GeneratorConfig,
    generator_config_from_yaml,
    generator_config_to_yaml,
    generator_preset,
)
from adaptok.generation.generator import Generator


@dataclass(frozen=True)
class GeneratorBundle:
    """What a checkpoint holds."""

    generator: Generator

    @property
    def modules(self) -> Generator:
        """The network whose tensors are stored."""
        return self.generator

    @property
    def config_yaml(self) -> str:
        """What `config.yaml` says."""
        return generator_config_to_yaml(self.generator.config)

    def to(self, device: torch.device | str) -> "GeneratorBundle":
        """Move all weights (in place, as PyTorch modules do)."""
        self.generator.to(device)
        return self

    def save(self, folder: Path | str) -> None:
        """Write `config.yaml` and `model.safetensors`, each whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: value.contiguous() for name, value in self.generator.state_dict().items()}
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            save_file(weights, Path(scratch) / WEIGHTS_FILE)
            (Path(scratch) / CONFIG_FILE).write_text(self.config_yaml, encoding="utf-8")
            for name in (WEIGHTS_FILE, CONFIG_FILE):
                os.replace(Path(scratch) / name, folder / name)


def build_generator(config: GeneratorConfig | str) -> Generator:
    """A generator with random weights, in evaluation mode, from a configuration or a preset's name."""
    return Generator(generator_preset(config) if isinstance(config, str) else config).eval()


def open_generator(folder: Path | str) -> Generator:
    """Read a folder that `GeneratorBundle.save` or a training run wrote."""
    folder = Path(folder)
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ValueError(f"{folder} holds no generator: there is no {CONFIG_FILE} in it")
    generator = build_generator(generator_config_from_yaml(path.read_text(encoding="utf-8"), str(path)))
    fill(generator, read_weights(folder / WEIGHTS_FILE), source=str(folder / WEIGHTS_FILE))
    return generator
