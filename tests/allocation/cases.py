"""Instances that allocation is tested on, and the slowest possible solver."""

from itertools import product
from math import fsum

import numpy as np


def brute_force(loss, lengths, total, equality=True, lower=None, upper=None):
    """Least loss over every combination of lengths, or None if none adds up."""
    rows = loss.shape[0]
    lower = np.broadcast_to(lengths[0] if lower is None else lower, rows)
    upper = np.broadcast_to(lengths[-1] if upper is None else upper, rows)
    choices = [[(int(n), loss[r, s]) for s, n in enumerate(lengths) if lower[r] <= n <= upper[r]] for r in range(rows)]
    sums = ((sum(n for n, _ in pick), fsum(value for _, value in pick)) for pick in product(*choices))
    return min((value for spent, value in sums if (spent == total if equality else spent <= total)), default=None)


def dense_program(loss, lengths, total):
    """Least loss at every total up to `total`, by the textbook dynamic program, one row after another."""
    best = np.full(total + 1, np.inf)
    best[0] = 0
    for row in loss:
        following = np.full(total + 1, np.inf)
        for n, value in zip(lengths, row, strict=True):
            if n <= total:
                np.minimum(following[n:], best[: total + 1 - n] + value, out=following[n:])
        best = following
    return best


def loss_of(loss, lengths, kept):
    return fsum(loss[np.arange(len(kept)), np.searchsorted(lengths, kept)])


def _even(count):
    return np.arange(1, count + 1) * 4


def decaying(rng, rows, count):
    x = np.arange(1, count + 1) / count
    loss = rng.gamma(2, 1, (rows, 1)) * np.exp(-rng.uniform(0.5, 6, (rows, 1)) * x)
    return loss + 0.01 * rng.normal(size=(rows, count)), _even(count)


def concave(rng, rows, count):
    return -((np.arange(count) / count) ** 2) * rng.uniform(0.5, 1.5, (rows, 1)), _even(count)


def identical(rng, rows, count):
    return np.tile(rng.random((1, count)), (rows, 1)), _even(count)


def ties(rng, rows, count):
    return rng.integers(0, 4, (rows, count)).astype(float), _even(count)


def subset_sum(rng, rows, count):
    lengths = _even(count)
    return -1.0 * lengths + 0.5 * rng.integers(0, 2, (rows, count)), lengths


def ends_only(rng, rows, count):
    loss = rng.uniform(0.95, 1.05, (rows, count))
    loss[:, 0] = 0
    loss[:, -1] = -rng.random(rows)
    return loss, _even(count)


def ragged(rng, rows, count):
    lengths = np.sort(rng.choice(20 * count, count, replace=False))
    return np.cumsum(rng.random((rows, count)), axis=1)[:, ::-1].copy(), lengths


def long_ragged(rng, rows, count):
    lengths = np.sort(rng.choice(4096, count, replace=False))
    return -((lengths / lengths[-1]) ** 2) * rng.uniform(0.9, 1.1, (rows, 1)), lengths


FAMILIES = (decaying, concave, identical, ties, subset_sum, ends_only, ragged, long_ragged)


def instance(family, rows, count, seed=0):
    """Losses, lengths and a total that some choice of lengths adds up to."""
    rng = np.random.default_rng(seed)
    loss, lengths = family(rng, rows, count)
    return loss, lengths, int(lengths[rng.integers(0, count, rows)].sum())
