"""How good are generated videos, and what does adaptive tokenization do for them?

    python benchmarks/generation_quality.py DATA GENERATOR [GENERATOR ...] [--tokenizer tiny] [--num 96]

Each generator is an embedded one's name or a folder; `NAME=FOLDER` gives it a name in the table. For each: perplexity
per token of held-out clips where the corpus it learnt from is given (`--corpus NAME=FOLDER`), against the uniform and
the unigram distribution; gFVD of `--num` samples against as many real clips of the training split, at the settings
given; tokens per clip and seconds. The real clips against other real ones are the floor, real clips through the
tokenizer what a perfect generator could reach. Intervals are by bootstrap over videos, as of any FVD here; what another
training run or other samples would give, they do not tell. Classes are drawn as often as they occur. Writes
results/generation_quality.json; with `--picture` also pictures of samples, not chosen: docs/images/generation.png of
the first generator of classes, a row per class; docs/images/prediction.png of the first one of first frames, held-out
clips and what it makes of them in rows by turns.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import adaptok
import machine
from adaptok.evaluation.bootstrap import draws, interval, resampled_distances
from adaptok.evaluation.clips import content_of, read_windows, spread
from adaptok.generation import Director, Generator, Prompt, Sampling, open_generator
from adaptok.generation.predict import context_prompt
from adaptok.metrics import I3D, frechet_distance
from adaptok.metrics.fvd import FewSamplesWarning
from adaptok.metrics.i3d import by_twos
from adaptok.stream.codec import Codec
from adaptok.training.generator_recipe import Sequences
from adaptok.training.generator_validation import unigram_loss, validate_generator
from adaptok.training.listing import Entry, list_videos
from adaptok.training.token_corpus import open_corpus
from adaptok.video import VideoError, to_video

IMAGES = Path(__file__).parents[1] / "docs" / "images"
RESAMPLES = 1000


class Real(NamedTuple):
    """A window of a video."""

    label: str
    images: np.ndarray
    """(T,H,W,3)"""
    video: str


Clips = list[Real]


def real_clips(
    data: Path,
    codec: Codec,
    split: str,
    count: int | None = None,
    windows: int = 1,
    which: Callable[[Entry], bool] = lambda _: True,
) -> Clips:
    """Windows of the videos of a split (of `count` of them, then of those wanted), so many of each."""
    found: Clips = []
    for entry in filter(which, spread(list_videos(data, split), count)):
        try:
            read = read_windows(entry, content_of(entry), codec.geometry, windows, 0)
        except VideoError:  # shorter than a clip
            continue
        found += [Real(entry.label, window.images, entry.name) for window in read]
    return found


@torch.inference_mode()
def features(network: I3D, videos: Sequence[np.ndarray], what: str) -> torch.Tensor:
    """Logits of every video."""
    parts = track(list(by_twos(videos)), what, console=Console(stderr=True), transient=True)
    return torch.cat([network(torch.cat([to_video(video) for video in part])) for part in parts])


def prompts(director: Director, clips: Clips, context: int) -> list[Prompt]:
    """A prompt per real clip: its class, or its first frames."""
    config = director.config
    if config.classes:
        numbers = {name: i for i, name in enumerate(config.classes)}
        return director.prompts([numbers.get(clip.label) for clip in clips], seed=0)
    return [context_prompt(director, clip.images[:context], None, i) for i, clip in enumerate(clips)]


def surprise(generator: Generator, folder: Path, clips: int) -> dict[str, float]:
    """Perplexity of held-out clips, as training's validation reports it."""
    train, val = open_corpus(folder, "train"), open_corpus(folder, "val")
    sequences = Sequences(val, generator.config)
    chosen = [i * len(val) // min(clips, len(val)) for i in range(min(clips, len(val)))]
    batches = [sequences.batch(chosen[i : i + 16]).sequences for i in range(0, len(chosen), 16)]
    unigram = unigram_loss(train, val, chosen, generator.config)
    values = validate_generator(generator, batches, unigram, None, []).values
    tokens = float(np.mean([len(np.concatenate(val.blocks(i))) for i in chosen])) + generator.config.blocks
    return {**values, "bits_per_clip": tokens * values["bits_per_token"], "train_clips": len(train)}


def generated(
    director: Director, clips: Clips, sampling: Sampling, context: int
) -> tuple[list[np.ndarray], dict[str, float]]:
    """A sample for each clip, and what it took; frames that were given stay as they were."""
    begin = time.perf_counter()
    takes = list(director.takes(prompts(director, clips, context), sampling, batch=32))
    taken = time.perf_counter() - begin
    tokens = sum(int(stream.kept.sum()) for take in takes for stream in take.tokens)
    takes.sort(key=lambda take: take.sample)
    given = 0 if director.config.classes else context
    pairs = zip(clips, takes, strict=True)
    return [np.concatenate([clip.images[:given], take.frames[given:]]) for clip, take in pairs], {
        "tokens_per_clip": tokens / len(takes),
        "tokens_per_second": tokens / taken,
        "seconds_per_clip": taken / len(takes),
    }


@dataclass(frozen=True, eq=False)
class Distance:
    """An FVD, and what it is when the videos are drawn again."""

    value: float
    resampled: np.ndarray

    @property
    def estimate(self) -> list[float]:
        """The value and its interval."""
        return [self.value, *interval(self.value, self.resampled)]

    def less(self, other: "Distance") -> list[float]:
        """The difference to another one against the same real clips, with the interval of that difference."""
        return Distance(self.value - other.value, self.resampled - other.resampled).estimate


@dataclass(frozen=True, eq=False)
class Yardstick:
    """Real clips of the training split: some to compare with, as many others whose classes or frames are prompts."""

    network: I3D
    known: torch.Tensor
    """I3D's logits of `real`."""
    real: Clips
    other: Clips
    """Of the same videos one by one, where videos give two clips."""

    @classmethod
    def of(cls, data: Path, codec: Codec, num: int, windows: int = 1) -> "Yardstick":
        """`num` clips of each kind, at most `windows` of a video; a ValueError where there are not enough."""
        everything, network = real_clips(data, codec, "train", windows=windows), I3D()
        pairs = list(zip(everything[::2], everything[1::2], strict=False))
        if len(pairs) < num:
            raise ValueError(
                f"--num {num} needs twice as many clips, there are {len(everything)}; --windows gives more"
            )
        order = np.random.default_rng(0).permutation(len(pairs))[:num]
        real, other = ([pairs[i][k] for i in order] for k in range(2))
        return cls(network, features(network, [clip.images for clip in real], "real clips"), real, other)

    @cached_property
    def counts(self) -> np.ndarray:
        """How often each clip occurs when the videos are drawn again."""
        _, videos = np.unique([clip.video for clip in self.other], return_inverse=True)
        return draws(videos, RESAMPLES, seed=0)

    def distance(self, videos: Sequence[np.ndarray], what: str) -> Distance:
        """FVD of as many videos against the real clips."""
        found = features(self.network, videos, what)
        return Distance(frechet_distance(self.known, found), resampled_distances(self.known, found, self.counts))

    @cached_property
    def apart(self) -> Distance:
        """What other real clips have; the same for every tokenizer."""
        return self.distance([clip.images for clip in self.other], "other clips")

    def row(self, name: str, director: Director, sampling: Sampling, context: int) -> tuple[dict[str, Any], Distance]:
        """The gFVD of a generator's samples, its size, and what sampling took; the gFVD once more as it is."""
        videos, row = generated(director, self.other, sampling, context)
        size = sum(p.numel() for p in director.generator.parameters())
        found = self.distance(videos, name)
        return {**row, "gfvd": found.estimate, "parameters": size}, found


def picture(director: Director, sampling: Sampling, samples: int = 4, frames: int = 4) -> np.ndarray:
    """A row per class: some frames of the first samples side by side."""
    rows = []
    for number in range(len(director.config.classes)):
        prompts = director.prompts([number] * samples, seed=0)
        takes = sorted(director.takes(prompts, sampling, batch=samples), key=lambda take: take.sample)
        shown = [t.frames[len(t.frames) // frames // 2 :: len(t.frames) // frames] for t in takes]
        gap = np.full((shown[0].shape[1], 6, 3), 255, np.uint8)
        rows.append(np.concatenate([part for video in shown for part in (*video, gap)][:-1], axis=1))
    return np.concatenate(rows)


def prediction(director: Director, clips: Clips, sampling: Sampling, context: int, frames: int = 8) -> np.ndarray:
    """Two rows per clip: some of its frames, and those of the sample that begins like it; given ones are framed."""
    samples, _ = generated(director, clips, sampling, context)
    rows = []
    for clip, sample in zip(clips, samples, strict=True):
        for video in (clip.images, sample):
            chosen = range(0, len(video), len(video) // frames)
            shown = [np.pad(video[i], ((2, 2), (2, 2), (0, 0)), constant_values=255) for i in chosen]
            for image in shown[: -(-context // (len(video) // frames))]:
                image[[0, 1, -2, -1]] = image[:, [0, 1, -2, -1]] = (230, 140, 20)
            rows.append(np.concatenate(shown, axis=1))
    return np.concatenate(rows)


def draw(director: Director, options: argparse.Namespace, sampling: Sampling, drawn: set[str]) -> None:
    """The picture of the first generator of each kind."""
    from matplotlib.image import imsave

    kind = "generation" if director.config.classes else "prediction"
    if kind in drawn:
        return
    drawn.add(kind)
    if director.config.classes:
        image = picture(director, sampling)
    else:
        held_out = real_clips(options.data, director.codec, "val", count=4)
        image = prediction(director, held_out, sampling, options.context)
    imsave(IMAGES / f"{kind}.png", image)


def rounded(value: float | list[float], digits: int) -> float | list[float]:
    """A number, or an estimate with its interval, to so many digits."""
    return [round(v, digits) for v in value] if isinstance(value, list) else round(value, digits)


def named(text: str) -> tuple[str, str]:
    name, _, folder = text.rpartition("=")
    return name or Path(folder).name, folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("generators", nargs="+", metavar="[NAME=]GENERATOR")
    parser.add_argument("--corpus", nargs="*", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--tokenizer", default="tiny")
    parser.add_argument("--num", type=int, default=96)
    parser.add_argument("--windows", type=int, default=1, help="clips of each video, for data of few videos")
    parser.add_argument("--val-clips", type=int, default=128)
    parser.add_argument("--context", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--guidance", type=float, default=1.0)
    parser.add_argument("--name", default="generation_quality", help="of the result file")
    parser.add_argument("--picture", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", FewSamplesWarning)
    codec, corpora = adaptok.load(options.tokenizer), dict(map(named, options.corpus))
    try:
        yardstick = Yardstick.of(options.data, codec, options.num, options.windows)
    except ValueError as error:
        parser.error(str(error))
    through = yardstick.distance([codec.reconstruct(clip.images) for clip in yardstick.real], "through the tokenizer")
    floor = {"other real clips": yardstick.apart.estimate, "the same, through the tokenizer": through.estimate}
    rows: dict[str, Any] = {}
    drawn: set[str] = set()
    for name, folder in map(named, options.generators):
        generator = open_generator(folder)
        guidance = options.guidance if generator.config.classes else 1.0
        sampling = Sampling(temperature=options.temperature, top_p=options.top_p, guidance=guidance)
        director = Director(generator, codec)
        if options.picture:
            draw(director, options, sampling, drawn)
        row, _ = yardstick.row(name, director, sampling, options.context)
        if name in corpora:
            row |= surprise(generator, Path(corpora[name]), options.val_clips)
        rows[name] = {key: rounded(value, 3) for key, value in row.items()}
    columns = ("gfvd", "tokens_per_clip", "perplexity", "perplexity_unigram", "perplexity_uniform", "bits_per_clip")
    table = Table("generator", *columns)
    for name, row in rows.items():
        table.add_row(name, *(f"{rounded(row[c], 1)}" if c in row else "" for c in columns))
    floor = {name: rounded(value, 1) for name, value in floor.items()}
    Console().print(table, json.dumps(floor))
    machine.save(
        options.name,
        {
            **machine.describe(),
            "tokenizer": codec.fingerprint,
            "clips": options.num,
            "gfvd_of": floor,
            "generators": rows,
        },
    )


if __name__ == "__main__":
    main()
