"""`adaptok decode`: a token stream to a video."""

from typing import Annotated

import tyro

from adaptok.cli.options import Machine, Source, Target, progress_bar, tell


def decode(
    source: Source,
    target: Target,
    *,
    machine: Annotated[Machine, tyro.conf.arg(name="")] = Machine(),
    force: bool = False,
) -> None:
    """Decode an .adtk token stream into a video.

    Args:
        source: An .adtk file, or - for standard input.
        target: A video file (.mp4, .mkv, .webm, .gif), a folder for PNG images, or - for raw RGB on standard output.
        machine: The model and where it runs; it must be the one that wrote the stream.
        force: Overwrite an existing file.
    """
    from adaptok.stream.convert import decode_file

    with progress_bar("decoding") as progress:
        report = decode_file(machine.codec(), source, target, overwrite=force, progress=progress)
    for note in report.notes:
        tell(f"warning: {note}")
    tell(f"{report.frames} frames from {report.blocks} blocks, {report.tokens} tokens")
