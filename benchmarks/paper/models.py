"""Trains every model that the tables need, with the project's own recipes and equal compute.

    python benchmarks/paper/models.py --data videos/manifest.csv --steps 2400 --scorer-steps 600 [--only adaptok ...]

Into runs/paper: `adaptok` (with sampler) and `causaltok` (every block whole, half as many tokens), from scratch by the
same recipe, seed and number of steps; `causaltok-raster`, the same with tokens that start row after row, where the
recipe starts coarse to fine; `scorer-METRIC` on `adaptok`; `size-*`, other sizes, on the same clips; `tokens-*`,
corpora with the same number of tokens per clip on average (of `--generator-data` where tokenizers should learn from
other videos than generators), but for `fewer`, adaptive tokens `--fewer` times as few (1.5 is what the reconstruction
table found for equal LPIPS); and generators on them, `ar-*` by class and `fp-*` by first frames. What is finished is
skipped, what was cut goes on. Recipes are the shipped ones of `--preset`; fewer `--steps` shrink everything that
happens at a step in proportion. `--jobs 2` trains two at a time as soon as what they need is there, each with half of
the cores, and leaves what they say in runs/paper/NAME.log. With UCF-101 and GPUs: `--preset l --data ucf101.csv`.
`@FILE` stands for the options in a file, one a line: two-cores.args has those of docs/results.md, gaussian.args the
paper's law of lengths. `--dry-run` only prints the commands.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from common import place

from adaptok.allocation.truth import METRICS
from adaptok.config import LengthConfig, ModelConfig, StackConfig
from adaptok.training import GeneratorTraining, ScorerTraining, TokenizerTraining, load_recipe
from adaptok.training.checkpoint import RunFolder
from adaptok.training.curriculum import Ramp
from adaptok.training.pace import in_steps
from adaptok.training.recipes import recipe_yaml

Training = TokenizerTraining | ScorerTraining | GeneratorTraining
KINDS = {TokenizerTraining: "tokenizer", ScorerTraining: "scorer", GeneratorTraining: "generator"}
SIZES = {
    "tiny": {"size-s": (96, 2, 3), "size-m": (128, 3, 4)},
    "l": {"size-s": (512, 6, 8), "size-xl": (1024, 24, 16)},
}
"""Width, depth and heads beside the preset's own; those of `l` are the paper's S and XL."""
GENERATORS = {"tiny": {"ar": "ar-tiny", "fp": "ar-tiny"}, "l": {"ar": "ar", "fp": "fp"}}
CONDITIONS = {"ar": "class", "fp": "frames"}
CONTEXT = 5


@dataclass(frozen=True)
class Job:
    """One thing to make: a training by complete settings, or a corpus by a command; after the jobs it needs."""

    name: str
    settings: Training | None = None
    command: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def causal(model: ModelConfig) -> ModelConfig:
    """CausalTok: half as many tokens in a block, all of them always."""
    t = model.tokenizer
    geometry = replace(t.geometry, tokens_per_block=t.geometry.tokens_per_block // 2)
    return replace(model, name="causaltok", tokenizer=replace(t, geometry=geometry, lengths=LengthConfig(law="full")))


def sized(model: ModelConfig, name: str, width: int, depth: int, heads: int) -> ModelConfig:
    """The same tokenizer with transformers of another size."""
    stack = StackConfig(width=width, depth=depth, heads=heads)
    return replace(model, name=name, tokenizer=replace(model.tokenizer, encoder=stack, decoder=stack))


def runs(options: argparse.Namespace) -> list[str]:
    """What every training is told of the machine."""
    return [f"run.devices={options.devices}", f"run.precision={options.precision}"]


def tokenizers(options: argparse.Namespace) -> dict[str, TokenizerTraining]:
    """AdapTok, CausalTok and the further sizes: one recipe, other models."""
    changes = [f"data.source={options.data}", *runs(options), *options.set]
    base = in_steps(load_recipe(TokenizerTraining, options.preset, changes), options.steps)
    model = replace(base.model, name="adaptok", scorer=None)
    causaltok = replace(base, model=causal(model), tail_drop=Ramp(share=0.0))
    raster = replace(base.start, order="raster")
    return {
        "adaptok": replace(base, model=model),
        "causaltok": causaltok,
        **({"causaltok-raster": replace(causaltok, start=raster)} if base.start.aligned else {}),
        **{
            name: replace(base, model=sized(model, name, *size)) for name, size in SIZES.get(options.preset, {}).items()
        },
    }


def jobs(options: argparse.Namespace) -> list[Job]:
    """Everything, in an order in which each thing finds what it needs."""
    out, found = options.out, [Job(name, settings) for name, settings in tokenizers(options).items()]
    judged = f"judged=[{', '.join(METRICS)}]"
    for metric in METRICS:
        changes = [f"tokenizer={out}/adaptok/best", f"data.source={options.data}", f"scorer.metric={metric}"]
        changes += [*runs(options), *options.scorer_set]
        scorer = load_recipe(ScorerTraining, f"{options.preset}-scorer", changes)
        if scorer.lessons:
            changes += [f"lessons_folder={out}/lessons", judged]
            scorer = load_recipe(ScorerTraining, f"{options.preset}-scorer", changes)
        # The first one judges its lessons by all metrics; the others find them.
        needs = ("adaptok",) if metric == METRICS[0] else ("adaptok", f"scorer-{METRICS[0]}")
        found.append(Job(f"scorer-{metric}", in_steps(scorer, options.scorer_steps), needs=needs))
    adaptok = found[0].settings
    assert isinstance(adaptok, TokenizerTraining)
    half = adaptok.model.tokenizer.geometry.tokens_per_block // 2
    spoken = {
        "adaptive": ("scorer-perceptual", "ipal", half),
        "fewer": ("scorer-perceptual", "ipal", round(half / options.fewer)),
        "fixed": ("scorer-perceptual", "fixed", half),
        "causaltok": ("causaltok", "fixed", half),
    }
    for tokens, (model, strategy, per_block) in spoken.items():
        corpus, folder = f"{out}/tokens-{tokens}", f"{out}/{model}/best"
        command = ["tokenize", f"{options.generator_data}", corpus, "--model", folder, "--strategy", strategy]
        command += ["--tokens-per-block", f"{per_block}", "--context", f"{CONTEXT}", "--mirror"]
        command += [] if options.clips is None else ["--clips", f"{options.clips}"]
        command += [] if options.stride is None else ["--stride", f"{options.stride}"]
        found.append(Job(f"tokens-{tokens}", command=tuple(command), needs=(model,)))
        for short, recipe in GENERATORS.get(options.preset, {}).items():
            changes = [f"name={short}-{tokens}", f"condition={CONDITIONS[short]}", f"data.corpus={corpus}"]
            changes += [f"tokenizer={folder}", *runs(options), *options.generator_set]
            generator = load_recipe(GeneratorTraining, recipe, changes)
            name, settings = f"{short}-{tokens}", in_steps(generator, options.generator_steps)
            found.append(Job(name, settings, needs=(f"tokens-{tokens}",)))
    return found


def state(job: Job, out: Path) -> str:
    """`new`, `cut` or `finished`; a run by other settings is refused (how many processes it had does not matter)."""
    folder = RunFolder(out / job.name)
    if job.settings is None or not folder.state.is_file():
        return "new"
    before = load_recipe(type(job.settings), folder.path / "recipe.yaml")
    if _alone(before) != _alone(job.settings):
        raise ValueError(f"{folder.path} was trained by other settings; choose another --out, or remove it")
    steps = job.settings.run.steps
    return "finished" if steps is not None and folder.load()[1].step >= steps else "cut"


def _alone(settings: Training) -> Training:
    return replace(settings, run=replace(settings.run, devices=1))


def make(job: Job, options: argparse.Namespace) -> None:
    """Run one job as the command that a user would type."""
    out, found = options.out, state(job, options.out)
    if found == "finished":
        print(f"{job.name}: finished before")
        return
    command = list(job.command)
    if job.settings is not None:
        recipe = out / f"{job.name}.yaml"
        command = ["train", KINDS[type(job.settings)], f"{recipe}", f"{out / job.name}"]
        command += ["--resume"] if found == "cut" else []
        if not options.dry_run:
            out.mkdir(parents=True, exist_ok=True)
            recipe.write_text(recipe_yaml(job.settings), encoding="utf-8")
    print(f"{job.name}: adaptok {' '.join(command)}", flush=True)
    if options.dry_run:
        return
    begin, environment = time.monotonic(), dict(os.environ)
    with ExitStack() as stack:
        log = None
        if options.jobs > 1:
            log = stack.enter_context((out / f"{job.name}.log").open("a", encoding="utf-8"))
            environment["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // options.jobs))
        call = [sys.executable, "-m", "adaptok", *command]
        subprocess.run(call, check=True, stdout=log, stderr=log, env=environment)
    print(f"{job.name}: made in {(time.monotonic() - begin) / 60:.1f} min", flush=True)


def make_all(chosen: Sequence[Job], options: argparse.Namespace) -> None:
    """As many jobs at a time as asked for, each as soon as those it needs are done; the first that fails ends it."""
    waiting, running = list(chosen), dict[Future[None], Job]()
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            while waiting or running:
                missing = {job.name for job in (*waiting, *running.values())}
                for job in [job for job in waiting if missing.isdisjoint(job.needs)]:
                    waiting.remove(job)
                    running[pool.submit(make, job, options)] = job
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    future.result()
        except BaseException:  # Ctrl-C too, on which trainings save and end
            pool.shutdown(cancel_futures=True)
            raise


def parse(line: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@"
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", default="tiny", help="whose recipes: PRESET and PRESET-scorer")
    parser.add_argument("--out", type=Path, help="runs/paper for tiny, runs/paper-PRESET for others")
    parser.add_argument("--steps", type=int, help="of every tokenizer; the recipe's if not given")
    parser.add_argument("--scorer-steps", type=int)
    parser.add_argument("--generator-steps", type=int)
    parser.add_argument("--generator-data", type=Path, help="what generators learn from; --data if not given")
    parser.add_argument("--clips", type=int, help="most clips of a video that generators see; all if not given")
    parser.add_argument("--stride", type=int, help="frames from one of their clips to the next; a clip if not given")
    parser.add_argument("--fewer", type=float, default=1.5, help="how many times fewer tokens the corpus `fewer` has")
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side, each with its share of the cores")
    parser.add_argument("--devices", type=int, default=1, help="processes of a run")
    parser.add_argument(
        "--precision", default="32-true", help="bf16-mixed is faster on processors and GPUs that have it"
    )
    for what in ("", "scorer-", "generator-"):
        changed = f"changes to the {what.rstrip('-') or 'tokenizer'}s' recipe; given again, it adds to them"
        parser.add_argument(f"--{what}set", nargs="*", action="extend", default=[], metavar="FIELD=VALUE", help=changed)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="not everything")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(line)
    options.out = options.out or Path("runs") / place(options.preset)
    options.generator_data = options.generator_data or options.data
    return options


def main() -> None:
    options = parse()
    everything = jobs(options)
    unknown = set(options.only or ()) - {job.name for job in everything}
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(j.name for j in everything)}")
    make_all([job for job in everything if options.only is None or job.name in options.only], options)


if __name__ == "__main__":
    main()
