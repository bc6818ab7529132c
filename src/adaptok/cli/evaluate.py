"""`adaptok evaluate`: quality of a model against the tokens it spends."""

from typing import TYPE_CHECKING, Annotated

import tyro

from adaptok.cli.options import Machine, Target, progress_bar, tell
from adaptok.evaluation.settings import Settings

if TYPE_CHECKING:
    from adaptok.evaluation import Evaluation

Data = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]


def evaluate(
    data: Data,
    target: Target,
    *,
    settings: Annotated[Settings, tyro.conf.arg(name="")] = Settings(),
    model: str = "tiny",
    device: str | None = None,
    threads: int | None = None,
    shard: str | None = None,
    strict: bool = False,
) -> None:
    """Measure a model on videos: curves, tables and a report that needs no other file.

    Writes report.html, evaluation.json and evaluation.csv. A run that was stopped goes on where it was when called
    again. Started by torchrun, or once per `--shard`, processes share the work, and the last one to finish writes.

    Args:
        data: A folder of videos, or a manifest (.csv) with a column file and, if there is one, split.
        target: The folder for the results and for finished work.
        settings: What is measured.
        model: An embedded model's name, a folder, or a hub id.
        device: Device of the model, such as cpu, cuda or mps; where the weights are if not given.
        threads: CPU threads; PyTorch's default if not given.
        shard: Do only part i of n of the work, given as i/n with i from 0.
        strict: Fail at a video that cannot be read, instead of skipping it with a warning.
    """
    from adaptok.evaluation import Shard
    from adaptok.evaluation import evaluate as run

    part = Shard.here() if shard is None else Shard.parse(shard)
    codec = Machine(model=model, device=device, threads=threads, seed=settings.seed).codec()
    with progress_bar("evaluating") as progress:
        found = run(codec, data, target, settings, shard=part, strict=strict, progress=progress)
    if found is None:
        tell(f"part {part.index} of {part.count} is done; the results appear when all parts are")
        return
    for note in found.notes:
        tell(f"note: {note}")
    _show(found)
    tell(f"report: {target}/report.html")


def _show(found: "Evaluation") -> None:
    from rich.console import Console
    from rich.table import Table

    from adaptok.evaluation.result import DIGITS, TITLES

    table = Table("method", "tokens", "kbit/s", *(TITLES[name] for name in found.metrics))
    for row in found.rows:
        numbers = (f"{row.estimates[name].value:.{DIGITS[name]}f}" for name in found.metrics)
        table.add_row(row.point.curve, f"{row.tokens:.1f}", f"{row.bits_per_second / 1000:.2f}", *numbers)
    Console().print(table)
