"""The one loop: batches through a recipe, with checkpoints, validation, a time limit and a clean end.

In: a `Recipe` (tokenizer_recipe.py, scorer_recipe.py, generator_recipe.py) and a run folder. Out: the trained run on
disk and an `Outcome`. What a step does is the recipe's affair; when it is done, watched, saved and stopped is decided
here.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

import torch
from lightning_fabric import Fabric
from torch import Tensor

from adaptok.training.checkpoint import Model, Progress, RunFolder
from adaptok.training.finite import NotFinite
from adaptok.training.processes import means_over_all, over_all
from adaptok.training.recipes import recipe_yaml
from adaptok.training.settings import RunConfig
from adaptok.training.stop import StopRequest, watch_signals
from adaptok.training.watch import Watch


@dataclass(frozen=True)
class Validation:
    """What a validation found."""

    values: Mapping[str, float]
    quality: float
    """What the best checkpoint is chosen by; higher is better ..."""
    level: int = 0
    """... among those of the highest level: a later part of the curriculum sets a harder task."""
    picture: bytes | None = None
    """A PNG to look at."""


@runtime_checkable
class Batch(Protocol):
    """What the loop must know of a batch."""

    @property
    def names(self) -> tuple[str, ...]:
        """Where its samples came from."""


B = TypeVar("B", bound=Batch)


@runtime_checkable
class Recipe(Protocol[B]):
    """What differs between the models that are trained."""

    run: RunConfig
    steps: int

    @property
    def settings(self) -> object:
        """What `recipe.yaml` says."""

    def batches(self, first: int) -> Iterator[B]:
        """This process's batches from step `first` on."""

    def learn(self, batch: B, step: int) -> Mapping[str, float]:
        """One step; its losses."""

    def validate(self, step: int, /) -> Validation:
        """How good the averaged weights are after `step` steps."""

    def bundle(self) -> Model:
        """A copy of the model with averaged weights."""

    def tensors(self) -> dict[str, Tensor]:
        """All state that a resumed run needs, beyond the step."""

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`."""


@dataclass(frozen=True)
class Outcome:
    """How a sitting ended."""

    progress: Progress
    reason: Literal["finished", "time is up", "asked to stop"]


def fit(
    recipe: Recipe[B], fabric: Fabric, folder: RunFolder, watch: Watch, resume: bool, max_minutes: float | None = None
) -> Outcome:
    """Train until the last step, the time limit or a signal; save in any case."""
    progress = Progress()
    if resume:
        tensors, progress = folder.load()
        _refuse_misfits(tensors, recipe.tensors(), folder.state)
        recipe.restore(tensors)
        if progress.step >= recipe.steps:
            return Outcome(progress, "finished")
    if fabric.is_global_zero:
        folder.write_recipe(recipe_yaml(recipe.settings))
    sitting = _Sitting(recipe, fabric, folder, watch, progress, max_minutes)
    with watch_signals() as stop, watch:
        return sitting.run(stop)


def _refuse_misfits(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], source: Path) -> None:
    """Optimizers have no state before their first step; all else must be there in the same shape."""
    misfits = [name for name in wanted if name not in found or found[name].shape != wanted[name].shape]
    misfits += [name for name in found.keys() - wanted.keys() if "optimizer" not in name.split("/")]
    if misfits:
        more = f" and {len(misfits) - 1} others" if len(misfits) > 1 else ""
        raise ValueError(f"{source} was saved by another recipe: {misfits[0]}{more} does not fit this one")


class _Sitting(Generic[B]):
    """One call of `fit`."""

    def __init__(
        self,
        recipe: Recipe[B],
        fabric: Fabric,
        folder: RunFolder,
        watch: Watch,
        progress: Progress,
        max_minutes: float | None,
    ) -> None:
        self.recipe, self.fabric, self.folder, self.watch = recipe, fabric, folder, watch
        self.first, self.best = progress.step, (progress.best_level, progress.best)
        self.seconds_before = progress.seconds
        self.began = time.monotonic()
        self.limit = float("inf") if max_minutes is None else 60 * max_minutes

    def run(self, stop: StopRequest) -> Outcome:
        recipe, run = self.recipe, self.recipe.run
        self.watch.begin(self.first, recipe.steps)
        batches = recipe.batches(self.first)
        for step in range(self.first, recipe.steps):
            batch = next(batches)
            try:
                values = recipe.learn(batch, step)
            except NotFinite as error:
                self.save(step)
                raise NotFinite(f"{error}; the state before this step is in {self.folder.state.parent}") from None
            done = step + 1
            if self.watch.due(done):
                values = means_over_all(self.fabric, values)
            self.watch.step(done, values, len(batch.names) * self.fabric.world_size, self.seconds())
            last = done == recipe.steps
            if done % run.validate_every == 0 or last:
                self.validate(done)
            ending = self.reason(stop, last)
            if ending is not None or done % run.save_every == 0:
                progress = self.save(done)
            if ending is not None:
                return Outcome(progress, ending)
        raise ValueError(f"the run has {recipe.steps} steps and {self.first} are done: nothing is left to do")

    def reason(self, stop: StopRequest, last: bool) -> Literal["finished", "time is up", "asked to stop"] | None:
        """Why to end now, if at all; all processes end together."""
        if last:
            return "finished"
        wishes = torch.tensor([stop.asked, time.monotonic() - self.began > self.limit], dtype=torch.int)
        wishes = over_all(self.fabric, wishes, "max")
        if wishes[0]:
            return "asked to stop"
        return "time is up" if wishes[1] else None

    def validate(self, done: int) -> None:
        found = self.recipe.validate(done)
        self.watch.validation(done, found.values, found.picture, self.seconds())
        if (found.level, found.quality) > self.best:
            self.best = (found.level, found.quality)
            self._on_first_process(self.folder.save_best)

    def save(self, done: int) -> Progress:
        level, best = self.best
        progress = Progress(step=done, seconds=self.seconds(), best_level=level, best=best)
        tensors = self.recipe.tensors()
        self._on_first_process(lambda bundle: self.folder.save(bundle, tensors, progress))
        return progress

    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.began

    def _on_first_process(self, write: Callable[[Model], None]) -> None:
        bundle = self.recipe.bundle()
        if self.fabric.is_global_zero:
            write(bundle)
        self.fabric.barrier()


def claim(path: Path, resume: bool) -> RunFolder:
    """The folder of a run; an existing run is continued only when asked for."""
    folder = RunFolder(path)
    if folder.state.exists() and not resume:
        raise ValueError(f"{path} holds a run already; resume it, or choose another folder")
    if resume and not folder.state.exists():
        raise ValueError(f"there is nothing to resume: no {folder.state}")
    return folder
