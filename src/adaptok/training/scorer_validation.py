"""How good a scorer is: does it rank as the truth does, how far off is it, and what does that cost in use?

In: a bundle, fixed clips, fixed lengths. Out: Spearman's rank correlation, the error at every length, and the loss of
`ipal` by predicted scores against `ipal` by true ones and against equal lengths, each at the same number of tokens.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.allocation.budget import Budget
from adaptok.allocation.context import Prediction, judge
from adaptok.allocation.fixed import fixed
from adaptok.allocation.scope import batch
from adaptok.allocation.truth import BlockLoss, Truth, all_true_scores
from adaptok.bundle import Bundle
from adaptok.shapes import Kept, Video
from adaptok.training.loop import Validation


@torch.no_grad()
def validate_scorer(bundle: Bundle, video: Video, kept: Kept, loss: BlockLoss) -> Validation:
    """Compare predicted and true scores of every block, then the allocations they lead to at half the tokens."""
    tokenizer, scorer = bundle.tokenizer, bundle.scorer
    assert scorer is not None
    encoding = tokenizer.encode(video)
    truth, prediction = Truth(tokenizer, encoding, video, scorer.lengths, loss), Prediction(scorer, encoding)
    g = tokenizer.config.geometry
    wanted = all_true_scores(truth, kept)
    found = scorer.score_all(encoding, kept)
    error = (found - wanted).abs().mean(dim=(0, 1))
    values = {"spearman": rank_correlation(found.flatten(), wanted.flatten())}
    values |= {f"error_{length}": error[i].item() for i, length in enumerate(scorer.lengths)}

    budget = Budget(per_block=g.tokens_per_block / 2)
    choices = {
        "fixed": judge(prediction, budget, fixed, batch),
        "ipal": judge(prediction, budget, scope=batch),
        "oracle": judge(truth, budget, scope=batch),
    }
    real = {name: _loss_of(truth, torch.from_numpy(chosen.kept).to(video.device)) for name, chosen in choices.items()}
    gap = real["fixed"] - real["oracle"]
    values |= {f"loss_{name}": value for name, value in real.items()}
    values |= {
        "regret": real["ipal"] - real["oracle"],
        "gap_closed": (real["fixed"] - real["ipal"]) / gap if gap else 1.0,
    }
    # What counts in use is the loss that its choices lead to; it may rise while ranks still improve.
    return Validation(values, quality=-real["ipal"])


def rank_correlation(a: Float[Tensor, " N"], b: Float[Tensor, " N"]) -> float:
    """Spearman's: the correlation of ranks; 0 where one of them does not vary."""
    ranks = torch.stack([_ranks(a), _ranks(b)])
    return torch.nan_to_num(torch.corrcoef(ranks)[0, 1]).item() if len(a) > 1 else 0.0


def _ranks(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Ranks from 0, equal values sharing the mean of theirs."""
    _, inverse, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts.double() + 1) / 2)[inverse]


def _loss_of(truth: Truth, kept: Kept) -> float:
    """Mean true loss over all blocks when they are cut to `kept`."""
    decoded, _ = truth.tokenizer.decoder(truth.encoding.embedded, kept)
    frames = truth.tokenizer.config.geometry.block_frames
    pairs = zip(decoded.clamp(0, 1).split(frames, dim=2), truth.video.split(frames, dim=2), strict=True)
    return torch.stack([truth.loss(a, b) for a, b in pairs]).mean().item()
