"""In: losses of rows at candidate weights. Out: the price of a token at which rows, choosing freely, spend the budget.

This is the Lagrangian relaxation of the allocation problem. Each row's losses are replaced by their lower convex
hull; its edges are offers "`width` more tokens lower the loss by `gain` each". Taking the best offers of all rows
until the budget is spent is optimal for the hulls; `price` is the gain of the offer at which the budget runs out.
Next on the walk: `core`, which closes the gap between this relaxation and the integer optimum.

Letters: R rows, S candidates, N hull edges of all rows. A row may use candidates low[r]..high[r], both included.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from adaptok.allocation.compiled import compiled


@compiled
@no_type_check
def hull_edges(
    loss: Float[np.ndarray, "R S"],
    weight: Int[np.ndarray, " S"],
    low: Int[np.ndarray, " R"],
    high: Int[np.ndarray, " R"],
) -> tuple[Int[np.ndarray, " R+1"], Float[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Edges of every row's lower convex hull: where each row's edges start, their gain per token, their end.

    Within a row gains never increase. Points on an edge stay vertices, so ties can be spent in small steps.
    """
    rows = loss.shape[0]
    start = np.zeros(rows + 1, np.int64)
    for r in range(rows):
        start[r + 1] = start[r] + high[r] - low[r]
    gain = np.empty(start[rows], np.float64)
    end = np.empty(start[rows], np.int64)
    top = 0
    for r in range(rows):
        first = top
        start[r] = first
        for j in range(low[r] + 1, high[r] + 1):
            tail = end[top - 1] if top > first else low[r]
            slope = (loss[r, tail] - loss[r, j]) / (weight[j] - weight[tail])
            while top > first and slope > gain[top - 1]:
                top -= 1
                tail = end[top - 1] if top > first else low[r]
                slope = (loss[r, tail] - loss[r, j]) / (weight[j] - weight[tail])
            gain[top] = slope
            end[top] = j
            top += 1
    start[rows] = top
    return start, gain[:top], end[:top]


@compiled
@no_type_check
def critical_gain(gain: Float[np.ndarray, " N"], width: Int[np.ndarray, " N"], need: int) -> float:
    """Gain of the offer at which `need` tokens run out when the best offers are taken first (0 < need <= sum).

    Quickselect on weights: linear expected time. Both arrays are reordered.
    """
    left, right, seed = 0, gain.shape[0], 1
    while True:
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        pivot = gain[left + seed % (right - left)]
        above, equal, i, below = 0, 0, left, right
        better = left
        while i < below:
            if gain[i] > pivot:
                above += width[i]
                gain[i], gain[better] = gain[better], gain[i]
                width[i], width[better] = width[better], width[i]
                better += 1
                i += 1
            elif gain[i] < pivot:
                below -= 1
                gain[i], gain[below] = gain[below], gain[i]
                width[i], width[below] = width[below], width[i]
            else:
                equal += width[i]
                i += 1
        if need <= above:
            right = better
        elif need <= above + equal:
            return pivot
        else:
            need -= above + equal
            left = below


@compiled
@no_type_check
def relax(
    loss: Float[np.ndarray, "R S"],
    weight: Int[np.ndarray, " S"],
    low: Int[np.ndarray, " R"],
    high: Int[np.ndarray, " R"],
    need: int,
    equality: bool,
) -> tuple[float, Int[np.ndarray, " R"], int]:
    """Price of a token, each row's choice at that price, and how many of the `need` tokens are then unspent.

    `need` counts tokens beyond every row's lowest candidate, 0 <= need <= what all rows can hold. Offers at exactly
    the price are taken in row order while they fit. Without `equality` offers that do not lower the loss are left.
    """
    start, gain, end = hull_edges(loss, weight, low, high)
    rows = loss.shape[0]
    choice = low.copy()
    width = np.empty(gain.shape[0], np.int64)
    useful = 0
    best, worst = -np.inf, np.inf
    for r in range(rows):
        tail = low[r]
        for e in range(start[r], start[r + 1]):
            width[e] = weight[end[e]] - weight[tail]
            tail = end[e]
            best, worst = max(best, gain[e]), min(worst, gain[e])
            if equality or gain[e] > 0:
                useful += width[e]
    price = 0.0
    if useful > need:
        price = critical_gain(gain.copy(), width.copy(), need) if need > 0 else best
    elif equality and gain.shape[0] > 0:
        price = worst
    left = need
    take_all = useful <= need
    for r in range(rows):
        for e in range(start[r], start[r + 1]):
            if gain[e] > price or (take_all and equality):
                left -= width[e]
                choice[r] = end[e]
    for r in range(rows):
        for e in range(start[r], start[r + 1]):
            if gain[e] == price and choice[r] < end[e] and (equality or price > 0):
                if width[e] > left:
                    break
                left -= width[e]
                choice[r] = end[e]
    return price, choice, left
