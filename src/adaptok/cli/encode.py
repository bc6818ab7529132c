"""`adaptok encode`: a video to a token stream."""

from typing import Annotated

import tyro

from adaptok.cli.options import Allocate, Machine, Raw, Source, Target, progress_bar, tell


def encode(
    source: Source,
    target: Target,
    *,
    spend: Annotated[Allocate, tyro.conf.arg(name="")] = Allocate(),
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine(),
    raw: Annotated[Raw, tyro.conf.arg(name="")] = Raw(),
    scores: bool = False,
    entropy: bool = False,
    batch: int = 1,
    force: bool = False,
) -> None:
    """Encode a video into an .adtk token stream.

    Args:
        source: A video file, an image folder, or - for raw RGB frames on standard input.
        target: Where the stream goes; - for standard output.
        spend: Tokens to spend.
        machine: The model and where it runs.
        raw: What raw input looks like.
        scores: Store predicted scores too, two bytes each, so that the stream can be cut optimally later.
        entropy: Pack codes more tightly under the model's prior; slow, and readable only where it computes the same.
        batch: Clips to encode side by side, which is faster offline; for scope clip.
        force: Overwrite an existing file.
    """
    from adaptok.stream.convert import encode_file

    codec = machine.codec()
    spending = spend.spending(codec)
    with progress_bar("encoding") as progress:
        report = encode_file(
            codec,
            source,
            target,
            spending,
            raw=raw.video(),
            overwrite=force,
            with_scores=scores,
            entropy=entropy,
            batch=batch,
            progress=progress,
        )
    for note in report.notes:
        tell(f"note: {note}")
    bits = report.tokens * codec.bits_per_token / report.seconds
    tell(
        f"{report.frames} frames, {report.blocks} blocks, {report.tokens} tokens "
        f"({report.tokens / report.blocks:.1f} per block, {bits / 1000:.2f} kbit/s)"
    )
