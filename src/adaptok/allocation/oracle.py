"""`oracle`: the optimal allocation under true losses, found by decoding every candidate. Evaluation's upper bound.

In: the truth about a batch of clips (truth.py) in place of predicted scores, so it is not among the strategies
that go by name. Out: the same as from any judge. It needs the original frames and S decodings of every block.
"""

from adaptok.allocation.budget import Budget, Pace
from adaptok.allocation.context import Judged, judge
from adaptok.allocation.ipal import ipal
from adaptok.allocation.scope import Scope, clip
from adaptok.allocation.truth import Truth


def oracle(truth: Truth, budget: Budget, scope: Scope = clip, pace: Pace | None = None) -> Judged:
    """Lengths of least true loss, each block's loss taken after the cuts before it."""
    return judge(truth, budget, ipal, scope, pace)
