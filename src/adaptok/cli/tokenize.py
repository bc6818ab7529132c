"""`adaptok tokenize`: videos to the token corpus that generators learn from."""

from pathlib import Path
from typing import Annotated

import tyro

from adaptok.cli.options import Machine, progress_bar, tell
from adaptok.training.tokenize import TokenizeConfig


def tokenize(
    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")],
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")],
    *,
    config: Annotated[TokenizeConfig, tyro.conf.arg(name="")] = TokenizeConfig(),
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine(),
) -> None:
    """Encode every clip of some videos once, into Parquet files; a run that was stopped goes on.

    Args:
        data: A folder of videos, a manifest (.csv, .parquet) or shards (.tar), as for training.
        out: Folder of the corpus.
        config: How videos become tokens.
        machine: The tokenizer and where it runs.
    """
    from adaptok.training.tokenize import tokenize as run

    with progress_bar("tokenizing") as progress:
        done = run(machine.codec(), data, out, config, progress)
    for line in done.skipped:
        tell(f"warning: {line}")
    there = f", {done.kept} were there" if done.kept else ""
    tell(f"{done.clips} clips in {done.parts - done.kept} parts{there}: {out}")
