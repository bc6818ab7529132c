"""Finished work on disk, by content: what is there is never computed again, whoever computed it.

In: keys, which are digests of everything a result depends on, and records. Out: the same records. A record appears
whole or not at all, so a run that was killed goes on where it stopped, and several processes can share a folder.
Training keeps the true scores of lessons this way, evaluation what it measured.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from adaptok.video import OutputError, whole_file

FORMAT = 1
"""Part of every key: results of an earlier way of measuring are not mistaken for those of this one."""


@dataclass(frozen=True, eq=False)
class Record:
    """Tensors by name, and facts that JSON can hold."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any] = field(default_factory=dict)


def key_of(*parts: object) -> str:
    """A digest of plain values."""
    return hashlib.sha256(json.dumps([FORMAT, *parts]).encode()).hexdigest()[:40]


class Store:
    """A folder of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> Record | None:
        """The record, or None; a damaged one counts as absent and is made again."""
        path = self._path(key)
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                facts = json.loads(file.metadata()["facts"])
        except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError):
            return None
        return Record(tensors, facts)

    def write(self, key: str, record: Record) -> None:
        """Put a record in place; a disk that is full or closed to us is an OutputError of one line."""
        path = self._path(key)
        tensors = {name: value.detach().cpu().contiguous() for name, value in record.tensors.items()}
        data = safetensors.torch.save(tensors, metadata={"facts": json.dumps(dict(record.facts))})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write {path.parent}: {error.strerror or error}") from error
        with whole_file(path, overwrite=True) as file:
            file.write(data)

    def _path(self, key: str) -> Path:
        # Folders of at most a few thousand files stay quick to list on every file system.
        return self.folder / key[:2] / f"{key[2:]}.safetensors"
