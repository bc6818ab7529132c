"""Batches of clips, the same for any number of workers and processes.

In: a `FrameStore`. Out: `Batch`es without end, from any step on. A sample's content depends on (seed, epoch, index) and
nothing else; which samples a step gets depends on how many came before it. So a run that is resumed needs to know only
its step. Next on the walk: start.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from adaptok.shapes import Video
from adaptok.training.augment import ClipBytes, training_clip, validation_clip
from adaptok.training.curriculum import Stage, samples_before, stage_at
from adaptok.training.data_settings import AugmentConfig
from adaptok.training.frames import FrameStore
from adaptok.training.listing import labels


class Draw(NamedTuple):
    """Which sample: a video, by its number, as it looks in this epoch, in so many frames."""

    epoch: int
    video: int
    frames: int


@dataclass(frozen=True)
class Sample:
    """One clip and where it came from."""

    clip: ClipBytes
    label: int
    name: str


@dataclass(frozen=True)
class Batch:
    """Clips (B,3,T,H,W) as bytes, labels and the names of their videos."""

    clips: UInt8[Tensor, "B 3 T H W"]
    labels: Int[Tensor, " B"]
    names: tuple[str, ...]

    def video(self, device: torch.device) -> Video:
        """The clips as the model takes them."""
        return self.clips.to(device).float() / 255

    def parts(self, count: int) -> list["Batch"]:
        """The batch cut into `count` pieces of equal size."""
        if len(self.names) % count:
            raise ValueError(f"a batch of {len(self.names)} clips cannot be computed in {count} equal parts")
        size = len(self.names) // count
        cuts = [slice(i * size, (i + 1) * size) for i in range(count)]
        return [Batch(self.clips[cut], self.labels[cut], self.names[cut]) for cut in cuts]


class Clips(Dataset[Sample]):
    """Random clips of a list of videos."""

    def __init__(self, store: FrameStore, size: tuple[int, int], augment: AugmentConfig, seed: int) -> None:
        self.store = store
        self.size = size
        self.augment = augment
        self.seed = seed
        self._labels = labels(store.entries)

    def __getitem__(self, draw: Draw) -> Sample:
        rng = np.random.default_rng([self.seed, draw.epoch, draw.video])
        entry, clip = self.store.cut(
            draw.video, lambda frames: training_clip(frames, draw.frames, self.size, self.augment, rng)
        )
        return Sample(clip, self._labels.index(entry.label), entry.name)


class Order(Sampler[list[Draw]]):
    """The draws of this process, step by step: each epoch is a shuffle, epochs follow each other without a gap."""

    def __init__(
        self, videos: int, stages: Sequence[Stage], block_frames: int, seed: int, first: int, rank: int, ranks: int
    ) -> None:
        self.videos = videos
        self.stages = tuple(stages)
        self.block_frames = block_frames
        self.seed = seed
        self.first = first
        self.rank = rank
        self.ranks = ranks
        for stage in stages:
            if stage.batch % ranks:
                raise ValueError(f"stages: a batch of {stage.batch} cannot be shared by {ranks} processes")

    def __iter__(self) -> Iterator[list[Draw]]:
        step = self.first
        epoch, shuffled = -1, np.zeros(0, np.int64)
        while True:
            stage = stage_at(self.stages, step)
            share = stage.batch // self.ranks
            begin = samples_before(self.stages, step) + self.rank * share
            draws = []
            for position in range(begin, begin + share):
                if position // self.videos != epoch:
                    epoch = position // self.videos
                    shuffled = np.random.default_rng([self.seed, epoch]).permutation(self.videos)
                draws.append(Draw(epoch, int(shuffled[position % self.videos]), stage.blocks * self.block_frames))
            yield draws
            step += 1


def batches(clips: Clips, order: Order, workers: int) -> Iterator[Batch]:
    """Batches without end, from the order's first step."""
    loader = DataLoader(
        clips,
        batch_sampler=order,
        collate_fn=collate,
        num_workers=workers,
        # Workers prepare clips only: more threads than one each would take the model's cores.
        worker_init_fn=_one_thread,
        multiprocessing_context="spawn" if workers else None,
        generator=torch.Generator(),
    )
    return iter(loader)


def collate(samples: list[Sample]) -> Batch:
    """Samples to a batch."""
    return Batch(
        torch.stack([sample.clip for sample in samples]),
        torch.tensor([sample.label for sample in samples]),
        tuple(sample.name for sample in samples),
    )


def some_clips(clips: Clips, count: int, frames: int) -> Batch:
    """`count` random clips that no step of training gets: for principal components and first codebooks."""
    order = np.random.default_rng([clips.seed, 2**32 - 1]).permutation(len(clips.store))
    draws = [Draw(2**32 - 1 - i // len(order), int(order[i % len(order)]), frames) for i in range(count)]
    return collate([clips[draw] for draw in draws])


def validation_batch(
    store: FrameStore, count: int, frames: int, size: tuple[int, int], rank: int = 0, ranks: int = 1
) -> Batch:
    """The middle of at most `count` videos, spread evenly over the list; of these the share of one process.

    All processes get equally many clips: the last video is repeated where the list is too short.
    """
    count = min(count, len(store))
    share = -(-count // ranks)
    numbers = [min(i, count - 1) * len(store) // count for i in range(rank * share, (rank + 1) * share)]
    known = labels(store.entries)
    cut = [store.cut(number, lambda film: validation_clip(film, frames, size)) for number in numbers]
    return collate([Sample(clip, known.index(entry.label), entry.name) for entry, clip in cut])


def _one_thread(_: int) -> None:
    torch.set_num_threads(1)
