"""Block-causal decoder: kept tokens in, video out.

In: embedded codes of one or more blocks, how many of each block are kept, and the memory of the blocks before.
Out: pixels. Dropped tokens are absent, not masked: they take no row, no key and no time. Only where samples of a
batch keep different numbers does the shorter one carry padding, which nobody sees.
"""

import torch
from torch import Tensor, nn

from adaptok.blocks.kept import block_sizes, real_rows
from adaptok.blocks.layout import Chunk, Segment
from adaptok.blocks.memory import Memory
from adaptok.blocks.transformer import Stack
from adaptok.blocks.visibility import DECODER, Role
from adaptok.config import Geometry, StackConfig
from adaptok.shapes import Kept, LatentBlocks, Video
from adaptok.tokenizer.patches import PatchOutput
from adaptok.tokenizer.positions import patch_positions, slot_positions


class Decoder(nn.Module):
    """Spreads each block's kept tokens over its patches."""

    patch_positions: Tensor
    slot_positions: Tensor

    def __init__(self, geometry: Geometry, config: StackConfig, learned_slots: bool = False) -> None:
        super().__init__()
        self.geometry = geometry
        self.register_buffer("patch_positions", patch_positions(geometry, config.width), persistent=False)
        slots = slot_positions(geometry, config.width)
        if learned_slots:
            self.slot_positions = nn.Parameter(slots)
        else:
            self.register_buffer("slot_positions", slots, persistent=False)
        self.patch_type = nn.Parameter(0.02 * torch.randn(config.width))
        self.stack = Stack(config, DECODER)
        self.output = PatchOutput(geometry, config.width)

    def arrange(self, embedded: LatentBlocks, kept: Kept, first: int, sizes: tuple[int, ...]) -> Chunk:
        """The transformer's input: for every block its first `sizes` tokens, then its patch queries."""
        g = self.geometry
        batch, count, m, _ = embedded.shape
        p = g.patches_per_block
        slots = self.slot_positions[first * m : (first + count) * m].unflatten(0, (count, m))
        tokens = embedded + slots.to(embedded.dtype)
        queries = (self.patch_positions[first * p : (first + count) * p] + self.patch_type).to(tokens.dtype)
        queries = queries.unflatten(0, (count, p)).expand(batch, -1, -1, -1)
        parts = [part for k in range(count) for part in (tokens[:, k, : sizes[k]], queries[:, k])]
        segments = tuple(
            segment
            for k in range(count)
            for segment in (Segment(Role.LATENT, first + k, sizes[k]), Segment(Role.PATCH, first + k, p))
        )
        rows = real_rows(kept, sizes)
        present = None
        if rows is not None:
            patches = torch.ones(batch, p, dtype=torch.bool, device=kept.device)
            present = torch.cat([part for block in rows for part in (block, patches)], dim=1)
        return Chunk(torch.cat(parts, dim=1), segments, count, present)

    def forward(self, embedded: LatentBlocks, kept: Kept, memory: Memory | None = None) -> tuple[Video, Memory]:
        """Decode the blocks that follow those in `memory`."""
        first = 0 if memory is None else memory.blocks
        chunk = self.arrange(embedded, kept, first, block_sizes(kept))
        last = first + chunk.blocks == self.geometry.blocks
        out, memory = self.stack(chunk, memory, read=frozenset({Role.PATCH}), last=last)
        return self.output(out.tokens), memory
