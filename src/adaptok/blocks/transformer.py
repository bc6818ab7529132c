"""The pre-norm transformer that every network here is made of, run block by block with memory.

In: a `Chunk` of one or more consecutive blocks and the `Memory` of the blocks before it.
Out: the computed rows of the roles asked for, and the memory for the next chunk. A chunk of all K blocks is offline
encoding, a chunk of one block is streaming; both take this path. The slow oracle is dense.py.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from adaptok.blocks.layout import Call, Chunk, Plan, make_plan, take
from adaptok.blocks.memory import Heads, KeyValues, Memory
from adaptok.blocks.visibility import Role, Visibility
from adaptok.config import StackConfig
from adaptok.shapes import Tokens

Asked = Float[Tensor, "B _ D"]
"""Tokens of the rows that were asked for, which may be fewer than came in."""


class Attention(nn.Module):
    """Multi-head attention with one fused projection."""

    def __init__(self, width: int, heads: int, qkv_bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=qkv_bias)
        self.proj = nn.Linear(width, width)

    def project(self, x: Tokens, plan: Plan) -> tuple[Heads, Heads, Heads]:
        """Queries of the asked rows, keys and values of all rows."""
        if plan.asked == (slice(0, x.shape[1]),):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
        else:
            width = self.proj.in_features
            weight, bias = self.qkv.weight, self.qkv.bias
            q = F.linear(take(x, plan.asked, dim=1), weight[:width], None if bias is None else bias[:width])
            kv = F.linear(x, weight[width:], None if bias is None else bias[width:])
            k, v = kv.chunk(2, dim=-1)
        return self.split(q), self.split(k), self.split(v)

    def split(self, x: Tokens) -> Heads:
        """(B,N,D) to (B,heads,N,D/heads)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def merge(self, x: Heads) -> Tokens:
        """(B,heads,N,D/heads) to projected (B,N,D)."""
        return self.proj(x.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and feed-forward, each after a norm and around a residual."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        hidden = config.mlp_ratio * config.width
        self.norm1 = nn.LayerNorm(config.width, eps=1e-5)
        self.attention = Attention(config.width, config.heads, config.qkv_bias)
        self.norm2 = nn.LayerNorm(config.width, eps=1e-5)
        self.mlp = nn.Sequential(nn.Linear(config.width, hidden), nn.GELU(), nn.Linear(hidden, config.width))

    def forward(self, x: Tokens, plan: Plan, past: KeyValues | None) -> tuple[Asked, KeyValues]:
        """Compute the asked rows; hand back the keys and values that later blocks may see."""
        q, k, v = self.attention.project(self.norm1(x), plan)
        if past is not None:
            k = torch.cat([past.keys, k], dim=2)
            v = torch.cat([past.values, v], dim=2)
        y = torch.cat([attend(call, q, k, v) for call in plan.calls], dim=2) if plan.calls else q
        x = self.finish(take(x, plan.asked, dim=1), y)
        return x, KeyValues(take(k, plan.remembered, dim=2), take(v, plan.remembered, dim=2))

    def finish(self, x: Tokens, y: Heads) -> Tokens:
        """Residuals and feed-forward after the attention result `y`."""
        x = x + self.attention.merge(y)
        return x + self.mlp(self.norm2(x))


def attend(call: Call, q: Heads, k: Heads, v: Heads) -> Heads:
    """One attention call of the plan, without a mask wherever none is needed."""
    q = q[:, :, call.queries]
    k, v = take(k, call.keys, dim=2), take(v, call.keys, dim=2)
    n, total = q.shape[2], k.shape[2]
    ordered = call.prefix and n > 1
    if call.present is None and (not ordered or n == total):
        return weighed(q, k, v, None, ordered)
    visible = torch.ones(1, 1, 1, total, dtype=torch.bool, device=q.device)
    if call.present is not None:
        visible = call.present[:, None, None, :]
    if ordered:
        visible = visible & visible.new_ones(n, total).tril(total - n)
    return weighed(q, k, v, visible, False)


def weighed(q: Heads, k: Heads, v: Heads, visible: Bool[Tensor, "..."] | None, ordered: bool) -> Heads:
    """Values by similarity; in single precision on a CPU whatever surrounds it, as its backward is slow in less."""
    if q.device.type == "cpu" and q.dtype.itemsize < torch.float32.itemsize:
        with torch.autocast("cpu", enabled=False):
            return weighed(q.float(), k.float(), v.float(), visible, ordered).to(q.dtype)
    bias = None if visible is None else hiding_bias(visible, q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=ordered)


def hiding_bias(visible: Bool[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Added to similarities: so negative where hidden that the weight is exactly zero.

    Finite all the same, so that a padding row with nothing to see stays finite (nobody reads it).
    """
    return torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min / 2)


class Stack(nn.Module):
    """Layers that share one visibility table."""

    def __init__(self, config: StackConfig, visibility: Visibility) -> None:
        super().__init__()
        self.config = config
        self.visibility = visibility
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.depth))

    def forward(
        self, chunk: Chunk, memory: Memory | None, read: frozenset[Role], last: bool = False
    ) -> tuple[Chunk, Memory]:
        """Run the chunk after what `memory` holds; the last layer computes only the roles that are read.

        Where the chunk is the `last`, no keys and values are kept: the memory handed back only counts blocks.
        """
        past = () if memory is None else memory.segments
        present = None if memory is None else memory.present
        plan = make_plan(self.visibility, chunk, past, present, ask=frozenset(self.visibility.table))
        final = make_plan(self.visibility, chunk, past, present, ask=read)
        x, layers = chunk.tokens, []
        for i, layer in enumerate(self.layers):
            step = final if i == len(self.layers) - 1 else plan
            x, seen = layer(x, step, None if memory is None else memory.layers[i])
            if not last:
                layers.append(seen)
        blocks = chunk.blocks + (0 if memory is None else memory.blocks)
        if last:
            return chunk.only(read, x), Memory(blocks, (), (), None)
        return chunk.only(read, x), Memory(blocks, plan.left, tuple(layers), plan.left_present)
