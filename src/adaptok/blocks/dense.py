"""The slow oracle: the same stack and table as one attention over the whole sequence under a full mask.

In: a `Chunk` of all blocks, absent rows marked. Out: every row computed. It exists to check the block-by-block path
and to be measured against; nothing that runs depends on it.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from adaptok.blocks.layout import Chunk, Segment
from adaptok.blocks.transformer import Layer, Stack, hiding_bias
from adaptok.blocks.visibility import Reach, Visibility


def dense_mask(visibility: Visibility, segments: tuple[Segment, ...]) -> Bool[Tensor, "N N"]:
    """True where the row's query sees the column's key."""
    rows = [
        torch.cat(
            [torch.full((q.size, k.size), visibility.sees(q.role, q.block, k.role, k.block)) for k in segments],
            dim=1,
        )
        for q in segments
    ]
    mask = torch.cat(rows)
    reaches = [visibility.reach(q.role, k.role) for q in segments for k in segments]
    return mask.tril() if Reach.PREFIX in reaches else mask


def dense_forward(stack: Stack, chunk: Chunk) -> Chunk:
    """All rows of all blocks at once; memory grows with the square of the rows."""
    x = chunk.tokens
    visible = dense_mask(stack.visibility, chunk.segments).to(x.device)[None, None]
    if chunk.present is not None:
        visible = visible & chunk.present[:, None, None, :]
    bias = hiding_bias(visible, x.dtype)
    for layer in stack.layers:
        assert isinstance(layer, Layer)
        parts = layer.attention.qkv(layer.norm1(x)).chunk(3, dim=-1)
        q, k, v = (layer.attention.split(part) for part in parts)
        x = layer.finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype)))
    return Chunk(x, chunk.segments, chunk.blocks, chunk.present)
