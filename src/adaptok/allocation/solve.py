"""In: losses of rows at candidate lengths, a total. Out: the lengths with the least loss that add up to the total.

This is a multiple-choice knapsack with an equality constraint; the answer is always optimal (docs/allocation.md has
the proof). Three stages: `hull.relax` prices tokens, `core` lists the moves that could improve on those prices, and
`search.best_moves` finds the best set of them. Next on the walk: `ipal`, the strategy that wraps this.
"""

import operator
from functools import cache
from types import ModuleType
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.feasible import InfeasibleTotal, candidate_range, nearest_totals

LARGEST_LOSS = 1e280
LARGEST_TOTAL = 2**60
LARGEST_REACH = 2_000_000
"""Spans times shifts up to which the cost of reaching every deviation is worked out."""
MANY_MOVES = 256
"""Moves from which on that is worth it, or sixteen times as many where a solution is known."""
TINY = 1e-300


@cache
def kernels() -> tuple[ModuleType, ModuleType, ModuleType]:
    """The modules `hull`, `core` and `search`."""
    # Imported on first use: loading the compiler takes half a second that `import adaptok` should not.
    from adaptok.allocation import core, hull, search

    return hull, core, search


@no_type_check
def solve(
    loss: Float[np.ndarray, "R S"],
    lengths: Int[np.ndarray, " S"],
    total: int,
    equality: bool = True,
    *,
    lower: int | Int[np.ndarray, " R"] | None = None,
    upper: int | Int[np.ndarray, " R"] | None = None,
) -> Int[np.ndarray, " R"]:
    """Lengths, one per row, whose losses add up to the least and which add up to `total`.

    Args:
        loss: loss[r, s] is the loss of row r at lengths[s]: any finite numbers, in any order.
        lengths: strictly increasing candidate lengths, in tokens, at any spacing.
        total: tokens to spend.
        equality: spend exactly `total`; if False, at most `total`.
        lower: shortest length a row may get, one number or one per row.
        upper: longest length a row may get, likewise.

    Raises:
        InfeasibleTotal: (a ValueError) no choice adds up to `total`; states the range and the nearest totals.
        ValueError: malformed input.
    """
    loss, lengths = check_losses(loss, lengths)
    try:
        total = operator.index(total)
    except TypeError:
        raise ValueError(f"total must be an integer number of tokens, got {total!r}") from None
    low, high = candidate_range(lengths, loss.shape[0], lower, upper)
    lowest, highest = int(lengths[low].sum()), int(lengths[high].sum())
    choice = None
    if total >= lowest and (total <= highest or not equality):
        step = int(np.gcd.reduce(np.diff(lengths))) if lengths.size > 1 else 1
        need, rest = divmod(min(total, highest) - lowest, step)
        if rest == 0 or not equality:
            weight = (lengths - lengths[0]) // step
            choice = best_choice(loss, weight, low, high, need, bool(equality))
    if choice is None:
        below, above = nearest_totals(lengths, low, high, total)
        raise InfeasibleTotal(total, loss.shape[0], lowest, highest, below, above)
    return lengths[choice]


@no_type_check
def check_losses(
    loss: Float[np.ndarray, "R S"], lengths: Int[np.ndarray, " S"]
) -> tuple[Float[np.ndarray, "R S"], Int[np.ndarray, " S"]]:
    """The losses as contiguous float64 and the lengths as int64, or a ValueError that names what is wrong."""
    loss, lengths = np.asarray(loss), np.asarray(lengths)
    if lengths.ndim != 1 or lengths.size == 0 or lengths.dtype.kind not in "iu":
        raise ValueError(f"lengths must be integers of shape (S,), got {lengths.dtype} of shape {lengths.shape}")
    if loss.ndim != 2 or loss.shape[0] == 0 or loss.shape[1] != lengths.size or loss.dtype.kind not in "fiu":
        raise ValueError(
            f"loss must be numbers of shape (R, {lengths.size}) with R >= 1, to go with {lengths.size} lengths; "
            f"got {loss.dtype} of shape {loss.shape}"
        )
    lengths = lengths.astype(np.int64)
    if lengths[0] < 0 or (lengths[1:] <= lengths[:-1]).any():
        raise ValueError(f"lengths must be non-negative and strictly increasing, got {lengths.tolist()!r:.80}")
    if loss.shape[0] * int(lengths[-1]) > LARGEST_TOTAL:
        raise ValueError(f"{loss.shape[0]} rows of up to {lengths[-1]} tokens exceed the limit of 2**60 in total")
    # A read-only array is another type to the compiler, and would cost a compilation of its own.
    loss = np.require(loss, np.float64, ["C", "W"])
    if not (loss.min() >= -LARGEST_LOSS and loss.max() <= LARGEST_LOSS):
        row, column = np.argwhere(~(np.abs(loss) <= LARGEST_LOSS))[0].tolist()
        raise ValueError(
            f"losses must be finite (at most {LARGEST_LOSS:g} in size); "
            f"row {row} at length {lengths[column]} has {loss[row, column]}"
        )
    return loss, lengths


@no_type_check
def best_choice(
    loss: Float[np.ndarray, "R S"],
    weight: Int[np.ndarray, " S"],
    low: Int[np.ndarray, " R"],
    high: Int[np.ndarray, " R"],
    need: int,
    equality: bool,
) -> Int[np.ndarray, " R"] | None:
    """Optimal candidate of each row when `need` tokens are spent beyond every row's first; None if none fits."""
    hull, core, _ = kernels()
    price, base, unspent = hull.relax(loss, weight, low, high, need, equality)
    if unspent == 0 or (price == 0 and not equality):
        return base
    problem = (loss, weight, low, high, price, base)
    number, values = core.number_shifts(weight)
    cap, pair, cheapest = core.two_moves(*problem, unspent, number, values)
    if not equality and price * unspent <= cap:
        cap, pair = price * unspent, pair[:0]
    known = np.isfinite(cheapest) & (values != 0)
    span = int(weight[-1])
    affordable = span * np.count_nonzero(known) <= LARGEST_REACH
    scale = abs(price) * span
    reach, least = np.zeros(1), 0.0
    guessed = not np.isfinite(cap)
    if guessed:
        # Two moves do not reach the total: the cap is a guess, raised until a solution below it is found.
        cap = max(_few_lie_below(cheapest), 64 * core.ROUNDING * scale, TINY)
    while True:
        cut = cap - core.ROUNDING * (scale + cap)
        row, to, shift, change, regret = core.moves_below(*problem, cut)
        if reach.size == 1 and affordable and row.size > (MANY_MOVES if guessed else 16 * MANY_MOVES):
            reach = core.reach_costs(values[known], cheapest[known], span, np.inf if equality else price)
            least = reach[reach.size // 2 + unspent]
            if guessed and cap < 1.01 * least < np.inf:
                cap = 1.01 * least
                continue
        if np.isinf(least):
            return None
        moves = _best_moves(row, shift, change, regret, price, unspent, cap, cut, equality, reach)
        if moves.size:
            base[row[moves]] = to[moves]
            return base
        if not guessed:
            for r, j in pair[pair[:, 0] >= 0]:
                base[r] = j
            return base
        if row.size == int((high - low).sum()) and regret.sum() < cut:
            return None
        cap = max(least + 4 * (cap - least), 1.01 * cap) if least > 0 else cap * (4 if row.size < 64 else 1.5)


@no_type_check
def _best_moves(row, shift, change, regret, price, unspent, cap, cut, equality, reach):
    """The moves of the best solution below `cut`, out of those that could be part of one."""
    _, core, search = kernels()
    if row.size == 0:
        return row
    some = core.undominated(row, shift, regret, unspent, cap)
    if reach.size > 1:
        some = some[regret[some] + reach[reach.size // 2 + unspent - shift[some]] < cut]
    start, rate, far = search.moving_rows(row[some], shift[some], regret[some])
    order = np.argsort(rate.min(axis=1), kind="stable")
    rounding = cap - cut
    return some[
        search.best_moves(
            shift[some], change[some], start, rate, far, order, price, unspent, cap, rounding, equality, reach
        )
    ]


def _few_lie_below(regret: Float[np.ndarray, " I"]) -> float:
    real = np.sort(regret[np.isfinite(regret) & (regret > 0)])
    return float(real[:16][-1]) if real.size else 0.0
