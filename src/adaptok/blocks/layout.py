"""Where every row of a sequence belongs, and what each attention call reads.

In: tokens of consecutive blocks, block after block, each block one segment per role (a `Chunk`).
Out: a `Plan`: which rows query, which rows they attend to, which rows are kept for later blocks; it is derived
from the network's visibility table and nothing else. Next on the walk: memory.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.blocks.visibility import Reach, Role, Visibility
from adaptok.shapes import Present, Tokens

Rows = tuple[slice, ...]
"""Disjoint slices of a sequence in ascending order, neighbours merged."""


@dataclass(frozen=True)
class Segment:
    """The rows of one role in one block; `block` counts from the start of the clip."""

    role: Role
    block: int
    size: int


@dataclass(frozen=True)
class Chunk:
    """Tokens of `blocks` consecutive blocks. `present` is None where no row is padding."""

    tokens: Tokens
    segments: tuple[Segment, ...]
    blocks: int
    present: Present | None = None

    def of(self, role: Role) -> Float[Tensor, "B _ D"]:
        """The rows of one role, in order."""
        return take(self.tokens, rows_where(self.segments, lambda s: s.role is role), dim=1)

    def only(self, roles: frozenset[Role], tokens: Tokens) -> "Chunk":
        """The chunk that remains when only these roles were computed, as `tokens`."""
        rows = rows_where(self.segments, lambda s: s.role in roles)
        return replace(
            self,
            tokens=tokens,
            segments=tuple(s for s in self.segments if s.role in roles),
            present=None if self.present is None else take(self.present, rows, dim=1),
        )


@dataclass(frozen=True)
class Call:
    """One attention call: query rows among the asked ones, key rows of [memory, chunk]."""

    queries: slice
    keys: Rows
    prefix: bool
    """The queries are the last keys, and each sees only itself and earlier rows."""
    present: Present | None
    """Which keys are real; None where all are."""


@dataclass(frozen=True)
class Plan:
    """Everything a layer needs to know about causality for one chunk, and what is left for the next."""

    asked: Rows
    """Rows of the chunk that query and are computed further."""
    calls: tuple[Call, ...]
    remembered: Rows
    """Rows of [memory, chunk] that later blocks may see ..."""
    left: tuple[Segment, ...]
    """... the segments they belong to ..."""
    left_present: Present | None
    """... and which of them are real."""


def rows_where(segments: Iterable[Segment], keep: Callable[[Segment], bool]) -> Rows:
    """Slices of the segments to keep, neighbours merged."""
    rows: list[slice] = []
    start = 0
    for segment in segments:
        stop = start + segment.size
        if keep(segment) and segment.size:
            if rows and rows[-1].stop == start:
                rows[-1] = slice(rows[-1].start, stop)
            else:
                rows.append(slice(start, stop))
        start = stop
    return tuple(rows)


def take(x: Tensor, rows: Rows, dim: int) -> Tensor:
    """Rows of `x` along `dim`: a view where they are one run, a copy where they are not."""
    parts = [x.narrow(dim, r.start, r.stop - r.start) for r in rows]
    if not parts:
        return x.narrow(dim, 0, 0)
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def make_plan(
    visibility: Visibility,
    chunk: Chunk,
    past: tuple[Segment, ...],
    past_present: Present | None,
    ask: frozenset[Role],
) -> Plan:
    """Derive the attention calls of a chunk that follows the remembered segments `past`."""
    everything = (*past, *chunk.segments)
    present = _join_present(past, past_present, chunk)
    calls: list[Call] = []
    start = 0
    for query in chunk.segments:
        if query.role not in ask or query.size == 0:
            continue
        queries = slice(start, start + query.size)
        start = queries.stop
        keys = rows_where(everything, partial(_seen_by, visibility, query))
        prefix = visibility.reach(query.role, query.role) is Reach.PREFIX
        if calls and calls[-1].keys == keys and not prefix:
            calls[-1] = replace(calls[-1], queries=slice(calls[-1].queries.start, queries.stop))
        else:
            calls.append(Call(queries, keys, prefix, None if present is None else take(present, keys, dim=1)))
    remembered = rows_where(everything, lambda s: s.role in visibility.remembered)
    return Plan(
        asked=rows_where(chunk.segments, lambda s: s.role in ask),
        calls=tuple(calls),
        remembered=remembered,
        left=tuple(s for s in everything if s.role in visibility.remembered),
        left_present=None if present is None else take(present, remembered, dim=1),
    )


def _seen_by(visibility: Visibility, query: Segment, key: Segment) -> bool:
    return visibility.sees(query.role, query.block, key.role, key.block)


def _join_present(past: tuple[Segment, ...], past_present: Present | None, chunk: Chunk) -> Present | None:
    if past_present is None and chunk.present is None:
        return None
    real = partial(torch.ones, dtype=torch.bool, device=chunk.tokens.device)
    batch, rows, _ = chunk.tokens.shape
    before = real(batch, sum(s.size for s in past)) if past_present is None else past_present
    here = real(batch, rows) if chunk.present is None else chunk.present
    return torch.cat([before, here], dim=1)
