"""A generator on disk: `config.yaml` and `model.safetensors` in a folder, as a tokenizer's bundle has them.

In: a configuration, or such a folder. Out: a generator with its weights. Nothing is unpickled or executed.
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import torch

from adaptok.bundle import CONFIG_FILE, WEIGHTS_FILE, fill, read_weights, save_model
from adaptok.generation.code_rows import settle, share_rows, stored_codes
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

    def save(self, folder: Path | str, dtype: torch.dtype | None = None) -> None:
        """Write `config.yaml` and `model.safetensors`; with a `dtype` such as torch.float16, in that precision."""
        save_model(Path(folder), self.generator, self.config_yaml, dtype)


def embedded_generators() -> tuple[str, ...]:
    """Names of the generators whose trained weights ship with the package."""
    folder = resources.files("adaptok") / "models" / "generators"
    if not folder.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in folder.iterdir() if (entry / CONFIG_FILE).is_file()))


def build_generator(config: GeneratorConfig | str) -> Generator:
    """A generator with random weights, in evaluation mode, from a configuration or a preset's name."""
    return Generator(generator_preset(config) if isinstance(config, str) else config).eval()


def open_generator(name: Path | str) -> Generator:
    """An embedded generator by its name, or a folder that `GeneratorBundle.save` or a training run wrote."""
    if str(name) in embedded_generators():
        with resources.as_file(resources.files("adaptok") / "models" / "generators" / str(name)) as folder:
            return _open(folder)
    return _open(Path(name))


def _open(folder: Path) -> Generator:
    path = folder / CONFIG_FILE
    if not path.is_file():
        known = f"; embedded are {', '.join(found)}" if (found := embedded_generators()) else ""
        raise ValueError(f"{folder} holds no generator: there is no {CONFIG_FILE} in it{known}")
    generator = build_generator(generator_config_from_yaml(path.read_text(encoding="utf-8"), str(path)))
    weights, wanted = read_weights(folder / WEIGHTS_FILE), generator.config.codebook_size
    if (codes := stored_codes(weights)) is not None:
        if codes.ndim != 2 or len(codes) != wanted:
            raise ValueError(f"{folder / WEIGHTS_FILE} has code vectors {tuple(codes.shape)} instead of {wanted}")
        share_rows(generator, codes.float())
    fill(generator, weights, source=str(folder / WEIGHTS_FILE))
    return settle(generator)
