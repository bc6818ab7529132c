"""What the training of a generator is, as frozen dataclasses.

In: numbers from a recipe's YAML (read by recipes.py). Out: values that fit together. How many blocks, tokens, codes and
classes there are is said by the token corpus, not by the recipe. Next on the walk: token_corpus.py.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from adaptok.config import Strict
from adaptok.generation.config import LlamaConfig
from adaptok.training.curriculum import need, need_share
from adaptok.training.settings import OptimizerConfig, RunConfig


@dataclass(frozen=True, kw_only=True)
class TokenDataConfig(Strict):
    """Where token sequences come from."""

    corpus: Path
    """A folder that `adaptok tokenize` wrote."""
    train_split: str = "train"
    val_split: str = "val"
    val_clips: int = 64
    balance: bool = False
    """Show every class equally often, clips of rare ones again and again; otherwise every clip is."""

    def __post_init__(self) -> None:
        need(self.val_clips >= 1, f"data: val_clips must be at least 1, got {self.val_clips}")


@dataclass(frozen=True, kw_only=True)
class GeneratorTraining(Strict):
    """The recipe of a generator."""

    name: str = "generator"
    transformer: LlamaConfig
    """Its size; a preset's name stands for that preset's."""
    condition: Literal["class", "frames"] = "class"
    """What it is told: the class, or the first frames (the corpus then has their tokens: `tokenize --context 5`)."""
    class_dropout: float = 0.1
    """Share of samples that are shown without their class, so that guidance has something to compare with."""
    data: TokenDataConfig
    tokenizer: Path | None = None
    """Folder of the tokenizer, or an embedded model's name; where it is given, validation shows samples."""
    code_rows: bool = False
    """Embeddings and scores of codes are computed from the tokenizer's code vectors by a small network, learnt in their
    place, so that codes that look alike are treated alike. For few clips, and for many codes; needs `tokenizer`."""
    slots: bool = False
    """Whether places are the tokenizer's slots: what a token tells of then shows in its place, however long the blocks
    before it are. Else ids are counted, as published."""
    samples: int = 4
    """Samples in the picture."""
    batch: int = 64
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(rate=6e-4, betas=(0.9, 0.95), weight_decay=0.05, decay="linear")
    )
    run: RunConfig

    def __post_init__(self) -> None:
        need_share(class_dropout=self.class_dropout)
        need(min(self.batch, self.samples) >= 1, "batch and samples must be at least 1")
        need(bool(self.name), "name must not be empty")
        need(not self.code_rows or self.tokenizer is not None, "code_rows needs tokenizer, whose code vectors it reads")
        self.run.need_equal_parts(self.batch)
