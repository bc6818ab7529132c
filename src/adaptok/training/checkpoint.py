"""A run on disk: the model as users open it, and the state from which training goes on.

In: a bundle, and the run's tensors and numbers. Out: `last/` and `best/`, each a folder for `open_bundle`, and
`last/state.safetensors`, which alone decides where a resumed run continues: tensors, and numbers as JSON in its header.
Nothing in it is executed when it is read. Every file appears whole or not at all. Next on the walk: loop.py.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from adaptok.bundle import CONFIG_FILE, WEIGHTS_FILE
from adaptok.video import OutputError, whole_file

STATE_FILE = "state.safetensors"
FORMAT = "adaptok-run-1"


@runtime_checkable
class Model(Protocol):
    """What a run trains and a checkpoint holds: a bundle of any kind."""

    @property
    def modules(self) -> nn.Module:
        """The networks whose tensors are stored."""

    @property
    def config_yaml(self) -> str:
        """What `config.yaml` says."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    """Steps done."""
    seconds: float = 0.0
    """Time spent in training, over all sittings."""
    best_level: int = -1
    best: float = 0.0
    """The best validation so far, see `loop.Validation`; level −1 is none."""


@dataclass(frozen=True)
class RunFolder:
    """Where one run keeps its files."""

    path: Path

    @property
    def state(self) -> Path:
        """What a resumed run reads."""
        return self.path / "last" / STATE_FILE

    def write_recipe(self, text: str) -> None:
        """Write `recipe.yaml`: the settings, complete."""
        _make(self.path)
        with whole_file(self.path / "recipe.yaml", overwrite=True) as file:
            file.write(text.encode())

    def save(self, bundle: Model, tensors: Mapping[str, Tensor], progress: Progress) -> None:
        """Write `last/`: the state first, as it is the one that must not be lost."""
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        header = {"format": FORMAT, "progress": json.dumps(asdict(progress))}
        _make(self.path / "last")
        with whole_file(self.state, overwrite=True) as file:
            file.write(safetensors.torch.save(plain, metadata=header))
        save_bundle(bundle, self.path / "last")

    def save_best(self, bundle: Model) -> None:
        """Write `best/`."""
        save_bundle(bundle, self.path / "best")

    def load(self) -> tuple[dict[str, Tensor], Progress]:
        """Read `last/state.safetensors`."""
        if not self.state.is_file():
            raise ValueError(f"there is nothing to resume: no {self.state}")
        try:
            with safe_open(self.state, framework="pt") as file:
                header = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(f"{self.state} is not a readable checkpoint: {error}") from None
        if header.get("format") != FORMAT:
            raise ValueError(f"{self.state} has format {header.get('format')!r}, this version reads {FORMAT!r}")
        try:
            return tensors, Progress(**json.loads(header["progress"]))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{self.state} says nothing usable of the run's progress: {error}") from None


def save_bundle(bundle: Model, folder: Path) -> None:
    """The model as `open_bundle` reads it."""
    _make(folder)
    weights = {name: value.detach().cpu().contiguous() for name, value in bundle.modules.state_dict().items()}
    with whole_file(folder / WEIGHTS_FILE, overwrite=True) as file:
        file.write(safetensors.torch.save(weights))
    with whole_file(folder / CONFIG_FILE, overwrite=True) as file:
        file.write(bundle.config_yaml.encode())


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
