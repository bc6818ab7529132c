"""How fast are the metric networks, and how close to what the machine can multiply?

    python benchmarks/metrics.py [--repeats 5]
    python benchmarks/metrics.py --evaluation [--model tiny] [--clips 64]

LPIPS on pairs of 256×256 frames, I3D on clips of 16 frames of 224×224, float32, no gradients. The peak is the best
square matrix product of the same run, interleaved with the networks; times are the best of the repeats.
Writes results/metrics.json.

With `--evaluation`: how long `adaptok evaluate` takes on clips made here, at three budgets, with all default metrics,
nothing cached but the networks' weights; and once more, when all of it is finished. Writes results/evaluation.json.
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

import adaptok
import machine
from adaptok.evaluation import Settings, evaluate
from adaptok.metrics import I3D, LPIPS
from adaptok.metrics.weights import cache_dir, fetch
from adaptok.video import create_video

I3D_GOAL = 1.5
"""Seconds per clip of 16 frames, at most."""

PEAK_SIZE = 2048
Work = Callable[[], object]


def seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def flops(work: Work) -> int:
    """Floating-point operations of the convolutions and matrix products."""
    counter = FlopCounterMode(display=False)
    with counter:
        work()
    return counter.get_total_flops()


def works() -> dict[str, tuple[int, str, Work]]:
    """For every network how many items one call takes, what an item is, and the call."""
    alex, vgg, i3d = LPIPS("alex"), LPIPS("vgg"), I3D()
    a, b = torch.rand(2, 8, 3, 256, 256)
    clips = torch.rand(2, 3, 16, 224, 224)
    return {
        "LPIPS alex": (8, "pair of 256×256 frames", lambda: alex(a, b)),
        "LPIPS vgg": (8, "pair of 256×256 frames", lambda: vgg(a, b)),
        "I3D": (2, "clip of 16 frames", lambda: i3d(clips)),
    }


def make_videos(folder: Path, count: int, frames: int = 24, size: int = 96) -> None:
    """Drifting waves, each video with its own; what they show does not change what measuring them costs."""
    rng = np.random.default_rng(0)
    t, y, x = np.mgrid[0:frames, 0:size, 0:size]
    for number in range(count):
        waves = rng.uniform(-1, 1, (3, 4))
        planes = [128 + 90 * np.sin((x * a + y * b) / 9 + t * c + d) for a, b, c, d in waves]
        images = np.stack(planes, axis=-1).clip(0, 255).astype(np.uint8)
        path = folder / f"{number:03}.mp4"
        with create_video(path, height=size, width=size, fps=Fraction(25), time_base=Fraction(1, 25)) as writer:
            for pts, image in enumerate(images):
                writer.write(image, pts)


def evaluation(model: str, clips: int) -> dict[str, Any]:
    """Seconds of an evaluation from nothing, and of the same again."""
    for name in ("lpips-alex", "i3d"):
        fetch(name)
    weights = cache_dir() / "weights"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["ADAPTOK_CACHE"] = str(folder / "cache")
        (folder / "cache").mkdir()
        (folder / "cache" / "weights").symlink_to(weights)
        (folder / "videos").mkdir()
        make_videos(folder / "videos", clips)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", adaptok.UntrainedWarning)
            codec = adaptok.load(model)
        settings = Settings(strategies=("ipal",))
        first = seconds(lambda: evaluate(codec, folder / "videos", folder / "out", settings))
        again = seconds(lambda: evaluate(codec, folder / "videos", folder / "out", settings))
    points = 3
    return {
        "model": model,
        "clips": clips,
        "budgets": points,
        "metrics": list(settings.metrics),
        "seconds": round(first, 1),
        "seconds_per_clip_and_point": round(first / clips / points, 3),
        "seconds_when_finished_before": round(again, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--evaluation", action="store_true")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--clips", type=int, default=64)
    options = parser.parse_args()
    if not options.evaluation:
        networks(options.repeats)
        return
    load = os.getloadavg()[0]
    rows = evaluation(options.model, options.clips)
    Console().print(rows)
    machine.save("evaluation", {**machine.describe(("av",)), "load_at_start": round(load, 2), **rows})


@torch.inference_mode()
def networks(repeats: int) -> None:
    torch.manual_seed(0)
    left, right = torch.rand(2, PEAK_SIZE, PEAK_SIZE)
    questions = works()
    counts = {name: flops(work) for name, (_, _, work) in questions.items()}
    products: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in questions}
    load = os.getloadavg()[0]
    for _ in range(repeats):
        products.append(min(seconds(lambda: left @ right) for _ in range(3)))
        for name, (_, _, work) in questions.items():
            times[name].append(seconds(work))
    peak = 2 * PEAK_SIZE**3 / min(products)
    table = Table("network", "item", "seconds per item", "GFLOP per item", "GFLOP/s", "share of peak")
    rows = {}
    for name, (items, item, _) in questions.items():
        taken = min(times[name])
        rows[name] = {
            "item": item,
            "batch": items,
            "seconds_per_item": round(taken / items, 4),
            "items_per_second": round(items / taken, 2),
            "gflop_per_item": round(counts[name] / items / 1e9, 2),
            "share_of_peak": round(counts[name] / taken / peak, 3),
        }
        speed = f"{counts[name] / taken / 1e9:.0f}"
        row = rows[name]
        table.add_row(
            name,
            item,
            f"{row['seconds_per_item']:.3f}",
            f"{row['gflop_per_item']:.1f}",
            speed,
            f"{row['share_of_peak']:.0%}",
        )
    console = Console()
    console.print(table)
    met = rows["I3D"]["seconds_per_item"] <= I3D_GOAL
    console.print(f"matrix product: {peak / 1e9:.0f} GFLOP/s; I3D goal of {I3D_GOAL} s per clip met: {met}")
    machine.save(
        "metrics",
        {
            **machine.describe(),
            "load_at_start": round(load, 2),
            "peak_gflops": round(peak / 1e9, 1),
            "i3d_goal_seconds": I3D_GOAL,
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
