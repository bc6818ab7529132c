"""A small source distribution that stands in for the published ones, so that fetching is tested without network."""

import io
import os
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from adaptok.metrics import sources, weights

TREE = {"layer": {"kernel": np.arange(12, dtype=np.float32).reshape(3, 4)}}


def convert(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name.replace("/", "."): torch.from_numpy(array.copy()) for name, array in arrays.items()}


def build(folder: Path, marker: Path) -> weights.Weights:
    """Write the archive into `folder`; its setup.py would create `marker` if anything ran it."""
    folder.mkdir(exist_ok=True)
    archive = folder / "fakeweights-1.0.tar.gz"
    files = {
        "PKG-INFO": b"Metadata-Version: 2.1\nName: fakeweights\nVersion: 1.0\n",
        "setup.py": f"open({str(marker)!r}, 'w').close()".encode(),
        "fakeweights/weights/fake.ckpt": pickle.dumps(TREE, protocol=4),
    }
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"fakeweights-1.0/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return entry(archive)


def entry(archive: Path) -> weights.Weights:
    source = sources.Source("fakeweights", "1.0", sources.file_sha256(archive), "MIT")
    content = weights.content_digest(convert({"layer/kernel": TREE["layer"]["kernel"]}))
    return weights.Weights("fake", source, "fakeweights/weights/fake.ckpt", convert, content)


def fetch_in_another_process(archive: Path, environment: dict[str, str]) -> str:
    """What each of several workers does on first use."""
    os.environ.update(environment)
    weights.CATALOGUE = {"fake": entry(archive)}
    return weights.content_digest(weights.load_weights("fake"))
