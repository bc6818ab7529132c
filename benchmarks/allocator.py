"""What another memory allocator does for training on a CPU.

    python benchmarks/allocator.py --data VIDEOS --library /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 [--steps 40]

The same training by `adaptok train tokenizer`, by turns with the system's allocator and with the library preloaded:
whole clips from the first step on, the second half of the steps counts. Losses must be equal to the last digit. Writes
results/allocator.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

import machine

SETTINGS = "oversize_threshold:0,dirty_decay_ms:10000,muzzy_decay_ms:10000,thp:always,metadata_thp:auto"
"""For jemalloc: keep for ten seconds what was freed, in large pages."""


def trained(data: Path, steps: int, library: Path | None) -> tuple[float, list[float]]:
    """Seconds per step of the run's second half, and the losses that it logged."""
    chosen = {} if library is None else {"LD_PRELOAD": str(library), "MALLOC_CONF": SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        changes = [f"data.source={data}", f"run.steps={steps}"]
        changes += ["stages=[{start: 0, blocks: 4, batch: 8}]", f"run.log_every={steps // 2}"]
        changes += [f"run.validate_every={10 * steps}", f"run.save_every={10 * steps}"]
        command = [sys.executable, "-m", "adaptok", "train", "tokenizer", "tiny", str(out), "--set", *changes]
        subprocess.run(command, check=True, env=os.environ | chosen, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if line["kind"] == "train"]
    first, last = logged[0], logged[-1]
    seconds = (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])
    return seconds, [line["loss"] for line in logged]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True, help="jemalloc; an allocator of another kind does too")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if not options.library.is_file():
        parser.error(f"--library {options.library}: there is no such file")
    runs: dict[str, list[tuple[float, list[float]]]] = {"the system's": [], options.library.name: []}
    for _ in range(options.repeats):
        for name, library in zip(runs, (None, options.library), strict=True):
            runs[name].append(trained(options.data, options.steps, library))
    losses = [loss for results in runs.values() for _, loss in results]
    same = all(loss == losses[0] for loss in losses)
    seconds = {name: statistics.median(value for value, _ in results) for name, results in runs.items()}
    system, other = seconds.values()
    table = Table("allocator", "seconds per step", title=f"{system / other:.2f} times as fast")
    for name, value in seconds.items():
        table.add_row(name, f"{value:.2f}")
    Console().print(table)
    result = {**machine.describe(), "seconds_per_step": seconds, "times_as_fast": system / other, "same_losses": same}
    machine.save("allocator", result)
    if not same:
        raise SystemExit("losses differ: the two did not compute the same")


if __name__ == "__main__":
    main()
