"""Training of tokenizers, scorers and generators.

Start at curriculum.py, data_settings.py and settings.py; then the data (listing, frames, augment, clips), the model
(start, objective, codebook, processes, sharding, learner), checkpoint and loop. run.py holds the doors. Generators
learn from tokens instead of videos: generator_settings.py, tokenize.py and token_corpus.py, generator_recipe.py.
"""

from adaptok.training.generator_settings import GeneratorTraining
from adaptok.training.loop import Outcome
from adaptok.training.recipes import load_recipe, recipe_names, recipe_yaml
from adaptok.training.run import train_generator, train_scorer, train_tokenizer
from adaptok.training.settings import ScorerTraining, TokenizerTraining
from adaptok.training.tokenize import TokenizeConfig, tokenize

__all__ = [
    "GeneratorTraining",
    "Outcome",
    "ScorerTraining",
    "TokenizeConfig",
    "TokenizerTraining",
    "load_recipe",
    "recipe_names",
    "recipe_yaml",
    "tokenize",
    "train_generator",
    "train_scorer",
    "train_tokenizer",
]
