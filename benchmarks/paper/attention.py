"""What a latent token looks at: attention of the encoder over the patches of its own block.

In: a tokenizer and clips. Out: for every token of a block a map over the block's patches. The running code never holds
attention weights; here they are computed again from the queries and keys of the dense oracle. Used by figures.py.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.blocks.dense import dense_forward, dense_mask
from adaptok.blocks.layout import Segment
from adaptok.blocks.transformer import Layer, hiding_bias
from adaptok.blocks.visibility import Role
from adaptok.shapes import Video
from adaptok.tokenizer.model import Tokenizer

Maps = Float[Tensor, "B M t h w"]


@torch.no_grad()
def over_patches(tokenizer: Tokenizer, video: Video, block: int) -> Maps:
    """Weights of the block's patches for each of its tokens, mean over layers and heads, each map adding up to 1."""
    encoder = tokenizer.encoder
    chunk = encoder.embed(video.to(tokenizer.quantizer.codebook.dtype), first=0)
    latents, patches = (_rows(chunk.segments, role, block) for role in (Role.LATENT, Role.PATCH))
    visible = dense_mask(encoder.stack.visibility, chunk.segments).to(chunk.tokens.device)[latents]
    found: list[Tensor] = []

    def look(layer: Layer, projected: Tensor) -> None:
        q, k, _ = (layer.attention.split(part) for part in projected.chunk(3, dim=-1))
        similar = q[:, :, latents] @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = (similar + hiding_bias(visible, q.dtype)).softmax(dim=-1)
        found.append(weights[..., patches].mean(dim=1))

    hooks = []
    for layer in encoder.stack.layers:
        assert isinstance(layer, Layer)
        hooks.append(layer.attention.qkv.register_forward_hook(lambda _, __, out, layer=layer: look(layer, out)))
    try:
        dense_forward(encoder.stack, chunk)
    finally:
        for hook in hooks:
            hook.remove()
    weights = torch.stack(found).mean(dim=0)
    return (weights / weights.sum(dim=-1, keepdim=True)).unflatten(-1, encoder.geometry.grid)


def effective_patches(maps: Maps) -> Float[Tensor, "B M"]:
    """As many equally weighted patches would spread attention as widely: the exponential of the entropy."""
    weights = maps.flatten(2)
    return torch.special.entr(weights).sum(dim=-1).exp()


def _rows(segments: tuple[Segment, ...], role: Role, block: int) -> slice:
    """Where the rows of one role of one block lie."""
    start = 0
    for segment in segments:
        if segment.role is role and segment.block == block:
            return slice(start, start + segment.size)
        start += segment.size
    raise ValueError(f"there is no block {block}")
