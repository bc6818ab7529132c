"""What every allocation must obey, whatever the losses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptok.allocation import (
    STRATEGIES,
    Budget,
    InfeasibleTotal,
    Live,
    ScoreTable,
    allocate,
    corpus_price,
    non_increasing,
    solve,
)
from allocation.cases import brute_force, loss_of

VALUES = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-100, 100, allow_nan=False, width=32),
    st.sampled_from([0.0, 1e-9, 1e9, -1e9, 1 / 3]),
)


@st.composite
def problems(draw, max_rows=5, max_count=4):
    rows, count = draw(st.integers(1, max_rows)), draw(st.integers(1, max_count))
    widest = draw(st.sampled_from([6, 30, 100_000]))
    lengths = np.array(sorted(draw(st.sets(st.integers(0, widest), min_size=count, max_size=count))))
    kind = draw(st.sampled_from(["any", "identical", "decreasing", "linear"]))
    values = draw(st.lists(st.lists(VALUES, min_size=count, max_size=count), min_size=rows, max_size=rows))
    loss = np.array(values)
    if kind == "identical":
        loss = np.tile(loss[:1], (rows, 1))
    elif kind == "decreasing":
        loss = -np.sort(-loss, axis=1)
    elif kind == "linear":
        loss = -0.1 * np.tile(lengths, (rows, 1))
    picks = draw(st.lists(st.integers(0, count - 1), min_size=rows, max_size=rows))
    total = int(lengths[picks].sum()) + draw(st.sampled_from([0, 0, 0, 1, -1, 2]))
    return loss, lengths, total


@st.composite
def tables(draw):
    """Tables of a few clips, with a budget that they can afford."""
    videos, blocks = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    loss, lengths, _ = draw(problems(max_rows=1, max_count=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loss = loss[0] * rng.random((videos, blocks, 1)) + rng.normal(size=(videos, blocks, lengths.size))
    average = draw(st.floats(float(lengths[0]), float(lengths[-1]) + 2))
    return ScoreTable.of_clips(loss, lengths, rng.random((videos, blocks))), Budget(per_block=average)


@settings(max_examples=400, deadline=None)
@given(problems(), st.booleans())
def test_solve_is_brute_force(problem, equality):
    loss, lengths, total = problem
    best = brute_force(loss, lengths, total, equality)
    if best is None:
        with pytest.raises(InfeasibleTotal):
            solve(loss, lengths, total, equality)
        return
    kept = solve(loss, lengths, total, equality)
    assert kept.sum() == total if equality else kept.sum() <= total
    size = np.abs(loss).max() + 1
    assert loss_of(loss, lengths, kept) == pytest.approx(best, rel=0, abs=1e-13 * size * len(kept))


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(sorted(STRATEGIES)), st.sampled_from(["clip", "batch", "index"]))
def test_every_strategy_stays_within_budget(case, strategy, scope):
    from adaptok.allocation import SCOPES

    table, budget = case
    got = allocate(table, budget, STRATEGIES[strategy], SCOPES[scope])
    assert np.isin(got.kept, table.lengths).all()
    assert got.spent <= budget.per_block * table.rows + 1e-6
    assert got.shortfall == got.asked - got.spent >= 0
    assert got.met == (got.shortfall == 0)
    if strategy in ("ilp", "fixed", "motion"):
        exact = allocate(table, budget, STRATEGIES["ipal"], SCOPES[scope])
        assert got.spent == exact.spent
        assert got.loss >= exact.loss - 1e-9 * (1 + abs(exact.loss))
        if strategy == "ilp":
            assert got.loss == pytest.approx(exact.loss, rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_a_video_alone_gets_what_it_gets_in_a_batch(case):
    table, budget = case
    together = allocate(table, budget)
    for video in np.unique(table.video):
        alone = allocate(table.select(table.video == video), budget)
        np.testing.assert_array_equal(alone.kept, together.kept[table.video == video])


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 9), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_live_spending_holds_in_every_window(case, window, thrift, seed):
    table, budget = case
    live = Live.of(budget, table.lengths, window, thrift=thrift)
    state, kept = live.start(), []
    rows = np.random.default_rng(seed).integers(0, table.rows, 3 * window + 2)
    for row in rows:
        before = (state.spent, state.recent.copy())
        length, after = live.step(table.loss[row], state)
        assert state.spent == before[0]
        np.testing.assert_array_equal(state.recent, before[1])
        kept.append(length)
        state = after
    sums = [sum(kept[i : i + window]) for i in range(len(kept))]
    assert max(sums) <= budget.per_block * window + 1e-6
    assert set(kept) <= set(table.lengths.tolist())


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(1, 3))
def test_the_corpus_gap_is_honest(case, parts):
    table, budget = case
    shards = [table.select(rows) for rows in np.array_split(np.arange(table.rows), parts) if rows.size]
    price = corpus_price(shards, budget)
    kept = np.concatenate([price.choose(shard, i) for i, shard in enumerate(shards)])
    assert kept.sum() <= price.total
    optimum = table.loss_of(solve(table.loss, table.lengths, price.total, equality=False))
    excess = table.loss_of(kept) - optimum
    size = 1e-9 * (1 + np.abs(table.loss).sum())
    assert -size <= excess <= price.gap(int(kept.sum())) + size


@settings(max_examples=100, deadline=None)
@given(problems())
def test_projection_never_rises_and_changes_nothing_that_did_not(problem):
    loss = problem[0]
    flat = non_increasing(loss)
    assert (np.diff(flat, axis=1) <= 0).all()
    np.testing.assert_allclose(flat.sum(axis=1), loss.sum(axis=1), atol=1e-6)
    falling = -np.sort(-loss, axis=1)
    np.testing.assert_allclose(non_increasing(falling), falling, rtol=1e-14)
