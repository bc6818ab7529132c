"""`bithr`: one quality for every row. Each gets the fewest tokens whose predicted loss lies below a common threshold.

Algorithm 2 of the appendix with scores as they are; see `threshold` for its corrected line. The threshold moves many
rows at once, so the budget is seldom met exactly; the allocation reports what was spent. Next: `bidelta`.
"""

from adaptok.allocation.problem import Allocation, ScoreTable, Target
from adaptok.allocation.threshold import search_threshold


def bithr(table: ScoreTable, target: Target) -> Allocation:
    """Lengths at which predicted losses first drop below the lowest affordable threshold."""
    return Allocation.of(table, search_threshold(table.loss, table.lengths, target), target)
