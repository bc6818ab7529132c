"""In: the relaxation's price, choice and unspent tokens. Out: the choice that is optimal among all integer ones.

A *move* takes one row from its choice at the price (its base) to another candidate. It shifts the total by `delta`
tokens and costs `change + price * delta >= 0` more than the relaxation, the move's regret. With the budget met, the
regrets of the moved rows add up to exactly the distance from the relaxation's bound, so the optimum is the cheapest
set of moves, at most one per row, whose shifts add up to the unspent tokens. The search is `search.best_moves`; this
file prepares it: a first solution from one or two moves caps the regret, and only moves below the cap are searched.

Letters: R rows, S candidates, N moves, I distinct shifts, X deviations around 0. Next on the walk: `search`.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.compiled import compiled

ROUNDING = 2.0**-48
"""Regrets closer than this, relative to the losses and prices they are made of, count as equal."""
FEW_ROWS = 16
"""Up to this many rows are searched as they are."""


def number_shifts(weight: Int[np.ndarray, " S"]) -> tuple[Int[np.ndarray, "S S"], Int[np.ndarray, " I"]]:
    """Number of the shift from candidate b to j, and each number's shift in tokens, ascending."""
    shift = weight[None, :] - weight[:, None]
    span = int(weight[-1])
    if span <= 4 * weight.size**2:
        return shift + span, np.arange(-span, span + 1)
    values, number = np.unique(shift, return_inverse=True)
    return number.reshape(shift.shape), values


@compiled
@no_type_check
def two_moves(
    loss: Float[np.ndarray, "R S"],
    weight: Int[np.ndarray, " S"],
    low: Int[np.ndarray, " R"],
    high: Int[np.ndarray, " R"],
    price: float,
    base: Int[np.ndarray, " R"],
    unspent: int,
    number: Int[np.ndarray, "S S"],
    values: Int[np.ndarray, " I"],
) -> tuple[float, Int[np.ndarray, "2 2"], Float[np.ndarray, " I"]]:
    """Cheapest regret with one or two moved rows, those moves as (row, candidate), and each shift's cheapest regret.

    For every shift the two rows that make it cheapest are kept; pairs of shifts that add up to `unspent` are then
    found by two pointers. A row of -1 stands for no move; the regret is infinite where no pair fits.
    """
    count = values.shape[0]
    cost = np.full((2, count), np.inf)
    row = np.full((2, count), -1)
    to = np.zeros((2, count), np.int64)
    for r in range(loss.shape[0]):
        b = base[r]
        for j in range(low[r], high[r] + 1):
            if j == b:
                continue
            regret = max(loss[r, j] - loss[r, b] + price * (weight[j] - weight[b]), 0.0)
            i = number[b, j]
            if regret < cost[0, i]:
                cost[1, i], row[1, i], to[1, i] = cost[0, i], row[0, i], to[0, i]
                cost[0, i], row[0, i], to[0, i] = regret, r, j
            elif regret < cost[1, i]:
                cost[1, i], row[1, i], to[1, i] = regret, r, j
    cost[0, number[0, 0]] = 0.0
    best = np.inf
    moves = np.full((2, 2), -1)
    i, k = 0, count - 1
    while i < count and k >= 0:
        shift = values[i] + values[k]
        if shift > unspent:
            k -= 1
            continue
        if shift == unspent:
            for x in range(2):
                for y in range(2):
                    apart = row[x, i] != row[y, k] or row[x, i] < 0
                    if apart and cost[x, i] + cost[y, k] < best:
                        best = cost[x, i] + cost[y, k]
                        moves[0, 0], moves[0, 1] = row[x, i], to[x, i]
                        moves[1, 0], moves[1, 1] = row[y, k], to[y, k]
        i += 1
    return best, moves, cost[0]


@compiled
@no_type_check
def moves_below(
    loss: Float[np.ndarray, "R S"],
    weight: Int[np.ndarray, " S"],
    low: Int[np.ndarray, " R"],
    high: Int[np.ndarray, " R"],
    price: float,
    base: Int[np.ndarray, " R"],
    cap: float,
) -> tuple[Int[np.ndarray, " N"], ...]:
    """All moves whose regret is below `cap`, by row: row, candidate moved to, shift, change of the loss, regret."""
    count = 0
    for r in range(loss.shape[0]):
        b = base[r]
        for j in range(low[r], high[r] + 1):
            if j != b and loss[r, j] - loss[r, b] + price * (weight[j] - weight[b]) < cap:
                count += 1
    row, to, shift = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    change, regret = np.empty(count, np.float64), np.empty(count, np.float64)
    n = 0
    for r in range(loss.shape[0]):
        b = base[r]
        for j in range(low[r], high[r] + 1):
            rise = loss[r, j] - loss[r, b]
            cost = rise + price * (weight[j] - weight[b])
            if j != b and cost < cap:
                row[n], to[n], shift[n], change[n], regret[n] = r, j, weight[j] - weight[b], rise, max(cost, 0.0)
                n += 1
    return row, to, shift, change, regret


@compiled
@no_type_check
def reach_costs(
    values: Int[np.ndarray, " I"], cheapest: Float[np.ndarray, " I"], span: int, slack: float
) -> Float[np.ndarray, " X"]:
    """Least regret at which moves could add up to each deviation from -3 to 3 spans, if any row could move repeatedly.

    A bound from below on what is still to pay: it knows which deviations take many moves to make. Exact within two
    spans, as any set of moves can be ordered so that its running sum strays no further than one span beyond its ends.
    `slack` is the regret of leaving one token unspent, infinite where that is not allowed.
    """
    size = 6 * span + 1
    reach = np.full(size, np.inf)
    reach[3 * span] = 0.0
    changed = True
    while changed:
        changed = False
        for way in (1, -1):
            for step in range(size):
                s = step if way > 0 else size - 1 - step
                if reach[s] == np.inf:
                    continue
                if way > 0 and s + 1 < size and reach[s] + slack < reach[s + 1]:
                    reach[s + 1] = reach[s] + slack
                    changed = True
                for i in range(values.shape[0]):
                    t = s + values[i]
                    if values[i] * way > 0 and 0 <= t < size and reach[s] + cheapest[i] < reach[t]:
                        reach[t] = reach[s] + cheapest[i]
                        changed = True
    return reach


def undominated(
    row: Int[np.ndarray, " N"],
    shift: Int[np.ndarray, " N"],
    regret: Float[np.ndarray, " N"],
    unspent: int,
    cap: float,
) -> Int[np.ndarray, " I"]:
    """Indices of the moves worth searching: of each shift only the cheapest few rows, in the order given.

    Some optimum moves few rows. Fewer than max(largest rise, unspent) + largest fall: ordered so that their running
    sum stays between those, no sum can repeat, as the moves between two equal sums could be undone at no cost. And
    no more than have regrets that add up to less than the cap. A shift made by a row that is not among that many
    cheapest could as well be made by one of those that stands still.
    """
    start = np.flatnonzero(np.diff(row, prepend=-1))
    if start.size <= FEW_ROWS:
        return np.arange(row.size)
    cheapest = np.sort(np.minimum.reduceat(regret, start))
    affordable = int(np.searchsorted(np.cumsum(cheapest), cap))
    few = min(affordable, max(int(shift.max()), unspent) - min(int(shift.min()), 0))
    if start.size <= few:
        return np.arange(row.size)
    order = np.lexsort((row, regret, shift))
    first = np.flatnonzero(np.diff(shift[order], prepend=shift[order[0]] - 1))
    rank = np.arange(order.size) - np.repeat(first, np.diff(first, append=order.size))
    return np.sort(order[rank < few])
