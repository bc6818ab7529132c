"""The doors of training: settings in, a trained run on disk out.

`train_tokenizer`, `train_scorer` and `train_generator` open the data, start the processes and hand over to the loop.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from lightning_fabric import Fabric
from rich.console import Console
from rich.progress import track

from adaptok.bundle import CONFIG_FILE
from adaptok.load import folder_of
from adaptok.training.data_settings import DataConfig
from adaptok.training.frames import FrameStore, open_store
from adaptok.training.generator_recipe import GeneratorRecipe
from adaptok.training.generator_settings import GeneratorTraining, TokenDataConfig
from adaptok.training.listing import list_videos
from adaptok.training.loop import B, Outcome, Recipe, claim, fit
from adaptok.training.processes import make_fabric
from adaptok.training.scorer_recipe import ScorerRecipe
from adaptok.training.settings import ScorerTraining, TokenizerTraining
from adaptok.training.token_corpus import TokenCorpus, open_corpus
from adaptok.training.tokenizer_recipe import TokenizerRecipe
from adaptok.training.watch import Watch

log = logging.getLogger(__name__)
S = TypeVar("S", TokenizerTraining, ScorerTraining, GeneratorTraining)
D = TypeVar("D")


def train_tokenizer(
    settings: TokenizerTraining, out: Path, resume: bool = False, max_minutes: float | None = None
) -> Outcome:
    """Train a tokenizer into the folder `out`."""
    if settings.initial is not None:
        _need_model(settings.initial, "initial")
    return _train(TokenizerRecipe, settings, partial(open_data, settings.data), out, resume, max_minutes)


def train_scorer(
    settings: ScorerTraining, out: Path, resume: bool = False, max_minutes: float | None = None
) -> Outcome:
    """Train a scorer into the folder `out`, whose models hold the tokenizer too."""
    _need_model(settings.tokenizer, "tokenizer")
    return _train(ScorerRecipe, settings, partial(open_data, settings.data), out, resume, max_minutes)


def train_generator(
    settings: GeneratorTraining, out: Path, resume: bool = False, max_minutes: float | None = None
) -> Outcome:
    """Train a generator into the folder `out` from a corpus that `tokenize` made."""
    if settings.tokenizer is not None:
        _need_model(settings.tokenizer, "tokenizer")
    return _train(GeneratorRecipe, settings, partial(_open_tokens, settings.data), out, resume, max_minutes)


def _train(
    kind: Callable[[S, Fabric, D, D], Recipe[B]],
    settings: S,
    splits: Callable[[Console, float], tuple[D, D]],
    out: Path,
    resume: bool,
    max_minutes: float | None,
) -> Outcome:
    folder = claim(out, resume)
    fabric, console = make_fabric(settings.run), Console(stderr=True)
    recipe = kind(settings, fabric, *splits(console, fabric.global_rank / fabric.world_size))
    watch = Watch(out, settings.run.log_every, console, fabric.is_global_zero)
    return fit(recipe, fabric, folder, watch, resume, max_minutes)


def _need_model(folder: Path, field: str) -> None:
    """Refuse a missing model before the data are decoded, which may take hours."""
    if not (folder_of(folder) / CONFIG_FILE).is_file():
        raise ValueError(f"{field}: {folder} holds no model: there is no {CONFIG_FILE} in it")


def open_data(data: DataConfig, console: Console, begin: float = 0.0) -> tuple[FrameStore, FrameStore]:
    """Frames of both splits; what the cache lacks is decoded now, with progress, beginning at a share of the list."""

    def show(items: Iterable[Path | None], total: int) -> Iterable[Path | None]:
        return track(items, "decoding", total, console=console, disable=not console.is_terminal, transient=True)

    def store(split: str) -> FrameStore:
        entries = list_videos(data.source, split)
        first = int(begin * len(entries))
        return open_store(entries, data.cache, data.cache_folder, data.short_side, data.workers, first, show)

    train, val = store(data.train_split), store(data.val_split)
    if both := set(train.entries) & set(val.entries):
        log.warning("%d of %d validation videos are trained on: %s has no splits", len(both), len(val), data.source)
    return train, val


def _open_tokens(data: TokenDataConfig, _console: Console, _begin: float) -> tuple[TokenCorpus, TokenCorpus]:
    """Both splits of a token corpus, which is read at once: there is no work to show or to share."""
    train, val = open_corpus(data.corpus, data.train_split), open_corpus(data.corpus, data.val_split)
    if both := set(train.names) & set(val.names):
        log.warning("%d videos of %s are trained on and validated on: it has no splits", len(both), data.corpus)
    return train, val
