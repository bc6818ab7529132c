import numpy as np
import pytest

from adaptok.allocation import SCOPES, STRATEGIES, Budget, ScoreTable, allocate, scope_named, strategy_named
from adaptok.allocation.motion import block_motion
from adaptok.allocation.problem import Allocation, Target
from allocation.cases import decaying


def make_table(videos=4, blocks=6, count=8, seed=0):
    rng = np.random.default_rng(seed)
    loss, lengths = decaying(rng, videos * blocks, count)
    return ScoreTable.of_clips(loss.reshape(videos, blocks, count), lengths, rng.gamma(1, 1, (videos, blocks)))


def test_fixed_meets_a_fractional_average_by_an_even_spread():
    table = ScoreTable.of_clips(np.zeros((1, 10, 16)), np.arange(1, 17))
    got = allocate(table, Budget(per_block=7.3), strategy_named("fixed"))
    assert got.met
    assert got.spent == 73
    assert set(got.kept) == {7, 8}
    line = 7.3 * np.arange(1, 11)
    assert (np.abs(np.cumsum(got.kept) - line) <= 0.5 + 1e-9).all()


def test_fixed_mixes_ragged_lengths_to_the_exact_total():
    table = ScoreTable.of_clips(np.zeros((1, 3, 3)), np.array([1, 4, 9]))
    assert sorted(allocate(table, Budget(total=14), strategy_named("fixed")).kept) == [1, 4, 9]
    short = allocate(table, Budget(total=13), strategy_named("fixed"))
    assert (short.spent, short.shortfall, short.met) == (12, 1, False)


def test_bithr_gives_every_row_the_same_quality():
    table = make_table()
    got = allocate(table, Budget(per_block=14), strategy_named("bithr"), scope_named("batch"))
    column = np.searchsorted(table.lengths, got.kept)
    reached = table.loss[np.arange(table.rows), column]
    before = np.array([row[:s].min() if s else np.inf for row, s in zip(table.loss, column, strict=True)])
    growing = column < table.lengths.size - 1
    assert reached[growing].max() <= before.min()


def test_bidelta_stops_where_the_gain_drops():
    loss = np.array([[[9.0, 5, 3, 2, 2]], [[4.0, 3, 3, 3, 3]]])
    table = ScoreTable.of_clips(loss, np.array([1, 2, 3, 4, 5]))
    got = allocate(table, Budget(total=6), strategy_named("bidelta"), scope_named("batch"))
    np.testing.assert_array_equal(got.kept, [4, 2])


def test_a_row_that_never_drops_below_the_threshold_keeps_all():
    table = ScoreTable.of_clips(np.array([[[5.0, 5, 5]], [[1.0, 0.5, 0]]]), np.array([1, 2, 3]))
    got = allocate(table, Budget(total=4), strategy_named("bithr"), scope_named("batch"))
    np.testing.assert_array_equal(got.kept, [3, 1])


def test_motion_follows_the_energy_within_bounds():
    table = ScoreTable.of_clips(np.zeros((1, 4, 20)), np.arange(1, 21), np.array([[0.0, 1.0, 2.0, 40.0]]))
    got = allocate(table, Budget(total=32, min_per_block=2), strategy_named("motion"))
    np.testing.assert_array_equal(got.kept, [2, 3, 7, 20])
    still = ScoreTable.of_clips(np.zeros((1, 4, 20)), np.arange(1, 21), np.zeros((1, 4)))
    np.testing.assert_array_equal(allocate(still, Budget(per_block=5), strategy_named("motion")).kept, [5] * 4)


def test_motion_needs_finite_energies():
    bare = ScoreTable.of_clips(np.zeros((1, 2, 3)), np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="ScoreTable.motion"):
        allocate(bare, Budget(per_block=2), strategy_named("motion"))
    bad = ScoreTable.of_clips(np.zeros((1, 2, 3)), np.array([1, 2, 3]), np.array([[1.0, -1.0]]))
    with pytest.raises(ValueError, match="not negative"):
        allocate(bad, Budget(per_block=2), strategy_named("motion"))


def test_block_motion_is_the_mean_frame_difference():
    video = np.zeros((1, 3, 4, 2, 2))
    video[:, :, 2:] = 1
    np.testing.assert_allclose(block_motion(video, 2), [[0, 0.5]])
    with pytest.raises(ValueError, match="4 frames"):
        block_motion(video, 3)


def test_ipal_loses_least():
    table = make_table()
    for scope in SCOPES.values():
        losses = {name: allocate(table, Budget(per_block=14), s, scope).loss for name, s in STRATEGIES.items()}
        assert losses["ipal"] == pytest.approx(losses["ilp"], rel=1e-12)
        assert losses["ipal"] <= min(losses.values()) + 1e-12


def test_wider_scopes_never_lose():
    table = make_table()
    clip, batch = (allocate(table, Budget(per_block=14), scope=SCOPES[name]) for name in ("clip", "batch"))
    assert batch.loss <= clip.loss
    assert batch.spent >= clip.spent


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match="unknown strategy 'best'; known are ipal, fixed"):
        strategy_named("best")
    with pytest.raises(ValueError, match="unknown scope 'all'; known are clip"):
        scope_named("all")


def test_an_allocation_beyond_its_target_is_refused():
    table = make_table(1, 2)
    with pytest.raises(ValueError, match="exceeds the target of 7"):
        Allocation.of(table, np.array([4, 4]), Target(tokens=7, lower=4, upper=8))
