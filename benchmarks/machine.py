"""What a result was measured on, and where results are kept."""

import json
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def describe(packages: tuple[str, ...] = ()) -> dict[str, Any]:
    """Machine, versions and command, for the head of every result file."""
    return {
        "command": " ".join(["python", Path(sys.argv[0]).as_posix().split("/benchmarks/")[-1], *sys.argv[1:]]),
        "machine": {"cpu": cpu_name(), "cores": torch.get_num_threads(), "system": platform.system()},
        "versions": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("torch", "numpy", *packages)},
        },
    }


def cpu_name() -> str:
    """The processor's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def save(name: str, result: dict[str, Any]) -> Path:
    """Write `results/NAME.json`."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path
