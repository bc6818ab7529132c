"""Training of tokenizers, scorers and generators.

Start at curriculum.py, data_settings.py and settings.py; then the data (listing, frames, augment, clips), the model
(start, objective, codebook, processes, sharding, learner), checkpoint and loop. run.py holds the doors. Generators
learn from tokens instead of videos: generator_settings.py, tokenize.py and token_corpus.py, generator_recipe.py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adaptok.training.generator_settings import GeneratorTraining
from adaptok.training.pace import in_steps
from adaptok.training.recipes import load_recipe, recipe_names, recipe_yaml
from adaptok.training.settings import ScorerTraining, TokenizerTraining
from adaptok.training.tokenize import TokenizeConfig, tokenize

if TYPE_CHECKING:
    from adaptok.training.loop import Outcome
    from adaptok.training.run import train_generator, train_scorer, train_tokenizer

__all__ = [
    "GeneratorTraining",
    "Outcome",
    "ScorerTraining",
    "TokenizeConfig",
    "TokenizerTraining",
    "in_steps",
    "load_recipe",
    "recipe_names",
    "recipe_yaml",
    "tokenize",
    "train_generator",
    "train_scorer",
    "train_tokenizer",
]

_HOMES = {"Outcome": "loop", "train_generator": "run", "train_scorer": "run", "train_tokenizer": "run"}


def __getattr__(name: str) -> Any:
    """What needs Lightning Fabric is imported on first use: only training does."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"adaptok.training.{_HOMES[name]}"), name)
