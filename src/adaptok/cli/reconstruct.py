"""`adaptok reconstruct`: see what a budget does to a video."""

from typing import Annotated

import tyro

from adaptok.cli.options import Allocate, Machine, Source, Target, progress_bar


def reconstruct(
    source: Source,
    target: Target,
    *,
    spend: Annotated[Allocate, tyro.conf.arg(name="")] = Allocate(),
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine(),
    force: bool = False,
) -> None:
    """Write original, reconstruction and tokens per block side by side, and print a table per block.

    Args:
        source: A video file or an image folder.
        target: The comparison video.
        spend: Tokens to spend.
        machine: The model and where it runs.
        force: Overwrite an existing file.
    """
    from rich.console import Console
    from rich.table import Table

    from adaptok.stream.compare import compare_file

    codec = machine.codec()
    with progress_bar("reconstructing") as progress:
        spending = spend.spending(codec)
        reports = compare_file(codec, source, target, spending, overwrite=force, progress=progress)
    table = Table("block", "frames", "tokens", "predicted score", "PSNR dB")
    for r in reports:
        score = "" if r.score is None else f"{r.score:.4f}"
        table.add_row(str(r.index), str(r.frames), str(r.kept), score, f"{r.psnr:.2f}")
    Console().print(table)
