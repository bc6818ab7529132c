"""`adaptok train tokenizer`, `adaptok train scorer` and `adaptok train generator`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import tyro

if TYPE_CHECKING:
    from adaptok.training import Outcome

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What every training takes."""

    recipe: tyro.conf.Positional[str]
    """A recipe's name or a YAML file."""
    out: tyro.conf.Positional[Path]
    """Folder of the run; its sub-folders `best` and `last` are models to open."""
    changes: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="FIELD=VALUE")] = ()
    """Changes to the recipe, such as data.source=videos run.steps=1000."""
    steps: int | None = None
    """Steps of the run; everything in the recipe that happens at a step moves in proportion, which
    `--set run.steps=N` alone does not do. As the recipe says where not given."""
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Go on from `last`, exactly where it stopped."""
    max_minutes: float | None = None
    """Save and end after this time."""

    def start(self, kind: type[S], train: Callable[[S, Path, bool, float | None], "Outcome"]) -> None:
        """Train by a recipe of this kind, and say how it ended."""
        from rich.console import Console

        from adaptok.training import in_steps, load_recipe

        # S is one of the three trainings below, whose classes are imported late.
        settings = in_steps(load_recipe(kind, self.recipe, self.changes), self.steps)  # type: ignore[type-var]
        outcome = train(settings, self.out, self.resume, self.max_minutes)
        text = f"{outcome.reason} after {outcome.progress.step} steps: {self.out}"
        Console(soft_wrap=True, highlight=False).print(text, markup=False)


def train() -> None:
    """Train a model: `adaptok train tokenizer`, `adaptok train scorer` or `adaptok train generator`."""


def train_tokenizer(run: Annotated[Run, tyro.conf.arg(name="")]) -> None:
    """Train a tokenizer on a folder of videos."""
    from adaptok.training import TokenizerTraining, train_tokenizer

    run.start(TokenizerTraining, train_tokenizer)


def train_scorer(run: Annotated[Run, tyro.conf.arg(name="")]) -> None:
    """Train a scorer for a trained tokenizer, which is not changed; its models hold both."""
    from adaptok.training import ScorerTraining, train_scorer

    run.start(ScorerTraining, train_scorer)


def train_generator(run: Annotated[Run, tyro.conf.arg(name="")]) -> None:
    """Train a generator on a token corpus that `adaptok tokenize` made."""
    from adaptok.training import GeneratorTraining, train_generator

    run.start(GeneratorTraining, train_generator)
