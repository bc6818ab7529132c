"""Cut, not re-encode: fewer tokens out of an existing stream, without the model.

In: a stream's header and blocks, a budget. Out: the same blocks with shorter tails. Where the stream stores scores the
new lengths are optimal under them, else the longest blocks are cut first. Blocks of a clip share the budget; a total is
shared by the whole stream.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np
from jaxtyping import Int

from adaptok.allocation import Budget, InfeasibleTotal, Pace, ScoreTable, solve
from adaptok.allocation.budget import fewest_tokens
from adaptok.stream.block import TokenBlock
from adaptok.stream.codec import describe
from adaptok.stream.convert import open_stream, write_stream
from adaptok.stream.header import StreamHeader


def truncate(blocks: Iterable[TokenBlock], header: StreamHeader, budget: Budget) -> Iterator[TokenBlock]:
    """The blocks of a stream, cut clip by clip to the budget."""
    pace = pace_of(header)
    clips = (
        [list(blocks)]
        if budget.total is not None
        else (list(clip) for _, clip in groupby(blocks, key=lambda block: block.index // header.blocks))
    )
    for clip in clips:
        for block, kept in zip(clip, _lengths(clip, header, budget, pace), strict=True):
            yield replace(block, codes=block.codes[:kept])


def pace_of(header: StreamHeader) -> Pace:
    """How the blocks of a stream relate to time and bits."""
    return Pace(fps=float(header.fps), frames_per_block=header.frames_per_block, bits_per_token=header.code_bits)


def truncate_file(
    source: str, target: str, budget_for: Callable[[float], Budget], *, overwrite: bool = False
) -> tuple[int, int, int | None, str | None]:
    """Cut a stream (or `-`) into another; tokens before, after and allowed, and what was lost to damage.

    `budget_for` makes the budget, given half of the tokens a block can have as the default average.
    """
    with open_stream(source) as reader:
        header = reader.header
        budget = budget_for(header.tokens / 2)
        before, clips = 0, dict[int, int]()

        def counted() -> Iterator[TokenBlock]:
            nonlocal before
            for block in reader:
                before += block.kept
                clips[block.index // header.blocks] = clips.get(block.index // header.blocks, 0) + 1
                yield block

        shorter = truncate(counted(), header, budget)
        after = write_stream(shorter, replace(header, budget=describe(budget)), target, overwrite).tokens
        pace = pace_of(header)
        allowed = budget.total
        if allowed is None and budget.quality is None:
            allowed = sum(budget.tokens_for(blocks, pace) for blocks in clips.values())
        return before, after, allowed, reader.damage


def _lengths(clip: list[TokenBlock], header: StreamHeader, budget: Budget, pace: Pace) -> Int[np.ndarray, " R"]:
    have = np.array([block.kept for block in clip], dtype=np.int64)
    rows = [block.scores for block in clip if block.scores is not None]
    if len(rows) == len(clip) and header.candidates:
        return _by_scores(np.stack(rows).astype(np.float64), have, header, budget, pace)
    if budget.quality is not None:
        raise ValueError("a quality budget needs scores, and this stream stores none")
    upper = have if budget.max_per_block is None else np.minimum(have, budget.max_per_block)
    lower = np.minimum(upper, budget.min_per_block or 0)
    return level(lower, upper, budget.tokens_for(len(clip), pace))


def _by_scores(
    loss: np.ndarray, have: Int[np.ndarray, " R"], header: StreamHeader, budget: Budget, pace: Pace
) -> Int[np.ndarray, " R"]:
    """The best candidate lengths no longer than what is there; blocks already shorter than all of them stay whole."""
    lengths = np.asarray(header.candidates)
    kept = have.copy()
    rows = np.flatnonzero(have >= budget.bounds(lengths)[0])
    if not len(rows):
        return kept
    table = ScoreTable(loss=loss[rows], lengths=lengths, video=np.zeros_like(rows), block=rows)
    low, high = budget.bounds(lengths)
    upper = np.minimum(have[rows], high)
    if budget.quality is not None:
        total = fewest_tokens(table, budget.quality, low, upper)
    else:
        total = budget.tokens_for(len(have), pace) - int(have.sum() - have[rows].sum())
    if total < low * len(rows):
        raise ValueError(f"a budget of {total} tokens for {len(rows)} blocks is below the least, {low} each")
    longest = lengths[np.searchsorted(lengths, upper, side="right") - 1]
    total = min(total, int(longest.sum()))
    try:
        kept[rows] = solve(table.loss, lengths, total, lower=low, upper=upper)
    except InfeasibleTotal as error:
        if error.below is None:
            raise
        kept[rows] = solve(table.loss, lengths, error.below, lower=low, upper=upper)
    return kept


def level(lower: Int[np.ndarray, " R"], upper: Int[np.ndarray, " R"], total: int) -> Int[np.ndarray, " R"]:
    """The most even lengths within the bounds that add up to `total`, or to all there is if that is less."""
    if total < int(lower.sum()):
        raise ValueError(f"a budget of {total} tokens is below the least for these blocks, {int(lower.sum())}")
    total = min(total, int(upper.sum()))
    few, many = 0, int(upper.max(initial=0))
    while few < many:
        middle = (few + many + 1) // 2
        if int(np.clip(middle, lower, upper).sum()) <= total:
            few = middle
        else:
            many = middle - 1
    kept = np.clip(few, lower, upper)
    spare = total - int(kept.sum())
    kept[np.flatnonzero((kept < upper) & (kept == few))[:spare]] += 1
    return kept
