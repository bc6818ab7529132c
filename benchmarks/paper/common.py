"""What the paper's scripts share: options, models, evaluations, tables.

In: a command line. Out: codecs, evaluations made by the code of `adaptok evaluate`, and tables: lists of rows of plain
data, a metric as [value, low, high]. `finish` prints them and writes results/paper/NAME.json. Models are looked for in
runs/paper, where models.py trains them; `--preset l` looks in runs/paper-l instead and keeps its results apart.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import adaptok
from adaptok.evaluation import Clip, Evaluation, Row, Settings, evaluate
from adaptok.evaluation.bootstrap import draws, interval, resampled_means
from adaptok.evaluation.result import DIGITS, LOWER_IS_BETTER, TITLES
from adaptok.stream.codec import Codec
from adaptok.training.checkpoint import RunFolder

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks lie one folder up

import machine
from embedded_model import row_facts
from generation_quality import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = Path(__file__).parents[2] / "docs" / "images"
RESAMPLES = 1000
STARTED = time.monotonic()
HIDDEN = frozenset({"codes_used", "bits_per_second"})
"""Columns that stay in the file."""
TableRows = list[dict[str, Any]]
Tables = Mapping[str, TableRows]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """Options of every script that measures quality."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of videos or a manifest; its split `val`")
    parser.add_argument("--preset", default="tiny", help="whose models: runs/paper of tiny, runs/paper-l of l")
    parser.add_argument("--runs", type=Path, help="the folder in which models.py trained")
    parser.add_argument("--label", help="of another set of models: results and pictures are NAME_LABEL")
    parser.add_argument("--model", help="name or folder of AdapTok with its scorer")
    parser.add_argument("--causaltok", help="folder of CausalTok, where a script compares with it")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--videos", type=int, help="only so many, spread evenly over the list")
    parser.add_argument("--windows", type=int, default=1, help="clips of each video")
    parser.add_argument("--batch", type=int, default=16, help="videos that share a budget")
    parser.add_argument("--scope", default="batch", help="who shares a budget: clip, batch, index (the paper's)")
    parser.add_argument("--metrics", nargs="+", default=["fvd", "psnr", "lpips", "ssim"])
    return parser


def parsed(parser: argparse.ArgumentParser, line: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, with folders filled in by the preset."""
    options = parser.parse_args(line)
    options.runs = options.runs or Path("runs") / place(options.preset)
    options.model = options.model or str(options.runs / "scorer-perceptual" / "best")
    options.causaltok = options.causaltok or str(options.runs / "causaltok" / "best")
    return options


def place(preset: str) -> str:
    """The folder of a preset among runs, results and images."""
    return "paper" if preset == "tiny" else f"paper-{preset}"


def labelled(name: str, options: argparse.Namespace) -> str:
    """The name of a result or picture, told apart from those of other sets of models."""
    return f"{name}_{options.label}" if options.label else name


def opened(name: str | Path, options: argparse.Namespace) -> Codec:
    """A model by its name or folder."""
    return adaptok.load(name, options.device)


def trained(folder: Path) -> bool:
    """Whether a model is there and its run, if it is of one, came to its end: one that was cut leaves a `best` too."""
    run = RunFolder(folder.parent)
    if not folder.is_dir() or not run.state.is_file():
        return folder.is_dir()
    steps = yaml.safe_load((run.path / "recipe.yaml").read_text(encoding="utf-8"))["run"]["steps"]
    return steps is None or run.load()[1].step >= steps


def settings(options: argparse.Namespace) -> Settings:
    """What the options say of an evaluation; budgets and strategies are each script's own."""
    return Settings(
        metrics=tuple(options.metrics),
        videos=options.videos,
        windows=options.windows,
        batch=options.batch,
        scope=options.scope,
        resamples=RESAMPLES,
        examples=0,
    )


def shares(codec: Codec, *parts: float) -> tuple[float, ...]:
    """Budgets as shares of all tokens of a block."""
    return tuple(part * codec.geometry.tokens_per_block for part in parts)


def run(codec: Codec, options: argparse.Namespace, wanted: Settings) -> Evaluation:
    """Evaluate; scripts share finished work, as it is known by model, clips and point."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(codec.bundle.config.name, total=None)
        out = options.runs / "evaluation"
        found = evaluate(
            codec, options.data, out, wanted, progress=lambda done, all: bar.update(task, completed=done, total=all)
        )
    assert found is not None  # there are no shards
    return found


def rows_of(found: Evaluation, names: Mapping[str, Any]) -> TableRows:
    """The points of an evaluation, each after what `names` says of all; of video codecs also what did not fit."""
    over = [{"clips_over_budget": row.over} if row.point.is_reference else {} for row in found.rows]
    return [{**names, **row_facts(row, found.codebook), **o} for row, o in zip(found.rows, over, strict=True)]


def compared(
    options: argparse.Namespace, column: str, parts: Sequence[float], strategy: str
) -> tuple[TableRows, dict[str, Evaluation]]:
    """Every model of `--models NAME=FOLDER ...` at the same shares of its tokens; `column` holds the names."""
    rows: TableRows = []
    found = {}
    for name, folder in map(named, options.models):
        codec = opened(folder, options)
        wanted = replace(settings(options), budgets=shares(codec, *parts), strategies=(strategy,))
        found[name] = run(codec, options, wanted)
        parameters = sum(p.numel() for p in codec.bundle.modules.parameters())
        rows += rows_of(found[name], {column: name, "parameters": parameters})
    return rows, found


def differences(column: str, found: Mapping[str, Evaluation], base: str) -> TableRows:
    """What every model has less than `base` at the same budgets, on the same clips."""
    rows = []
    for name, one in found.items():
        if name == base:
            continue
        clips = same_clips(one, found[base])
        for row, other in zip(one.rows, found[base].rows, strict=True):
            values = {metric: paired(row, other, metric, clips) for metric in row.estimates}
            rows.append({"budget": row.point.budget, column: name, **values})
    return sorted(rows, key=lambda row: row["budget"])


def video_draws(clips: Sequence[Clip]) -> np.ndarray:
    """How often each clip occurs in each bootstrap sample of the videos."""
    _, numbers = np.unique([clip.video for clip in clips], return_inverse=True)
    return draws(numbers, RESAMPLES, seed=0)


def paired(one: Row, other: Row, metric: str, clips: Sequence[Clip]) -> list[float]:
    """What one has less than the other on the same clips, with the interval of that difference over videos."""
    difference = one.estimates[metric].value - other.estimates[metric].value
    low, high = interval(difference, resampled(one, metric, clips) - resampled(other, metric, clips))
    return [round(value, 5) for value in (difference, low, high)]


def resampled(row: Row, metric: str, clips: Sequence[Clip]) -> np.ndarray:
    """A metric in every bootstrap sample of the videos, the same samples for all rows of these clips."""
    if metric == "fvd":
        return np.array(row.fvd_drawn)
    return resampled_means(np.array(row.values[metric]), video_draws(clips))


def same_clips(one: Evaluation, other: Evaluation) -> tuple[Clip, ...]:
    """The clips of both; a ValueError where they differ, as nothing can then be paired."""
    if one.clips != other.clips:
        raise ValueError(f"{one.model} and {other.model} were evaluated on different clips: {one.source}")
    return one.clips


def published(table: str) -> TableRows:
    """What the paper's table says, to the letter; nothing where it has none."""
    with (Path(__file__).parent / "published.yaml").open(encoding="utf-8") as file:
        return yaml.load(file, yaml.BaseLoader).get(table, [])


def heads(rows: TableRows) -> list[str]:
    """All columns for people to read, in the order in which they occur first."""
    return [name for name in dict.fromkeys(name for row in rows for name in row) if name not in HIDDEN]


def title(name: str) -> str:
    """A column's head; metrics say which way is better."""
    arrow = {True: " ↓", False: " ↑"}.get(name in LOWER_IS_BETTER, "") if name in TITLES else ""
    return TITLES.get(name, name.replace("_", " ")) + arrow


def cell(name: str, value: Any) -> str:
    """One value as people read it: an estimate with its interval, a number, or a word."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "✓" if value else "✗"
    digits = DIGITS.get(name.split()[0])
    if isinstance(value, list):
        shown = [cell(name, number) for number in value]
        return f"{shown[0]} ({shown[1]} to {shown[2]})"
    if isinstance(value, float):
        return f"{value:.4g}" if digits is None else f"{value:.{digits}f}"
    return str(value)


def finish(name: str, options: argparse.Namespace, tables: Tables, facts: Mapping[str, Any] | None = None) -> None:
    """Print tables and write them with machine, versions, command, options and time; beside them what the paper has."""
    quoted = {head: published(head) for head in tables if published(head)}
    for head, rows in tables.items():
        show(head, rows)
        if head in quoted:
            show(f"{head}, quoted from the paper", quoted[head])
    plain = {key: value.as_posix() if isinstance(value, Path) else value for key, value in vars(options).items()}
    facts = {"seconds": round(time.monotonic() - STARTED), "options": plain, **(facts or {})}
    result = {**machine.describe(("av",)), **facts, "tables": dict(tables), "quoted": quoted}
    machine.save(f"{place(options.preset)}/{labelled(name, options)}", result)


def show(head: str, rows: TableRows) -> None:
    """A table on the terminal."""
    shown = Table(*map(title, heads(rows)), title=head)
    for row in rows:
        shown.add_row(*(cell(column, row.get(column)) for column in heads(rows)))
    Console().print(shown)


def facts_of(*found: Evaluation) -> dict[str, Any]:
    """Which models on how many clips, and what a reader must know."""
    return {
        "models": [f"{one.model} {one.fingerprint}" for one in found],
        "clips": len(found[0].clips),
        "videos": found[0].videos,
        "notes": list(dict.fromkeys(note for one in found for note in one.notes)),
    }


def curves(rows: TableRows, label: str, metrics: Sequence[str]) -> "Figure":
    """A panel per metric against tokens per clip, a line per value of the column `label`, with intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.7 * len(metrics), 3.1), layout="constrained")
    for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        for name in dict.fromkeys(row[label] for row in rows):
            line = sorted((row["tokens"], *row[metric]) for row in rows if row[label] == name)
            tokens, value, low, high = (np.array(column) for column in zip(*line, strict=True))
            drawn = axes.plot(tokens, value, marker="o", markersize=3, label=name)
            axes.fill_between(tokens, low, high, color=drawn[0].get_color(), alpha=0.1, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_title(title(metric), loc="left", fontsize=10)
        axes.set_xlabel("tokens per clip")
        axes.grid(color="#e6e6e6", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    return figure


def save_image(figure: "Figure", name: str, options: argparse.Namespace) -> None:
    """Write docs/images/paper/NAME.png, of another set of models NAME_LABEL.png."""
    path = IMAGES / place(options.preset) / f"{labelled(name, options)}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
