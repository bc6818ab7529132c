"""The generator: a Llama-style transformer that predicts the next id of a sequence from all before it.

In: ids (B,N), the condition first. Out: scores of every code and of the block's end as the next id. Learned absolute
positions, of ids as they are counted or of the slots they fill; normalisation in float32; queries, keys and values in
one product, gate and up in another. The same layers run over whole sequences (training, the slow oracle) and one row at
a time over a cache. Next: choice.py, cache.py.
"""

from typing import Protocol, no_type_check, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from adaptok.generation.config import GeneratorConfig, LlamaConfig

Rows = Float[Tensor, "B N D"]
Heads = Float[Tensor, "B H N d"]
EPS = 1e-5


@runtime_checkable
class Attend(Protocol):
    """How queries meet keys and values: causally among themselves, or against a cache."""

    def __call__(self, layer: int, q: Heads, k: Heads, v: Heads) -> Heads:
        """What the queries read."""


class RMSNorm(nn.Module):
    """Scale to unit mean square, in float32 at least, whatever the precision of the rows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Normalised rows."""
        wide = x if x.dtype == torch.float64 else x.float()
        return F.rms_norm(wide, self.weight.shape, eps=EPS).to(x.dtype) * self.weight


class Layer(nn.Module):
    """Attention, then SwiGLU; both read normalised rows and add to the plain ones."""

    def __init__(self, config: LlamaConfig, number: int) -> None:
        super().__init__()
        self.number, self.heads = number, config.heads
        self.norm1 = RMSNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.proj = nn.Linear(config.width, config.width, bias=False)
        self.norm2 = RMSNorm(config.width)
        self.gate_up = nn.Linear(config.width, 2 * config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)
        self.dropout = nn.Dropout(config.residual_dropout)

    def forward(self, x: Rows, attend: Attend) -> Rows:
        """The next layer's rows."""
        batch, count, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        read = attend(self.number, q, k, v).transpose(1, 2).reshape(batch, count, width)
        x = x + self.dropout(self.proj(read))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.dropout(self.down(F.silu(gate) * up))


class Llama(nn.Module):
    """The stack of layers."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Layer(config, number) for number in range(config.depth))
        self.norm = RMSNorm(config.width)

    def forward(self, x: Rows, attend: Attend) -> Rows:
        """Normalised rows after the last layer."""
        for layer in self.layers:
            x = layer(x, attend)
        return self.norm(x)

    def causal(self, layer: int, q: Heads, k: Heads, v: Heads) -> Heads:
        """Every row sees itself and the rows before it."""
        del layer
        dropout = self.config.attention_dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)


class Generator(nn.Module):
    """Ids in, scores of the next id out."""

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__()
        self.config = config
        width = config.transformer.width
        self.embedding = nn.Embedding(config.ids, width)
        self.positions = nn.Parameter(0.02 * torch.randn(config.positions, width))
        self.dropout = nn.Dropout(config.transformer.token_dropout)
        self.llama = Llama(config.transformer)
        self.head = nn.Linear(width, config.outputs, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        # As published: all ids are equally likely before the first step.
        nn.init.zeros_(self.head.weight)

    def forward(self, ids: Int[Tensor, "B N"], where: Bool[Tensor, "B N"] | None = None) -> Float[Tensor, "*rows V1"]:
        """Scores of what follows each id (B,N,V+1), or one row for each id marked in `where`."""
        rows = self.rows(ids)
        return self.head(rows if where is None else rows[where])

    def rows(self, ids: Int[Tensor, "B N"]) -> Rows:
        """What the head reads."""
        x = self.dropout(self.embedding(ids)) + self.positions[self.places(ids)]
        return self.llama(x, self.llama.causal)

    def places(self, ids: Int[Tensor, "B N"]) -> Int[Tensor, "*B N"]:
        """The place of every id: how many stand before it, or its block and slot where places are slots."""
        count = torch.arange(ids.shape[1], device=ids.device)
        config, front = self.config, self.config.condition_rows
        if not config.slots:
            return count
        ends = (ids == config.end) & (count >= front)
        block = ends.cumsum(dim=1) - ends.long()
        begins = torch.where(ends, count + 1, front).cummax(dim=1).values  # of the block after each id
        begin = F.pad(begins[:, :-1], (1, 0), value=front)
        slot = torch.where(ends, config.tokens_per_block, count - begin)
        placed = torch.where(count < front, count, config.place(0, 0) + block * (config.tokens_per_block + 1) + slot)
        return placed.clamp(max=config.positions - 1)  # padding may run on

    @no_type_check
    def logits(self, cond: Tensor, idx: Tensor) -> Tensor:
        """Scores over [condition, idx], as the published models give them.

        Args:
            cond: class numbers (B,), of which the last is "no class"; or context ids (B,C).
            idx: ids of the sequence so far (B,N).

        Returns:
            For classes the scores after every row (B,1+N,V+1); for context those from its last row on.
        """
        config = self.config
        for name, value in (("cond", cond), ("idx", idx)):
            if not isinstance(value, Tensor) or value.dtype not in (torch.int32, torch.int64):
                raise ValueError(f"{name} must be a tensor of integers, got {getattr(value, 'dtype', type(value))}")
        if cond.shape[1:] != (() if config.classes else (config.condition_rows,)) or idx.ndim != 2:
            wanted = "(B,)" if config.classes else f"(B,{config.condition_rows})"
            raise ValueError(f"cond {wanted} and idx (B,N) are needed, got {tuple(cond.shape)} and {tuple(idx.shape)}")
        if len(cond) != len(idx):
            raise ValueError(f"cond is for {len(cond)} samples and idx for {len(idx)}")
        front = cond[:, None] + config.outputs if config.classes else cond
        ids = torch.cat([front, idx], dim=1)
        if ids.shape[1] > config.positions:
            raise ValueError(f"{ids.shape[1]} ids are more than the {config.positions} places of this generator")
        low, high = (bound.item() for bound in torch.aminmax(ids))
        if low < 0 or high >= config.ids:
            raise ValueError(f"ids must lie in 0..{config.ids - 1}, found {low} to {high} (classes come last)")
        return self(ids) if config.classes else self.head(self.rows(ids)[:, config.condition_rows - 1 :])
