"""How fast is training, where does the time go, and how much of the machine's arithmetic does it use?

    python benchmarks/train_speed.py --source VIDEOS [--cache FOLDER] [--recipe tiny] [--blocks 4] [--batch 8]

Steps of the recipe without adversary, all tokens quantized. Peak is the best matrix product of 1024×1024 float32 seen
between the steps; the arithmetic of a step is counted by PyTorch. Writes results/train_speed.json.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.utils.flop_counter import FlopCounterMode

import machine
from adaptok.training import TokenizerTraining, load_recipe
from adaptok.training.processes import make_fabric
from adaptok.training.run import open_data
from adaptok.training.tokenizer_recipe import TokenizerRecipe

FEED_GOAL = 3.0
PEAK_GOAL = 0.5


class Stages:
    """Seconds per stage, collected by wrapping the calls of a recipe."""

    def __init__(self, recipe: TokenizerRecipe) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        recipe.tokenizer.forward = self.timed("forward", recipe.tokenizer.forward)
        recipe.objective.forward = self.timed("forward and losses", recipe.objective.forward)
        recipe.fabric.backward = self.timed("backward", recipe.fabric.backward)
        recipe.learner.clip = self.timed("optimizer", recipe.learner.clip)
        recipe.learner.update = self.timed("optimizer", recipe.learner.update)
        recipe.average.update = self.timed("average", recipe.average.update)

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, its time added to a stage."""

        def run(*args: Any, **keywords: Any) -> Any:
            begin = time.perf_counter()
            result = call(*args, **keywords)
            self.seconds[name] += time.perf_counter() - begin
            return result

        return run


def peak() -> float:
    """GFLOP/s of a square matrix product, once."""
    a = torch.rand(1024, 1024)
    begin = time.perf_counter()
    torch.mm(a, a)
    return 2 * 1024**3 / (time.perf_counter() - begin) / 1e9


def next_in(batches: Iterator[Any], seconds: dict[str, float]) -> Any:
    begin = time.perf_counter()
    batch = next(batches)
    seconds["data"] += time.perf_counter() - begin
    return batch


def measure(settings: TokenizerTraining, steps: int) -> dict[str, Any]:
    fabric = make_fabric(settings.run)
    recipe = TokenizerRecipe(settings, fabric, *open_data(settings.data, Console(stderr=True)))
    batches = recipe.batches(0)
    with FlopCounterMode(display=False) as counter:
        recipe.learn(next(batches), 0)
    stages = Stages(recipe)
    best, begin, spent = 0.0, time.perf_counter(), 0.0
    for step in range(1, steps + 1):
        batch = next_in(batches, stages.seconds)
        recipe.learn(batch, step)
        aside = time.perf_counter()
        best = max(best, *(peak() for _ in range(3)))
        spent += time.perf_counter() - aside
    total = time.perf_counter() - begin - spent
    seconds = dict(stages.seconds)
    seconds["losses"] = seconds.pop("forward and losses") - seconds["forward"]
    seconds["rest"] = total - sum(seconds.values())
    clips = steps * settings.stages[0].batch
    return {
        "clips_per_second": clips / total,
        "data_alone_clips_per_second": clips / seconds["data"],
        "share": {name: value / total for name, value in sorted(seconds.items())},
        "gflop_per_clip": counter.get_total_flops() / settings.stages[0].batch / 1e9,
        "peak_gflops": best,
        "share_of_peak": counter.get_total_flops() * steps / total / 1e9 / best,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--cache")
    parser.add_argument("--recipe", default="tiny")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    overrides = [
        f"data.source={Path(arguments.source).resolve()}",
        f"stages=[{{start: 0, blocks: {arguments.blocks}, batch: {arguments.batch}}}]",
        "tail_drop={start: 0}",
        "codebook={quantize: {start: 0}}",
        *([f"data.cache_folder={Path(arguments.cache).resolve()}"] if arguments.cache else []),
        *arguments.set,
    ]
    found = measure(load_recipe(TokenizerTraining, arguments.recipe, overrides), arguments.steps)
    table = Table("what", "value")
    for name, value in found.items():
        shown = "  ".join(f"{k} {v:.0%}" for k, v in value.items()) if isinstance(value, dict) else f"{value:.3g}"
        table.add_row(name, shown)
    Console().print(table)
    feed = found["data_alone_clips_per_second"] / found["clips_per_second"]
    Console().print(
        f"data feeds {feed:.1f}× what the model takes (goal {FEED_GOAL}×); "
        f"{found['share_of_peak']:.0%} of peak (goal {PEAK_GOAL:.0%})"
    )
    options = {k: getattr(arguments, k) for k in ("recipe", "blocks", "batch", "steps", "threads")}
    path = machine.save("train_speed", {**machine.describe(("lightning-fabric",)), "options": options, "result": found})
    Console().print(f"written to {path.name}")


if __name__ == "__main__":
    main()
