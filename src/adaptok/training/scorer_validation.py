"""How good a scorer is: does it rank as the truth does, how far off is it, and what does that cost in use?

In: a tokenizer, fixed clips, fixed lengths; then scorers, as often as one likes. Out: Spearman's rank correlation, the
error at every length, and the loss of `ipal` by predicted scores against `ipal` by true ones and against equal lengths,
each at the same number of tokens.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.allocation.budget import Budget
from adaptok.allocation.context import Judged, Prediction, judge
from adaptok.allocation.fixed import fixed
from adaptok.allocation.oracle import oracle
from adaptok.allocation.scope import batch
from adaptok.allocation.scorer import Scorer
from adaptok.allocation.truth import BlockLoss, Truth, all_true_scores
from adaptok.shapes import Kept, Video
from adaptok.tokenizer.model import Tokenizer
from adaptok.training.loop import Validation


class Exam:
    """Clips cut to `kept`, and half of the tokens to spend on them; what is true of them is found once."""

    @torch.no_grad()
    def __init__(self, tokenizer: Tokenizer, lengths: Sequence[int], video: Video, kept: Kept, loss: BlockLoss) -> None:
        self._truth = Truth(tokenizer, tokenizer.encode(video), video, lengths, loss)
        self._kept = kept
        self._budget = Budget(per_block=tokenizer.config.geometry.tokens_per_block / 2)
        self._scores = all_true_scores(self._truth, kept)
        self._oracle = self._real(oracle(self._truth, self._budget, batch))

    @torch.no_grad()
    def __call__(self, scorer: Scorer) -> Validation:
        """Compare predicted and true scores of every block, then the allocations they lead to."""
        prediction = Prediction(scorer, self._truth.encoding)
        found = scorer.score_all(self._truth.encoding, self._kept)
        error = (found - self._scores).abs().mean(dim=(0, 1))
        values = {"spearman": rank_correlation(found.flatten(), self._scores.flatten())}
        values |= {f"error_{length}": error[i].item() for i, length in enumerate(scorer.lengths)}
        real = {
            "fixed": self._real(judge(prediction, self._budget, fixed, batch)),
            "ipal": self._real(judge(prediction, self._budget, scope=batch)),
            "oracle": self._oracle,
        }
        gap = real["fixed"] - real["oracle"]
        values |= {f"loss_{name}": value for name, value in real.items()}
        values |= {
            "regret": real["ipal"] - real["oracle"],
            "gap_closed": (real["fixed"] - real["ipal"]) / gap if gap else 1.0,
        }
        # What counts in use is the loss that its choices lead to; it may rise while ranks still improve.
        return Validation(values, quality=-real["ipal"])

    def _real(self, chosen: Judged) -> float:
        """Mean true loss over all blocks when they are cut to the chosen lengths."""
        truth = self._truth
        frames = truth.tokenizer.config.geometry.block_frames
        decoded, _ = truth.tokenizer.decoder(
            truth.encoding.embedded, torch.from_numpy(chosen.kept).to(truth.video.device)
        )
        pairs = zip(decoded.clamp(0, 1).split(frames, dim=2), truth.video.split(frames, dim=2), strict=True)
        return torch.stack([truth.loss(a, b) for a, b in pairs]).mean().item()


def rank_correlation(a: Float[Tensor, " N"], b: Float[Tensor, " N"]) -> float:
    """Spearman's: the correlation of ranks; 0 where one of them does not vary."""
    ranks = torch.stack([_ranks(a), _ranks(b)])
    return torch.nan_to_num(torch.corrcoef(ranks)[0, 1]).item() if len(a) > 1 else 0.0


def _ranks(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Ranks from 0, equal values sharing the mean of theirs."""
    _, inverse, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts.double() + 1) / 2)[inverse]
