"""The scorer by dense masks: the slow oracle of scorer.py, one full pass per block."""

from adaptok.allocation.scorer import Scorer
from adaptok.blocks.dense import dense_forward
from adaptok.shapes import Kept, Scores
from adaptok.tokenizer.model import Encoding


def dense_score(scorer: Scorer, encoding: Encoding, kept: Kept, block: int) -> Scores:
    """Scores of `block`: earlier blocks cut to `kept`, this one whole, later ones hidden."""
    m, blocks = scorer.geometry.tokens_per_block, scorer.geometry.blocks
    lengths = kept.clone()
    lengths[:, block] = m
    lengths[:, block + 1 :] = 0
    chunk = scorer.arrange(encoding, lengths, first=0, sizes=(m,) * blocks)
    out = dense_forward(scorer.stack, chunk).tokens
    return scorer.read(out.unflatten(1, (blocks, m))[:, block])
