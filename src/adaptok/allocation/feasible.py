"""In: candidate lengths, bounds, a total. Out: which totals rows can reach at all, and the error that says so.

Ragged candidates leave holes: two rows of lengths 1, 4 or 9 can spend 5 or 8 tokens but not 6 or 7. Used by `solve`
when a total turns out to be infeasible, and by strategies that then settle for the nearest total below.
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Int


class InfeasibleTotal(ValueError):
    """No choice of candidate lengths adds up to the total.

    `lowest` and `highest` bound what the rows can spend; `below` and `above` are the nearest totals that they can,
    None where the total lies beyond that end.
    """

    def __init__(self, total: int, rows: int, lowest: int, highest: int, below: int | None, above: int | None) -> None:
        self.total, self.lowest, self.highest, self.below, self.above = total, lowest, highest, below, above
        near = " and ".join(
            f"{value} ({side})" for value, side in ((below, "below"), (above, "above")) if value is not None
        )
        super().__init__(
            f"{rows} rows cannot spend a total of {total} tokens: they can spend {lowest} to {highest}, "
            f"and the nearest feasible totals are {near}"
        )


def candidate_range(
    lengths: Int[np.ndarray, " S"], rows: int, lower: object, upper: object
) -> tuple[Int[np.ndarray, " R"], Int[np.ndarray, " R"]]:
    """First and last candidate of each row within its bounds, each of which is a number, one per row, or None."""
    if lower is None and upper is None:
        return np.zeros(rows, np.int64), np.full(rows, lengths.size - 1)
    low = np.searchsorted(lengths, _bound("lower", lower, rows, int(lengths[0])), side="left")
    high = np.searchsorted(lengths, _bound("upper", upper, rows, int(lengths[-1])), side="right") - 1
    if (empty := np.flatnonzero(low > high)).size:
        row = int(empty[0])
        raise ValueError(
            f"row {row} has no candidate length between its bounds "
            f"{_bound('lower', lower, rows, int(lengths[0]))[row]} and "
            f"{_bound('upper', upper, rows, int(lengths[-1]))[row]}; candidates are {_brief(lengths)}"
        )
    return low, high


def _bound(name: str, value: object, rows: int, default: int) -> Int[np.ndarray, " R"]:
    bound = np.asarray(default if value is None else value)
    if bound.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, got {bound.dtype} ({value!r:.60})")
    if bound.shape not in ((), (rows,)):
        raise ValueError(f"{name} must be one number or one per row ({rows},), got shape {bound.shape}")
    return np.broadcast_to(bound.astype(np.int64), (rows,))


def _brief(lengths: Int[np.ndarray, " S"]) -> str:
    shown = [str(n) for n in lengths.tolist()]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:3], "...", *shown[-2:]])


@no_type_check
def nearest_totals(
    lengths: Int[np.ndarray, " S"], low: Int[np.ndarray, " R"], high: Int[np.ndarray, " R"], total: int
) -> tuple[int | None, int | None]:
    """Largest feasible total <= `total` and smallest >= `total`; None beyond the ends of the range.

    Totals are kept as the bits of one integer, rows added one by one; from the end of the range nearer to `total`,
    and no further than it: raising one row at a time passes any total by less than the widest gap of candidates.
    """
    lowest, highest = int(lengths[low].sum()), int(lengths[high].sum())
    if total < lowest:
        return None, lowest
    if total > highest:
        return highest, None
    gaps = np.diff(lengths)
    if gaps.size == 0 or (gaps == gaps[0]).all():
        step = int(gaps[0]) if gaps.size else 1
        below = lowest + (total - lowest) // step * step
        return below, below if below == total else below + step
    if total - lowest > highest - total:
        above, below = nearest_totals(-lengths[::-1], lengths.size - 1 - high, lengths.size - 1 - low, -total)
        return -below, -above
    weight = lengths - lengths[0]
    target = total - lowest
    mask = (1 << (target + int(gaps.max()) + 1)) - 1
    reached = 1
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        before, reached = reached, 0
        for shift in (weight[first : last + 1] - weight[first]).tolist():
            reached |= before << shift
        reached &= mask
    below = (reached & ((1 << (target + 1)) - 1)).bit_length() - 1
    rest = reached >> target
    above = target + (rest & -rest).bit_length() - 1
    return lowest + below, lowest + above
