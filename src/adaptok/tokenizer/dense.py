"""The tokenizer by dense masks: the slow oracle of model.py, on the same weights.

Dropped tokens keep their rows and are hidden by the mask, as published code does it. Used by tests and benchmarks.
"""

from adaptok.blocks.dense import dense_forward
from adaptok.blocks.visibility import Role
from adaptok.shapes import CodeBlocks, Kept, LatentBlocks, Video
from adaptok.tokenizer.model import Tokenizer


def dense_latents(tokenizer: Tokenizer, video: Video) -> LatentBlocks:
    """Latents of whole clips."""
    encoder = tokenizer.encoder
    return encoder.read(dense_forward(encoder.stack, encoder.embed(video, first=0)))


def dense_decode(tokenizer: Tokenizer, codes: CodeBlocks, kept: Kept) -> Video:
    """Video of whole clips from the first `kept` tokens of each block."""
    g, decoder = tokenizer.config.geometry, tokenizer.decoder
    embedded = tokenizer.quantizer.embed(tokenizer.quantizer.lookup(codes))
    chunk = decoder.arrange(embedded, kept, first=0, sizes=(g.tokens_per_block,) * g.blocks)
    return decoder.output(dense_forward(decoder.stack, chunk).of(Role.PATCH))
