"""`adaptok generate`: new videos of a class."""

from pathlib import Path
from typing import Annotated

import tyro

from adaptok.cli.options import Studio, progress_bar, tell
from adaptok.generation.settings import Sampling


def generate(
    *,
    out: Path,
    class_: Annotated[str | None, tyro.conf.arg(name="class", metavar="NAME|N")] = None,
    num: int = 8,
    sampling: Annotated[Sampling, tyro.conf.arg(name="")] = Sampling(),
    studio: Annotated[Studio, tyro.conf.arg(name="")] = Studio(),
    batch: int = 8,
    fps: str = "25",
    force: bool = False,
) -> None:
    """Generate videos: one .mp4 and one .adtk token stream per sample, and a grid of all.

    Args:
        out: Folder for the results.
        class_: What to show, by name or number; anything if not given.
        num: How many samples.
        sampling: How to sample.
        studio: The models and where they run.
        batch: Samples generated at a time.
        fps: Frames per second of the videos.
        force: Overwrite existing files.
    """
    from adaptok.generation.produce import generate_files

    with progress_bar("generating") as progress:
        report = generate_files(
            studio.director("tiny-ar"),
            class_,
            num,
            out,
            sampling,
            seed=studio.seed,
            batch=batch,
            fps=fps,
            overwrite=force,
            progress=progress,
        )
    tell(f"{report.samples} samples, {report.tokens} tokens ({report.tokens / report.blocks:.1f} per block): {out}")
