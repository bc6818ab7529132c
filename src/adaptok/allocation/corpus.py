"""In: score tables of a corpus, shard by shard. Out: the one price per token at which the corpus spends its budget.

The price is the exact multiplier of the relaxed problem: the gain of the very hull edge at which the budget runs out.
It is found as one finds a median that does not fit into memory: the bits of a positive float order as its value does,
so four passes, each a histogram over the next 16 bits, pin down all of them. A pass needs one summary per shard
(65 536 counters), and summaries add up in any order. Workers then choose for their shards alone.

What is exact: the price, and the bound. What is not: up to one hull edge of tokens stays unspent, and `gap` says what
that can cost at most. The gap does not grow with the corpus, the loss does.
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.budget import Budget, Pace
from adaptok.allocation.problem import ScoreTable
from adaptok.allocation.solve import kernels

DIGIT_BITS = 16
DIGITS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """What one shard, or many, would buy: tokens by the next digit of their gain.

    Attributes:
        prefix: leading digits of the gains that `tokens` is about.
        digits: how many digits that is.
        tokens: tokens on offer at each value of the next digit, below `prefix`.
        rows: blocks summarised.
        lengths: the candidate lengths, the same in all shards.
    """

    prefix: int
    digits: int
    tokens: Int[np.ndarray, " N"]
    rows: int
    lengths: Int[np.ndarray, " S"]

    def __add__(self, other: "Summary") -> "Summary":
        if not np.array_equal(self.lengths, other.lengths):
            raise ValueError(f"shards differ in lengths: {self.lengths.tolist()} and {other.lengths.tolist()}")
        if (self.prefix, self.digits) != (other.prefix, other.digits):
            raise ValueError(f"summaries of different passes do not add up: digits {self.digits}, {other.digits}")
        return replace(
            self,
            tokens=self.tokens + other.tokens,
            rows=self.rows + other.rows,
        )


@dataclass(frozen=True, kw_only=True)
class CorpusPrice:
    """The price of a token, all that workers need.

    Attributes:
        price: loss that a token must save to be bought; 0 where the budget is larger than any use for it.
        total: tokens that the corpus may spend.
        spare: tokens left for offers at exactly the price, after all better ones.
        tied: tokens on offer at exactly the price, by shard.
        lower, upper: bounds on each block's length.
    """

    price: float
    total: int
    spare: int
    tied: tuple[int, ...]
    lower: int
    upper: int

    def gap(self, spent: int) -> float:
        """How much the loss at this price can exceed the optimum, when the shards spent `spent` in total."""
        return self.price * (self.total - spent)

    def choose(self, table: ScoreTable, shard: int) -> Int[np.ndarray, " R"]:
        """Lengths for the rows of shard number `shard`, without a look at any other."""
        start, gain, end, width = _offers(table, self.lower, self.upper)
        quota = min(max(self.spare - sum(self.tied[:shard]), 0), self.tied[shard])
        taken = gain > self.price
        first = np.zeros(gain.size + 1, np.bool_)
        first[start] = True
        for edge in np.flatnonzero(gain == self.price) if self.price > 0 else ():
            if width[edge] <= quota and (first[edge] or taken[edge - 1]):
                taken[edge] = True
                quota -= int(width[edge])
        # Gains never rise within a row, so the edges it takes are its first few.
        counts = np.concatenate([[0], np.cumsum(taken)])
        count = counts[start[1:]] - counts[start[:-1]]
        kept = np.full(table.rows, self.lower)
        some = count > 0
        kept[some] = table.lengths[end[(start[:-1] + count - 1)[some]]]
        return kept


def corpus_price(shards: Iterable[ScoreTable], budget: Budget, pace: Pace | None = None) -> CorpusPrice:
    """The price for all `shards`, which are gone through five times and never held together.

    Four passes find the price, one counts each shard's offers at it. The budget is an average per block, a total or a
    rate per second, for all shards together; at most that is spent.
    """
    lower, upper = _common_bounds(shards, budget)
    prefix, total, spare, price = 0, 0, 0, 0.0
    for digits in range(DIGITS):
        summary = reduce(operator.add, (summarise(shard, prefix, digits, lower, upper) for shard in shards))
        if digits == 0:
            total = budget.tokens_for(summary.rows, pace)
            spare = total - summary.rows * lower
            if spare < 0:
                raise ValueError(
                    f"a budget of {total} tokens for {summary.rows} blocks is below the least they can take, "
                    f"{summary.rows * lower} ({lower} each)"
                )
            if int(summary.tokens.sum()) <= spare:
                break
        digit, spare = narrow(summary, spare)
        prefix = (prefix << DIGIT_BITS) | digit
    else:
        price = float(np.int64(prefix).view(np.float64))
    tied = tuple(_tokens_at(shard, price, lower, upper) for shard in shards)
    return CorpusPrice(price=price, total=total, spare=spare, tied=tied, lower=lower, upper=upper)


def narrow(summary: Summary, spare: int) -> tuple[int, int]:
    """The next digit of the price, and what is left of `spare` tokens after all offers at higher digits."""
    descending = np.cumsum(summary.tokens[::-1])
    place = int(np.searchsorted(descending, max(spare, 1)))
    return summary.tokens.size - 1 - place, spare - (int(descending[place - 1]) if place else 0)


def summarise(table: ScoreTable, prefix: int, digits: int, lower: int, upper: int) -> Summary:
    """One shard's offers whose gain begins with the `digits` leading digits `prefix`, by the digit that follows."""
    _, gain, _, width = _offers(table, lower, upper)
    useful = gain > 0
    key = gain[useful].view(np.int64)
    rest = DIGIT_BITS * (DIGITS - digits)
    inside = key >> rest == prefix if digits else np.ones(key.size, np.bool_)
    digit = (key[inside] >> (rest - DIGIT_BITS)) & (2**DIGIT_BITS - 1)
    tokens = np.zeros(2**DIGIT_BITS, np.int64)
    np.add.at(tokens, digit, width[useful][inside])
    return Summary(prefix=prefix, digits=digits, tokens=tokens, rows=table.rows, lengths=table.lengths)


def _offers(
    table: ScoreTable, lower: int, upper: int
) -> tuple[Int[np.ndarray, " _"], Float[np.ndarray, " N"], Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Hull edges of all rows: where each row's start, and each edge's gain per token, end and width in tokens."""
    hull, _, _ = kernels()
    low = np.full(table.rows, np.searchsorted(table.lengths, lower))
    high = np.full(table.rows, np.searchsorted(table.lengths, upper))
    start, gain, end = hull.hull_edges(table.loss, table.lengths, low, high)
    previous = np.concatenate([low[:1], end[:-1]]) if end.size else end
    previous[start[:-1][np.diff(start) > 0]] = low[0]
    return start, gain, end, table.lengths[end] - table.lengths[previous]


def _tokens_at(table: ScoreTable, price: float, lower: int, upper: int) -> int:
    _, gain, _, width = _offers(table, lower, upper)
    return int(width[gain == price].sum()) if price > 0 else 0


def _common_bounds(shards: Iterable[ScoreTable], budget: Budget) -> tuple[int, int]:
    lengths = next((shard.lengths for shard in shards), None)
    if lengths is None:
        raise ValueError("a corpus needs at least one shard")
    return budget.bounds(lengths)
