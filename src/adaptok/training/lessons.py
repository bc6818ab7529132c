"""Lessons: clips whose true scores were found once, to be learnt from again and again, and a shelf to keep them on.

In: what a frozen tokenizer made of a batch, and what each length of its blocks really costs. Out: the same from disk,
known by content: model, videos, how they are varied, and how they are judged, but not by which metric. So a run that
goes on finds them again, and a scorer of another metric finds what was judged in passing. Next on the walk:
scorer_recipe.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.shapes import CodeBlocks, Kept, LatentBlocks
from adaptok.store import Record, Store, key_of


@dataclass(frozen=True, eq=False)
class Lesson:
    """Clips of one batch, and what each length of their blocks really costs."""

    names: tuple[str, ...]
    latents: LatentBlocks
    codes: CodeBlocks
    kept: Kept
    """What earlier blocks were cut to when a block was judged."""
    scores: Float[Tensor, "B N S"]
    """Of the one block that was judged, or of all."""


class Shelf:
    """Lessons by number; without a folder it keeps none."""

    def __init__(self, folder: Path | None, content: Sequence[object]) -> None:
        self._store = None if folder is None else Store(folder)
        self._content = tuple(content)

    def read(self, number: int, metric: str, device: torch.device) -> Lesson | None:
        """The lesson as judged by a metric, or None."""
        record = None if self._store is None else self._store.read(self._key(number))
        if record is None or _scores(metric) not in record.tensors:
            return None
        found = [record.tensors[name].to(device) for name in ("latents", "codes", "kept", _scores(metric))]
        return Lesson(tuple(record.facts["names"]), *found)

    def write(self, number: int, lesson: Lesson, scores: Mapping[str, Float[Tensor, "B K S"]]) -> None:
        """Keep a lesson with its scores by all metrics that it was judged by."""
        if self._store is None:
            return
        tensors = {"latents": lesson.latents, "codes": lesson.codes, "kept": lesson.kept}
        tensors |= {_scores(metric): values for metric, values in scores.items()}
        self._store.write(self._key(number), Record(tensors, {"names": lesson.names}))

    def _key(self, number: int) -> str:
        return key_of("lesson", *self._content, number)


def _scores(metric: str) -> str:
    return f"scores-{metric}"
