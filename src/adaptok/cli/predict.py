"""`adaptok predict`: what may follow the first frames of a video."""

from typing import Annotated

import tyro

from adaptok.cli.options import Source, Studio, Target, tell
from adaptok.generation.settings import Sampling


def predict(
    source: Source,
    target: Target,
    *,
    context: int = 5,
    frames: int | None = None,
    class_: Annotated[str | None, tyro.conf.arg(name="class", metavar="NAME|N")] = None,
    sampling: Annotated[Sampling, tyro.conf.arg(name="")] = Sampling(),
    studio: Annotated[Studio, tyro.conf.arg(name="")] = Studio(),
    force: bool = False,
) -> None:
    """Continue the first frames of a video; they themselves stay as they are.

    Args:
        source: A video file or an image folder.
        target: The video to write: the given frames, then the predicted ones.
        context: Frames to take from the source.
        frames: Frames of the result, given ones included; those of a clip if not given.
        class_: Class to continue with, for generators of classes; anything if not given.
        sampling: How to sample.
        studio: The models and where they run.
        force: Overwrite an existing file.
    """
    from adaptok.generation.produce import predict_file

    count = predict_file(
        studio.director("tiny-fp"),
        source,
        target,
        sampling,
        context=context,
        total=frames,
        label=class_,
        seed=studio.seed,
        overwrite=force,
    )
    tell(f"{context} frames given, {count - context} predicted: {target}")
