from itertools import product

import numpy as np
import pytest

from adaptok.allocation import Budget, Pace, ScoreTable, allocate

PACE = Pace(fps=16, frames_per_block=4, bits_per_token=10)


def make_table(rows=4, count=8):
    return ScoreTable.of_clips(np.random.default_rng(0).random((1, rows, count)), np.arange(1, count + 1) * 4)


@pytest.mark.parametrize(
    ("budget", "tokens"),
    [
        (Budget(per_block=10), 40),
        (Budget(per_block=10.3), 41),
        (Budget(total=77), 77),
        (Budget(tokens_per_second=50), 50),
        (Budget(bits_per_second=500), 50),
        (Budget(bits_per_second=509), 50),
    ],
)
def test_budgets_in_tokens(budget, tokens):
    assert budget.resolve(make_table(), PACE).tokens == tokens


def test_fractions_that_are_whole_in_decimal_stay_whole():
    table = ScoreTable.of_clips(np.zeros((1, 30, 4)), np.arange(4))
    assert Budget(per_block=0.1).resolve(table).tokens == 3


def test_what_lengths_cannot_add_up_to_is_met_from_below_and_reported():
    got = allocate(make_table(), Budget(total=43))
    assert (got.spent, got.asked, got.shortfall, got.met) == (40, 43, 3, False)
    more = allocate(make_table(), Budget(total=10_000))
    assert (more.spent, more.met) == (4 * 32, False)


def test_bounds_hold_for_every_block():
    got = allocate(make_table(), Budget(per_block=17, min_per_block=9, max_per_block=21))
    assert got.kept.min() >= 12
    assert got.kept.max() <= 20


def test_numbers_of_numpy_are_numbers():
    assert Budget(per_block=np.float32(2.5)).tokens_for(4) == 10
    assert Budget(total=np.int64(7)).tokens_for(4) == 7
    with pytest.raises(ValueError, match="total must be an integer"):
        Budget(total=np.float64(7))


def test_quality_is_reached_with_the_fewest_tokens():
    rng = np.random.default_rng(1)
    lengths = np.array([1, 2, 5])
    for _ in range(30):
        loss = rng.random((1, 4, 3))
        table = ScoreTable.of_clips(loss, lengths)
        quality = float(rng.uniform(0.15, 0.8))
        picks = [
            (sum(lengths[list(p)]), np.mean(table.loss[np.arange(4), list(p)])) for p in product(range(3), repeat=4)
        ]
        enough = [spent for spent, mean in picks if mean <= quality]
        got = allocate(table, Budget(quality=quality))
        assert got.met == bool(enough)
        best = min(mean for _, mean in picks)
        assert got.spent == (min(enough) if enough else min(spent for spent, mean in picks if mean == best))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one of per_block, total, .*; got none"),
        ({"per_block": 3, "total": 4}, "got per_block and total"),
        ({"per_block": -1}, "per_block must not be negative, got -1"),
        ({"per_block": float("nan")}, "per_block must be a number, got nan"),
        ({"per_block": "8"}, "per_block must be a number, got '8'"),
        ({"total": 3.5}, "total must be an integer, got 3.5"),
        ({"total": True}, "total must be an integer, got True"),
        ({"total": 3, "min_per_block": 4, "max_per_block": 2}, "min_per_block 4 exceeds max_per_block 2"),
    ],
)
def test_malformed_budgets_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        Budget(**fields)


def test_budgets_that_nothing_can_meet_are_refused():
    with pytest.raises(ValueError, match=r"12 tokens for 4 blocks is below the least they can take, 16 \(4 each\)"):
        Budget(per_block=3).resolve(make_table())
    with pytest.raises(ValueError, match="between min_per_block 5 and max_per_block 7; candidates run from 4 to 32"):
        Budget(total=30, min_per_block=5, max_per_block=7).resolve(make_table())
    with pytest.raises(ValueError, match="needs a pace"):
        Budget(bits_per_second=500).resolve(make_table())
    with pytest.raises(ValueError, match="fps must be positive, got 0"):
        Pace(fps=0, frames_per_block=4, bits_per_token=10)
    with pytest.raises(ValueError, match="not a rate"):
        Budget(total=3).average()
