"""Token blocks to one flat sequence and back, and batches of sequences to learn from.

In: blocks of codes of any lengths and what they are conditioned on. Out: ids in which every block is closed by `end`,
and the blocks again, lengths exactly as they were. A block's length is nowhere else: it is where its end stands.
Next on the walk: generator.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from adaptok.generation.config import GeneratorConfig

Codes = Int[np.ndarray, " _"]
Ids = Int[np.ndarray, " _"]
IGNORED = -100
"""Target of padding; cross-entropy leaves it out."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """What one sample starts from."""

    condition: Ids
    """Ids in front of the sequence: of a class, or of context tokens and their separator."""
    seed: int
    """Everything random in this sample."""
    prefix: tuple[Codes, ...] = ()
    """Blocks that are given; generation goes on after them."""


def class_ids(config: GeneratorConfig, label: int | None) -> Ids:
    """The condition of a class by its number; of no class where None."""
    if not config.classes:
        raise ValueError(f"generator {config.name!r} continues given frames and knows no classes: predict with it")
    number = config.no_class if label is None else label
    if not 0 <= number <= config.no_class:
        raise ValueError(f"class {number} does not exist: this generator knows 0..{len(config.classes) - 1}")
    return np.array([config.outputs + number], np.int64)


def class_number(config: GeneratorConfig, name: str) -> int:
    """A class by its name or its number."""
    if not config.classes:
        raise ValueError(f"generator {config.name!r} continues given frames and knows no classes, so not {name!r}")
    if name in config.classes:
        return config.classes.index(name)
    if name.isdecimal() and int(name) < len(config.classes):
        return int(name)
    shown = ", ".join(config.classes[:8]) + (", ..." if len(config.classes) > 8 else "")
    raise ValueError(f"unknown class {name!r}; there are {len(config.classes)}: {shown}")


def context_ids(config: GeneratorConfig, codes: Int[np.ndarray, "K M"]) -> Ids:
    """The condition of given frames: all tokens of their blocks, then the separator."""
    wanted = (config.context_blocks, config.tokens_per_block)
    if codes.shape != wanted:
        raise ValueError(f"context tokens have shape {codes.shape}, this generator takes {wanted}")
    end = [config.separator_id] if config.separator else []
    return np.concatenate([codes.reshape(-1), np.array(end, codes.dtype)]).astype(np.int64)


def flatten(blocks: Sequence[Codes], config: GeneratorConfig) -> Ids:
    """Blocks one after the other, each closed by `end`."""
    parts: list[np.ndarray] = []
    for block in blocks:
        if not 1 <= len(block) <= config.tokens_per_block:
            raise ValueError(f"a block has {len(block)} tokens, outside 1..{config.tokens_per_block}")
        if block.min() < 0 or block.max() >= config.codebook_size:
            raise ValueError(f"codes must lie in 0..{config.codebook_size - 1}, found {block.min()} to {block.max()}")
        parts += [block, np.array([config.end])]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def unflatten(ids: Ids, config: GeneratorConfig) -> tuple[Codes, ...]:
    """The blocks of a flat sequence; what follows the last `end` is not a block yet and is refused."""
    ends = np.flatnonzero(ids == config.end)
    if len(ids) and (not len(ends) or ends[-1] != len(ids) - 1):
        raise ValueError("the sequence stops inside a block")
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    blocks = tuple(ids[start:end] for start, end in zip(starts, ends, strict=True))
    if any(len(block) == 0 for block in blocks):
        raise ValueError("the sequence has an empty block")
    return blocks


@dataclass(frozen=True)
class SequenceBatch:
    """Sequences side by side, padded at their ends; row t of `targets` is what should follow `inputs[:, :t + 1]`."""

    inputs: Int[Tensor, "B N"]
    targets: Int[Tensor, "B N"]
    """IGNORED inside the condition and in the padding."""

    @property
    def real(self) -> Bool[Tensor, "B N"]:
        """Where there is something to predict."""
        return self.targets != IGNORED

    @property
    def tokens(self) -> int:
        """How many tokens are predicted."""
        return int(self.real.sum())


def make_batch(conditions: Sequence[Ids], sequences: Sequence[Ids]) -> SequenceBatch:
    """Inputs and targets of whole sequences: every token of every one is predicted once, the longest's too."""
    rows = [np.concatenate([c, s]) for c, s in zip(conditions, sequences, strict=True)]
    width = max(len(row) for row in rows) - 1
    inputs = torch.zeros(len(rows), width, dtype=torch.long)
    targets = torch.full((len(rows), width), IGNORED)
    for i, (row, condition) in enumerate(zip(rows, conditions, strict=True)):
        first = len(condition) - 1
        inputs[i, : len(row) - 1] = torch.from_numpy(row[:-1])
        targets[i, first : len(row) - 1] = torch.from_numpy(row[first + 1 :])
    return SequenceBatch(inputs, targets)
