import importlib.util
import json
import sys
from itertools import product

import numpy as np
import pytest
from safetensors.numpy import load_file

from adaptok.allocation import InfeasibleTotal, compiled, solve
from adaptok.allocation.ilp import solve_ilp
from allocation.cases import FAMILIES, brute_force, dense_program, instance, loss_of

MODULE = sys.modules["adaptok.allocation.solve"]


@pytest.fixture
def plain(monkeypatch):
    """Run the kernels as plain Python, as where numba is not installed."""
    monkeypatch.setattr(compiled, "_njit", None)
    modules = []
    for name in ("hull", "core", "search"):
        path = importlib.util.find_spec(f"adaptok.allocation.{name}").origin
        spec = importlib.util.spec_from_file_location(f"plain_{name}", path)
        modules.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(modules[-1])
    monkeypatch.setattr(MODULE, "kernels", lambda: tuple(modules))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [(1, 5), (8, 8), (64, 8), (40, 16), (30, 64)])
def test_objective_is_that_of_the_dense_program(family, size):
    for seed in range(3):
        loss, lengths, total = instance(family, *size, seed)
        reference = dense_program(loss, lengths, total)
        kept = solve(loss, lengths, total)
        assert kept.sum() == total
        assert loss_of(loss, lengths, kept) == pytest.approx(reference[total], rel=1e-11, abs=1e-11)
        within = solve(loss, lengths, total, equality=False)
        assert within.sum() <= total
        assert loss_of(loss, lengths, within) == pytest.approx(reference.min(), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("family", FAMILIES[:-2])  # on ragged lengths HiGHS takes minutes
@pytest.mark.parametrize("size", [(8, 8), (64, 8)])
def test_objective_is_that_of_highs(family, size):
    loss, lengths, total = instance(family, *size)
    reference = loss_of(loss, lengths, solve_ilp(loss, lengths, total))
    assert loss_of(loss, lengths, solve(loss, lengths, total)) == pytest.approx(reference, rel=1e-9, abs=1e-9)


def test_objective_is_that_of_highs_on_a_larger_table():
    loss, lengths, total = instance(FAMILIES[0], 512, 16)
    reference = loss_of(loss, lengths, solve_ilp(loss, lengths, total))
    assert loss_of(loss, lengths, solve(loss, lengths, total)) == pytest.approx(reference, rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("equality", [True, False])
def test_without_a_compiler_the_answers_are_the_same(family, equality, plain, monkeypatch):
    cases = [instance(family, *size, seed=3) for size in ((1, 5), (8, 8), (24, 8))]
    slow = [solve(*case, equality) for case in cases]
    monkeypatch.undo()
    for case, kept in zip(cases, slow, strict=True):
        np.testing.assert_array_equal(solve(*case, equality), kept)


def test_identical_rows_by_the_thousand_keep_their_exact_total():
    for family in FAMILIES[:6]:
        loss, lengths, total = instance(family, 3000, 32)
        assert solve(loss, lengths, total).sum() == total


def test_bounds_per_row_are_kept():
    rng = np.random.default_rng(0)
    lengths = np.array([0, 2, 3, 7, 11])
    for _ in range(100):
        loss = rng.normal(size=(4, 5))
        bounds = np.sort(lengths[rng.integers(0, 5, (4, 2))], axis=1)
        total = int(rng.integers(bounds[:, 0].sum(), bounds[:, 1].sum() + 1))
        best = brute_force(loss, lengths, total, True, bounds[:, 0], bounds[:, 1])
        if best is None:
            with pytest.raises(InfeasibleTotal):
                solve(loss, lengths, total, lower=bounds[:, 0], upper=bounds[:, 1])
            continue
        kept = solve(loss, lengths, total, lower=bounds[:, 0], upper=bounds[:, 1])
        assert ((kept >= bounds[:, 0]) & (kept <= bounds[:, 1])).all()
        assert loss_of(loss, lengths, kept) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("lengths", [[1, 4, 9], [0, 6, 10, 15], [3], [2, 4, 8, 9]])
def test_infeasible_totals_name_their_nearest_neighbours(lengths):
    lengths = np.array(lengths)
    reachable = sorted({sum(pick) for pick in product(lengths.tolist(), repeat=3)})
    for total in range(-1, 3 * int(lengths[-1]) + 2):
        if total in reachable:
            assert solve(np.zeros((3, lengths.size)), lengths, total).sum() == total
            continue
        with pytest.raises(InfeasibleTotal, match=f"total of {total} tokens") as caught:
            solve(np.zeros((3, lengths.size)), lengths, total)
        error = caught.value
        assert (error.lowest, error.highest) == (reachable[0], reachable[-1])
        assert error.below == max((n for n in reachable if n < total), default=None)
        assert error.above == min((n for n in reachable if n > total), default=None)


def test_a_slack_budget_is_not_spent_for_nothing():
    loss = np.array([[3.0, 1.0, 1.0, 2.0], [0.0, 0.0, 5.0, -1.0]])
    np.testing.assert_array_equal(solve(loss, np.array([1, 2, 3, 9]), 100, equality=False), [2, 9])
    with pytest.raises(InfeasibleTotal):
        solve(loss, np.array([1, 2, 3, 9]), 1, equality=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": np.array([[0.0, np.nan]])}, "row 0 at length 2 has nan"),
        ({"loss": np.array([[np.inf, 0.0]])}, "row 0 at length 1 has inf"),
        ({"loss": np.array([[0.0, -1e300]])}, "at most 1e"),
        ({"loss": np.zeros(2)}, r"shape \(2,\)"),
        ({"loss": np.zeros((1, 3))}, r"shape \(1, 3\)"),
        ({"loss": np.zeros((0, 2))}, "R >= 1"),
        ({"loss": np.array([["a", "b"]])}, "must be numbers"),
        ({"lengths": np.array([2, 1])}, r"strictly increasing, got \[2, 1\]"),
        ({"lengths": np.array([1, 1])}, "strictly increasing"),
        ({"lengths": np.array([-1, 1])}, "non-negative"),
        ({"lengths": np.array([1.0, 2.0])}, "float64"),
        ({"lengths": np.array([1, 2**61])}, "limit"),
        ({"total": 1.5}, "got 1.5"),
        ({"lower": 3}, "no candidate length between its bounds 3 and 2"),
        ({"lower": 1.5}, "lower must be integers"),
        ({"upper": np.array([1, 2])}, r"one per row \(1,\)"),
    ],
)
def test_malformed_input_is_named(change, message):
    good = {"loss": np.zeros((1, 2)), "lengths": np.array([1, 2]), "total": 1}
    with pytest.raises(ValueError, match=message):
        solve(**{**good, **change})


def test_single_precision_and_integers_are_welcome():
    loss = np.array([[3, 1], [1, 0]])
    for kind in (np.float32, np.int64, np.float16):
        np.testing.assert_array_equal(solve(loss.astype(kind), np.array([1, 2], np.int32), np.int64(3)), [2, 1])


def test_inputs_stay_as_they_were():
    loss, lengths, total = instance(FAMILIES[0], 16, 8)
    copy = loss.copy()
    loss.flags.writeable = lengths.flags.writeable = False
    solve(loss, lengths, total)
    np.testing.assert_array_equal(loss, copy)


def test_parity_with_the_published_solver(shared):
    folder = shared / "parity" / "tiny"
    tensors = load_file(folder / "io.safetensors")
    step = json.loads((folder / "tokenizer_config.json").read_text())["scorer_step"]
    loss = tensors["ilp_scores"].astype(np.float64)
    lengths = np.arange(1, loss.shape[1] + 1) * step
    total = int(tensors["ilp_budget_tokens"]) * loss.shape[0]
    kept = solve(loss, lengths, total)
    assert kept.sum() == total
    assert loss_of(loss, lengths, kept) == pytest.approx(loss_of(loss, lengths, tensors["ilp_counts"]), rel=1e-12)
