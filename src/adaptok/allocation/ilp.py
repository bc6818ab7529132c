"""`ilp`: the paper's integer program, word for word, on the HiGHS solver. The reference that `ipal` is checked against.

Binary variables b[k, j], one per row and candidate; each row picks one; picked lengths add up to the budget.
Next on the walk: `names`, which lists the strategies.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, kron, vstack

from adaptok.allocation.feasible import candidate_range, nearest_totals
from adaptok.allocation.problem import Allocation, ScoreTable, Target


def ilp(table: ScoreTable, target: Target) -> Allocation:
    """Optimal lengths as a general solver finds them; an error unless it proves them optimal."""
    low, high = candidate_range(table.lengths, table.rows, target.lower, target.upper)
    below, _ = nearest_totals(table.lengths, low, high, target.tokens)
    if below is None:
        raise ValueError(f"{table.rows} rows need {table.rows * target.lower} tokens, got {target.tokens}")
    allowed = (table.lengths >= target.lower) & (table.lengths <= target.upper)
    picked = solve_ilp(table.loss[:, allowed], table.lengths[allowed], below)
    return Allocation.of(table, picked, target)


def solve_ilp(
    loss: Float[np.ndarray, "R S"],
    lengths: Int[np.ndarray, " S"],
    total: int,
    seconds: float = float("inf"),
) -> Int[np.ndarray, " R"]:
    """Lengths that minimise the loss and add up to `total`.

    Raises:
        RuntimeError: the solver did not end with a proven optimum within `seconds`.
    """
    rows, count = loss.shape
    one_each = kron(csr_array(np.eye(rows)), np.ones((1, count)))
    spent = csr_array(np.tile(lengths, rows)[None, :].astype(np.float64))
    right = np.append(np.ones(rows), total)
    result = milp(
        loss.ravel(),
        integrality=np.ones(rows * count),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(vstack([one_each, spent], format="csr"), right, right),
        options={"mip_rel_gap": 0.0, "time_limit": seconds},
    )
    if result.status != 0:
        raise RuntimeError(f"HiGHS did not prove an optimum (status {result.status}): {result.message}")
    kept = lengths[result.x.reshape(rows, count).argmax(axis=1)]
    if kept.sum() != total:
        raise RuntimeError(f"HiGHS returned lengths that add up to {kept.sum()}, not {total}")
    return kept
