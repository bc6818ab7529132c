"""The adaptive token corpus: Parquet files that hold what a tokenizer made of videos, once and for all.

In: rows of one part of a split. Out: whole files `SPLIT/part-00000.parquet`, and from all of them arrays to learn from.
Each file says in its metadata which tokenizer wrote it and how many parts there are, so that tokens of another model, a
missing part or a cut file are noticed before training. Next on the walk: tokenize.py, which makes the rows.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from pydantic import TypeAdapter, ValidationError

from adaptok.config import Strict
from adaptok.generation.sequence import Codes
from adaptok.video import whole_file

FORMAT = "adaptok-tokens-1"
_KEY = b"adaptok"


@dataclass(frozen=True, kw_only=True)
class CorpusFacts(Strict):
    """What the metadata of every part says."""

    format: str = FORMAT
    tokenizer: str
    """Fingerprint."""
    model: str
    blocks: int
    tokens_per_block: int
    codebook_size: int
    candidates: tuple[int, ...]
    """Lengths that the scores belong to."""
    budget: str
    context_frames: int
    """Given frames whose tokens are stored too; 0 where there are none."""
    context_blocks: int
    listing: str
    """Digest of the videos' names, in order, and of how clips are cut."""
    parts: int
    part: int = 0
    skipped: tuple[str, ...] = ()
    """Videos of this part that gave no tokens, and why."""

    def same_run(self, other: "CorpusFacts") -> bool:
        """Whether two parts belong to one corpus."""
        return replace(self, part=0, skipped=()) == replace(other, part=0, skipped=())


@dataclass(frozen=True, eq=False)
class TokenRow:
    """One clip."""

    video: str
    clip: int
    """Number of its first frame."""
    mirrored: bool
    label: str
    lengths: Int[np.ndarray, " K"]
    codes: Codes
    """Kept codes, block after block."""
    scores: np.ndarray
    """Predicted losses, K times as many as there are candidate lengths."""
    context: Codes
    """All codes of the given frames' blocks; none where there is no context."""


def part_path(folder: Path, split: str, part: int) -> Path:
    """Where a part is."""
    return folder / split / f"part-{part:05d}.parquet"


def write_part(path: Path, facts: CorpusFacts, rows: Sequence[TokenRow]) -> None:
    """Write one part, whole or not at all."""
    arrow, parquet = _pyarrow(path)
    fields = {
        "video": arrow.string(),
        "clip": arrow.int32(),
        "mirrored": arrow.bool_(),
        "label": arrow.string(),
        "lengths": arrow.list_(arrow.int32()),
        "codes": arrow.list_(arrow.int32()),
        "scores": arrow.list_(arrow.float32()),
        "context": arrow.list_(arrow.int32()),
    }
    schema = arrow.schema(list(fields.items()), metadata={_KEY: json.dumps(asdict(facts)).encode()})
    columns = {name: arrow.array([getattr(row, name) for row in rows], kind) for name, kind in fields.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, overwrite=True) as file:
        parquet.write_table(arrow.table(columns, schema=schema), file, compression="zstd")


def read_facts(path: Path) -> CorpusFacts:
    """A part's metadata."""
    return _facts(_read(path, lambda parquet: parquet.read_schema(path)).metadata, path)


class TokenCorpus:
    """All clips of one split, in memory."""

    def __init__(self, facts: CorpusFacts, tables: Sequence[Any], source: Path) -> None:
        self.facts = facts
        self.names: tuple[str, ...] = tuple(name for t in tables for name in t["video"].to_pylist())
        self.labels: tuple[str, ...] = tuple(label for t in tables for label in t["label"].to_pylist())
        if not self.names:
            raise ValueError(f"{source} holds no clips")
        self.lengths = _column(tables, "lengths", source, facts.blocks)
        totals = self.lengths.sum(axis=1)
        self._codes, found = _flat(tables, "codes")
        self.context = _column(tables, "context", source, facts.context_blocks * facts.tokens_per_block)
        wrong = np.flatnonzero(found != totals)
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(f"{source}: {self.names[i]} has {found[i]} codes, its blocks say {totals[i]}")
        for what, values, low, high in (
            ("lengths", self.lengths, 1, facts.tokens_per_block),
            ("codes", self._codes, 0, facts.codebook_size - 1),
            ("context codes", self.context, 0, facts.codebook_size - 1),
        ):
            if values.size and not low <= values.min() <= values.max() <= high:
                raise ValueError(f"{source}: {what} are outside {low}..{high}: {values.min()} to {values.max()}")
        self._starts = np.concatenate([[0], np.cumsum(totals)])

    def __len__(self) -> int:
        return len(self.names)

    @property
    def codes(self) -> Codes:
        """Kept codes of all clips."""
        return self._codes

    def blocks(self, clip: int) -> tuple[Codes, ...]:
        """The token blocks of one clip."""
        codes = self._codes[self._starts[clip] : self._starts[clip + 1]]
        return tuple(np.split(codes, np.cumsum(self.lengths[clip])[:-1]))


def open_corpus(folder: Path, split: str) -> TokenCorpus:
    """Read all parts of a split; a missing, foreign or damaged one is an error."""
    first = part_path(folder, split, 0)
    if not first.is_file():
        raise ValueError(f"there is no token corpus at {first.parent}: make one with adaptok tokenize")
    facts = read_facts(first)
    tables = []
    for part in range(facts.parts):
        path = part_path(folder, split, part)
        if not path.is_file():
            raise ValueError(f"{first.parent} has {part} of {facts.parts} parts: adaptok tokenize goes on with it")
        if not facts.same_run(read_facts(path)):
            raise ValueError(f"{path} was not made together with {first}")
        tables.append(_read(path, lambda parquet, path=path: parquet.read_table(path)))
    return TokenCorpus(facts, tables, first.parent)


def _column(tables: Sequence[Any], name: str, source: Path, width: int) -> Int[np.ndarray, "N W"]:
    """A column of lists that all have the same length."""
    values, found = _flat(tables, name)
    if (found != width).any():
        raise ValueError(f"{source}: {name} must have {width} values in every row, found {found.min()}..{found.max()}")
    return values.reshape(len(found), width)


def _flat(tables: Sequence[Any], name: str) -> tuple[Codes, Codes]:
    """All values of a column of lists, and how many each row has."""
    columns = [table[name].combine_chunks() for table in tables]
    values = [np.asarray(column.flatten(), np.int64) for column in columns]
    lengths = [np.asarray(column.value_lengths(), np.int64) for column in columns]
    return np.concatenate(values), np.concatenate(lengths)


def _facts(metadata: Any, path: Path) -> CorpusFacts:
    if not metadata or _KEY not in metadata:
        raise ValueError(f"{path} is Parquet, but not a token corpus of this program")
    try:
        facts = TypeAdapter(CorpusFacts).validate_json(metadata[_KEY])
    except ValidationError as error:
        raise ValueError(f"{path}: its metadata are not those of a token corpus: {error.errors()[0]['msg']}") from None
    if facts.format != FORMAT:
        raise ValueError(f"{path} has format {facts.format!r}, this version reads {FORMAT!r}")
    return facts


def _read(path: Path, how: Any) -> Any:
    arrow, parquet = _pyarrow(path)
    try:
        return how(parquet)
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} is cut short or damaged: {reason}") from None


def _pyarrow(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ValueError(
            f"{path}: token corpora are Parquet, which needs pyarrow (pip install 'adaptok[train]')"
        ) from None
    return pyarrow, parquet
