"""Generation into files: samples as videos and token streams, a grid of all, a continued video.

In: a director and paths. Out: files that appear whole or not at all. The command line calls these and adds nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from adaptok.generation.generate import Director
from adaptok.generation.predict import check_context, predict
from adaptok.generation.sequence import class_number
from adaptok.generation.settings import Sampling
from adaptok.stream.codec import Tokens
from adaptok.video import OutputError, VideoError, create_video, open_video
from adaptok.video.output import refuse_existing

Progress = Callable[[int, int | None], None]
Images = UInt8[np.ndarray, "T H W 3"]


@dataclass(frozen=True)
class Report:
    """What was generated."""

    samples: int
    blocks: int
    tokens: int


def generate_files(
    director: Director,
    label: str | None,
    count: int,
    folder: Path,
    sampling: Sampling,
    *,
    seed: int = 0,
    batch: int = 8,
    fps: Fraction | str = "25",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Samples of one class into `sample-000.mp4` and `.adtk` (one per window where they slid), and `grid.mp4`."""
    if count < 1:
        raise ValueError(f"the number of samples must be at least 1, got {count}")
    rate = _rate(fps)
    number = None if label is None else class_number(director.config, label)
    prompts = director.prompts([number] * count, seed)
    sampling.rules(director.config)
    names = [f"sample-{i:03d}" for i in range(count)]
    for name in (*(f"{name}{end}" for name in names for end in (".mp4", ".adtk")), "grid.mp4"):
        refuse_existing(folder / name, overwrite)
    _make(folder)
    videos: list[Images | None] = [None] * count
    blocks, tokens = 0, 0
    for done, take in enumerate(director.takes(prompts, sampling, batch, rate), 1):
        name = names[take.sample]
        write_video(folder / f"{name}.mp4", take.frames, rate, overwrite)
        _save(take.tokens, folder / name, overwrite)
        videos[take.sample] = take.frames
        shared = sampling.rules(director.config).overlap
        new = [stream.kept[shared if window else 0 :] for window, stream in enumerate(take.tokens)]
        blocks += sum(len(kept) for kept in new)
        tokens += sum(int(kept.sum()) for kept in new)
        if progress is not None:
            progress(done, count)
    write_video(folder / "grid.mp4", grid([video for video in videos if video is not None]), rate, overwrite)
    return Report(count, blocks, tokens)


def predict_file(
    director: Director,
    source: str | Path,
    target: str | Path,
    sampling: Sampling,
    *,
    context: int,
    total: int | None = None,
    label: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> int:
    """Continue the first frames of a video into another; how many frames that has."""
    number = None if label is None else class_number(director.config, label)
    refuse_existing(Path(target).resolve(), overwrite)
    frames = director.codec.geometry.frames if total is None else total
    check_context(director, context, context, frames)
    with open_video(source) as video:
        images = [frame.image for frame in islice(video, context)]
        fps = video.info.fps
    if not images:
        raise VideoError(f"{source} has no frames")
    found = predict(director, np.stack(images), sampling, context=context, total=frames, label=number, seed=seed)
    write_video(Path(target), found.frames, fps, overwrite)
    return len(found.frames)


def grid(videos: Sequence[Images], gap: int = 2) -> UInt8[np.ndarray, "T H2 W2 3"]:
    """Videos of one size in rows and columns, about as many of each."""
    columns = math.ceil(math.sqrt(len(videos)))
    rows = math.ceil(len(videos) / columns)
    frames, height, width, _ = videos[0].shape
    out = np.full((frames, rows * (height + gap) - gap, columns * (width + gap) - gap, 3), 255, np.uint8)
    for i, video in enumerate(videos):
        top, left = (i // columns) * (height + gap), (i % columns) * (width + gap)
        out[:, top : top + height, left : left + width] = video
    return out


def write_video(path: Path, frames: Images, fps: Fraction, overwrite: bool) -> None:
    """Frames at a constant rate."""
    height, width = frames.shape[1:3]
    with create_video(path, height=height, width=width, fps=fps, time_base=1 / fps, overwrite=overwrite) as writer:
        for number, image in enumerate(frames):
            writer.write(image, number)


def _save(streams: Sequence[Tokens], path: Path, overwrite: bool) -> None:
    for window, tokens in enumerate(streams):
        end = f"-{window}" if window else ""
        tokens.save(path.with_name(f"{path.name}{end}.adtk"), overwrite=overwrite)


def _rate(fps: Fraction | str) -> Fraction:
    try:
        rate = Fraction(fps)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{fps} is no frame rate; 25 or 30000/1001 are") from None
    if rate <= 0:
        raise ValueError(f"a frame rate must be positive, got {rate}")
    return rate


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
