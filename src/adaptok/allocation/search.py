"""In: moves with shifts and regrets, a cap. Out: the cheapest set of moves whose shifts add up to the unspent tokens.

A dynamic program over the *deviation* of the running total from the relaxation's path, row by row, cheapest regret
per token first. It keeps a deviation only while its cost plus a bound on what the rest must still cost stays below
the best complete solution. The table is indexed by the deviation itself where that fits, and hashed otherwise.

Letters: N moves, grouped by row; C rows that have moves; Z slots of the table. Next on the walk: back in `solve`.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.compiled import compiled

EMPTY = -(2**62)
"""Marks a free slot: no deviation is this large."""
SMALL = 1 << 14
"""Slots to begin with; a table that needs more grows."""


@compiled
@no_type_check
def moving_rows(
    row: Int[np.ndarray, " N"], shift: Int[np.ndarray, " N"], regret: Float[np.ndarray, " N"]
) -> tuple[Int[np.ndarray, " C+1"], Float[np.ndarray, "C 2"], Int[np.ndarray, "C 2"]]:
    """Where each row's moves start; its cheapest regret per token and its furthest shift, for rises and falls."""
    rows = 0
    for n in range(row.shape[0]):
        rows += n == 0 or row[n] != row[n - 1]
    start = np.zeros(rows + 1, np.int64)
    rate = np.full((rows, 2), np.inf)
    far = np.zeros((rows, 2), np.int64)
    c = -1
    for n in range(row.shape[0]):
        if n == 0 or row[n] != row[n - 1]:
            c += 1
        start[c + 1] = n + 1
        way, tokens = (0, shift[n]) if shift[n] > 0 else (1, -shift[n])
        rate[c, way] = min(rate[c, way], regret[n] / tokens)
        far[c, way] = max(far[c, way], tokens)
    return start, rate, far


@compiled
@no_type_check
def slot_of(keys: Int[np.ndarray, " Z"], key: int, direct: bool) -> int:
    """Slot that holds `key` or is free for it; `direct` tables are as wide as the range of keys."""
    mask = keys.shape[0] - 1
    if direct:
        return key & mask
    slot = (((key & 0x7FFFFFFF) * 1327217885) >> 20) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + 1) & mask
    return slot


@compiled
@no_type_check
def new_table(size: int) -> tuple[Int[np.ndarray, "4 Z"], Float[np.ndarray, "2 Z"]]:
    """An empty table: (keys, moves picked, live slots, fresh slots) and (costs, offers)."""
    slots = np.zeros((4, size), np.int64)
    for slot in range(size):
        slots[0, slot] = EMPTY
    return slots, np.full((2, size), np.inf)


@compiled
@no_type_check
def moved_table(
    slots: Int[np.ndarray, "4 Z"], costs: Float[np.ndarray, "2 Z"], lives: int, news: int, size: int, direct: bool
) -> tuple[Int[np.ndarray, "4 Y"], Float[np.ndarray, "2 Y"], int]:
    """The table's live and fresh entries in a table of `size` slots, and how many of them are used."""
    new_slots, new_costs = new_table(size)
    used = 0
    for a in range(lives + news):
        kind, i = (2, a) if a < lives else (3, a - lives)
        old = slots[kind, i]
        slot = slot_of(new_slots[0], slots[0, old], direct)
        used += new_slots[0, slot] == EMPTY
        new_slots[0, slot], new_slots[1, slot] = slots[0, old], slots[1, old]
        new_costs[0, slot], new_costs[1, slot] = costs[0, old], costs[1, old]
        new_slots[kind, i] = slot
    return new_slots, new_costs, used


@compiled
@no_type_check
def hopeless(
    cost: float,
    key: int,
    price: float,
    unspent: int,
    ahead: tuple[float, float, int, int, float],
    reach: Float[np.ndarray, " X"],
) -> bool:
    """Whether no solution through deviation `key` at `cost` reaches the total below the cut.

    `ahead` describes the rows still to come: their cheapest regret per token risen and fallen, the lowest and the
    highest deviation from which they can reach the total, and the cut itself. `reach` is from `core.reach_costs`.
    """
    up, down, lowest, highest, cut = ahead
    if key < lowest or key > highest:
        return True
    miss = unspent - key
    rest = 0.0
    if miss > 0:
        rest = miss * up
    elif miss < 0:
        rest = -miss * down
    if 3 * abs(miss) < reach.shape[0]:
        rest = max(rest, reach[reach.shape[0] // 2 + miss])
    return cost + price * key + rest >= cut


@compiled
@no_type_check
def extend(
    slots: Int[np.ndarray, "4 Z"],
    costs: Float[np.ndarray, "2 Z"],
    lives: int,
    news: int,
    direct: bool,
    move: tuple[int, int, float],
    price: float,
    unspent: int,
    ahead: tuple[float, float, int, int, float],
    reach: Float[np.ndarray, " X"],
) -> tuple[int, int]:
    """Offer one move (number, shift, change) to every live deviation; offers made so far, and slots newly used."""
    number, shift, change = move
    keys, picks, live, fresh, cost, offer = slots[0], slots[1], slots[2], slots[3], costs[0], costs[1]
    used = 0
    for a in range(lives):
        key = keys[live[a]] + shift
        total = cost[live[a]] + change
        if hopeless(total, key, price, unspent, ahead, reach):
            continue
        slot = slot_of(keys, key, direct)
        used += keys[slot] != key
        keys[slot] = key
        if total < cost[slot] and total < offer[slot]:
            if offer[slot] == np.inf:
                fresh[news] = slot
                news += 1
            offer[slot], picks[slot] = total, number
    return news, used


@compiled
@no_type_check
def weed(
    slots: Int[np.ndarray, "4 Z"],
    costs: Float[np.ndarray, "2 Z"],
    lives: int,
    price: float,
    unspent: int,
    ahead: tuple[float, float, int, int, float],
    reach: Float[np.ndarray, " X"],
) -> int:
    """Drop live deviations without hope; how many stay."""
    kept = 0
    for a in range(lives):
        slot = slots[2, a]
        if hopeless(costs[0, slot], slots[0, slot], price, unspent, ahead, reach):
            costs[0, slot] = np.inf
        else:
            slots[2, kept] = slot
            kept += 1
    return kept


@compiled
@no_type_check
def longer(array: Int[np.ndarray, "2 L"], size: int) -> Int[np.ndarray, "2 M"]:
    """A copy with room for `size` columns."""
    copy = np.empty((2, size), np.int64)
    for i in range(array.shape[1]):
        copy[0, i], copy[1, i] = array[0, i], array[1, i]
    return copy


@compiled
@no_type_check
def best_moves(
    shift: Int[np.ndarray, " N"],
    change: Float[np.ndarray, " N"],
    start: Int[np.ndarray, " C+1"],
    rate: Float[np.ndarray, "C 2"],
    far: Int[np.ndarray, "C 2"],
    order: Int[np.ndarray, " C"],
    price: float,
    unspent: int,
    cap: float,
    rounding: float,
    equality: bool,
    reach: Float[np.ndarray, " X"],
) -> Int[np.ndarray, " M"]:
    """Indices of the cheapest set of moves, at most one per row; none if no set stays below `cap`.

    `change` is the loss a move adds; sums of it, free of the price, are what the table compares. Without `equality`
    the shifts may add up to less than `unspent`; every token left over then has a regret of `price`. Rows are taken
    in `order`; what the rows from each one on can do, and at what regret per token, gives one bound, `reach` another.
    """
    rows = order.shape[0]
    rest_rate = np.full((2, rows + 1), np.inf)
    rest_far = np.zeros((2, rows + 1), np.int64)
    for c in range(rows - 1, -1, -1):
        for way in range(2):
            rest_rate[way, c] = min(rest_rate[way, c + 1], rate[order[c], way])
            rest_far[way, c] = rest_far[way, c + 1] + far[order[c], way]
    lowest = max(-rest_far[1, 0], unspent - rest_far[0, 0]) if equality else -rest_far[1, 0]
    span = max(min(rest_far[0, 0], unspent + rest_far[1, 0]), 0) - min(lowest, 0)
    size = 2
    while size <= span and size < SMALL:
        size *= 2
    direct = size > span
    slots, costs = new_table(size)
    first = slot_of(slots[0], 0, direct)
    slots[0, first], slots[2, 0], costs[0, first] = 0, first, 0.0
    lives, used = 1, 1
    log = np.empty((2, 256), np.int64)  # every improvement, as (deviation, move), to trace the best one back
    log_end = np.zeros(rows + 1, np.int64)
    logged = 0
    best, best_key, best_row = cap, 0, -1
    for c in range(rows):
        up = rest_rate[0, c + 1] if equality else min(rest_rate[0, c + 1], price)
        down = rest_rate[1, c + 1]
        lowest = unspent - rest_far[0, c + 1] if equality else EMPTY
        highest = unspent + rest_far[1, c + 1]
        ahead = (up, down, lowest, highest, best - rounding)
        news = 0
        for n in range(start[order[c]], start[order[c] + 1]):
            if not direct and 2 * (used + lives) > size:
                while size <= span and size < 8 * (used + lives):
                    size *= 2
                direct = size > span
                slots, costs, used = moved_table(slots, costs, lives, news, size, direct)
            move = (n, shift[n], change[n])
            news, more = extend(slots, costs, lives, news, direct, move, price, unspent, ahead, reach)
            used += more
        if logged + news > log.shape[1]:
            log = longer(log, 2 * (logged + news))
        for a in range(news):
            slot = slots[3, a]
            key, total = slots[0, slot], costs[1, slot]
            if costs[0, slot] == np.inf:
                slots[2, lives] = slot
                lives += 1
            costs[0, slot], costs[1, slot] = total, np.inf
            log[0, logged], log[1, logged] = key, slots[1, slot]
            logged += 1
            met = key == unspent or (not equality and key < unspent)
            if met and total + price * unspent < best:
                best, best_key, best_row = total + price * unspent, key, c
        log_end[c + 1] = logged
        lives = weed(slots, costs, lives, price, unspent, (up, down, lowest, highest, best - rounding), reach)
        if lives == 0:
            break
    return trace(log, log_end, shift, best_key, best_row)


@compiled
@no_type_check
def trace(
    log: Int[np.ndarray, "2 L"], log_end: Int[np.ndarray, " C+1"], shift: Int[np.ndarray, " N"], key: int, row: int
) -> Int[np.ndarray, " M"]:
    """The moves that led to deviation `key` after row number `row`."""
    moves = np.empty(row + 1, np.int64)
    count = 0
    for c in range(row, -1, -1):
        for a in range(log_end[c], log_end[c + 1]):
            if log[0, a] == key:
                moves[count] = log[1, a]
                key -= shift[log[1, a]]
                count += 1
                break
    return moves[:count]
