"""The door of the demo: a clip in, a folder to look at out.

In: a codec and a video, the bundled one if none is given. Out: tokens.png, side_by_side.mp4, index.html and a token
stream per budget, in one folder, and the same as a `Demo`. The command line calls this and prints the table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path

import numpy as np

from adaptok.allocation.truth import BlockLoss, block_loss
from adaptok.config import ScorerConfig
from adaptok.demo.figure import figure
from adaptok.demo.film import write_film
from adaptok.demo.page import page, stream_name
from adaptok.demo.passage import Passage, Shown, passage
from adaptok.metrics import LPIPS
from adaptok.metrics.weights import CATALOGUE
from adaptok.stream.codec import Codec
from adaptok.video import OutputError, VideoError, centre_cropped, open_video, whole_file

SHARES = (8, 4, 2)
"""Budgets: one n-th of all tokens each."""
MOST_FRAMES = 240
"""A longer video is cut here: a demo is to be looked at, and all of it is in memory."""


@dataclass(frozen=True, eq=False)
class Demo:
    """What was made."""

    clip: Shown
    passages: tuple[Passage, ...]
    folder: Path
    note: str


def sample_clip(codec: Codec) -> Shown:
    """The bundled clip: Big Buck Bunny, see samples/CREDITS.md."""
    with as_file(files("adaptok") / "samples" / "big_buck_bunny.mp4") as path:
        return _read(path, "Big Buck Bunny (© Blender Foundation, CC BY 3.0)", codec)


def make_demo(
    codec: Codec,
    folder: Path | str,
    video: Path | str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Demo:
    """Encode at three budgets, decode, and write everything into `folder`."""
    folder = Path(folder)
    clip = sample_clip(codec) if video is None else _read(Path(video), Path(video).name, codec)
    true_loss, note = _true_loss(codec.bundle.config.scorer)
    m, frames = codec.geometry.tokens_per_block, codec.geometry.block_frames
    passages = []
    for done, share in enumerate(SHARES):
        passages.append(passage(codec, clip, m / share, true_loss))
        if progress is not None:
            progress(done + 1, len(SHARES))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    for one in passages:
        one.tokens.save(folder / stream_name(one), scores=True, overwrite=True)
    write_film(folder / "side_by_side.mp4", clip, passages, frames, m)
    texts = {
        "tokens.png": figure(clip, passages, frames, m),
        "index.html": page(codec.bundle.config.name, clip, passages, note).encode(),
    }
    for name, data in texts.items():
        with whole_file(folder / name, overwrite=True) as file:
            file.write(data)
    return Demo(clip, tuple(passages), folder, note)


def _read(path: Path, name: str, codec: Codec) -> Shown:
    """The first seconds of a video, cut to the model's size from the centre."""
    g = codec.geometry
    with open_video(path) as video:
        images = [centre_cropped(frame.image[None], g.height, g.width) for frame in islice(video, MOST_FRAMES)]
        fps = video.info.fps
    if not images:
        raise VideoError(f"{path} has no frames")
    return Shown(name, np.concatenate(images), fps)


def _true_loss(scorer: ScorerConfig | None) -> tuple[BlockLoss | None, str]:
    """What the scorer predicts; LPIPS only where its weights are on this machine already: a demo fetches nothing."""
    metric = "perceptual" if scorer is None else scorer.metric
    if metric != "perceptual":
        return block_loss(metric), ""
    if not CATALOGUE["lpips-alex"].path.is_file():
        return None, "True scores need LPIPS: adaptok weights --fetch lpips-alex, then again."
    return block_loss(metric, LPIPS("alex")), ""
