"""Fixtures shared by all tests; every array shape in a signature is checked while they run."""

import os
from pathlib import Path

import jaxtyping
import pytest
import torch

jaxtyping.install_import_hook("adaptok", "beartype.beartype")

SHARED = Path(os.environ.get("ADAPTOK_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference tensors and real clips that are not part of the project; absent on most machines."""
    if not SHARED.is_dir():
        pytest.skip(f"no reference data at {SHARED} (set ADAPTOK_SHARED)")
    return SHARED
