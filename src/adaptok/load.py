"""`adaptok.load`: from a name, a folder or a hub id to a codec."""

import warnings
from importlib import resources
from pathlib import Path

import torch

from adaptok.bundle import CONFIG_FILE, Bundle, build, on_device, open_bundle
from adaptok.config import presets
from adaptok.interop import load_official
from adaptok.stream.codec import Codec


class UntrainedWarning(UserWarning):
    """The model's weights are random."""


def embedded() -> tuple[str, ...]:
    """Names of the models whose trained weights ship with the package."""
    folder = resources.files("adaptok") / "models"
    return tuple(sorted(entry.name for entry in folder.iterdir() if (entry / CONFIG_FILE).is_file()))


def folder_of(name: str | Path) -> Path:
    """The folder of an embedded model by its name; any other path as it is."""
    return Path(str(resources.files("adaptok"))) / "models" / str(name) if str(name) in embedded() else Path(name)


def load(name: str | Path, device: torch.device | str | None = None) -> Codec:
    """A codec from an embedded model's name, a folder that was saved, or a published checkpoint (folder or hub id)."""
    if str(name) in embedded():
        bundle = open_bundle(folder_of(name))
    elif Path(name).is_dir():
        bundle = open_bundle(name) if (Path(name) / CONFIG_FILE).is_file() else load_official(name)
    elif str(name) in presets():
        bundle = _untrained(str(name))
    elif "/" in str(name):
        bundle = load_official(name)
    else:
        known = ", ".join(presets())
        raise ValueError(f"{name} is neither a folder, nor one of the models {known}, nor a hub id owner/name")
    if device is not None:
        on_device(bundle.modules, device)
    return Codec(bundle)


def _untrained(name: str) -> Bundle:
    """A preset with random weights, the same at every call."""
    warnings.warn(f"no trained weights ship for {name!r}: they are random, seed 0", UntrainedWarning, stacklevel=3)
    state = torch.get_rng_state()
    torch.manual_seed(0)
    bundle = build(name)
    torch.set_rng_state(state)
    return bundle
