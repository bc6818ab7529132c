"""Block-causal encoder: patches and learned queries in, latents out.

In: video of one or more whole blocks, and the memory of the blocks before. Out: M latents per block (next:
quantizer.py). Nothing of a later block can reach an earlier latent.
"""

import torch
from torch import Tensor, nn

from adaptok.blocks.layout import Chunk, Segment
from adaptok.blocks.memory import Memory
from adaptok.blocks.transformer import Stack
from adaptok.blocks.visibility import ENCODER, Role
from adaptok.config import Geometry, StackConfig
from adaptok.shapes import LatentBlocks, Video
from adaptok.tokenizer.patches import PatchEmbedding
from adaptok.tokenizer.positions import patch_positions


class Encoder(nn.Module):
    """Gathers each block's patches into M latent tokens."""

    patch_positions: Tensor

    def __init__(self, geometry: Geometry, config: StackConfig, relative: bool = False) -> None:
        super().__init__()
        self.geometry = geometry
        self.relative = relative
        self.patches = PatchEmbedding(geometry, config.width)
        self.register_buffer("patch_positions", patch_positions(geometry, config.width), persistent=False)
        self.queries = nn.Parameter(0.02 * torch.randn(geometry.tokens, config.width))
        self.stack = Stack(config, ENCODER)

    def embed(self, video: Video, first: int) -> Chunk:
        """The transformer's input for blocks `first`, `first` + 1, ...: each its patches, then its queries."""
        g = self.geometry
        count = video.shape[2] // g.block_frames
        p, m = g.patches_per_block, g.tokens_per_block
        patches = self.patches(video)
        patches = patches + self.patch_positions[first * p : (first + count) * p].to(patches.dtype)
        queries = self.queries[first * m : (first + count) * m].to(patches.dtype)
        queries = queries.unflatten(0, (count, m)).expand(len(patches), -1, -1, -1)
        tokens = torch.cat([patches.unflatten(1, (count, p)), queries], dim=2).flatten(1, 2)
        segments = tuple(
            segment
            for block in range(first, first + count)
            for segment in (Segment(Role.PATCH, block, p), Segment(Role.LATENT, block, m))
        )
        return Chunk(tokens, segments, count)

    def read(self, chunk: Chunk) -> LatentBlocks:
        """The transformer's output at the queries, as blocks; less the queries where latents are relative."""
        latents = chunk.of(Role.LATENT)
        if self.relative:
            start = chunk.segments[0].block * self.geometry.tokens_per_block
            latents = latents - self.queries[start : start + latents.shape[1]].to(latents.dtype)
        return latents.unflatten(1, (chunk.blocks, -1))

    def forward(self, video: Video, memory: Memory | None = None) -> tuple[LatentBlocks, Memory]:
        """Encode the blocks that follow those in `memory`."""
        chunk = self.embed(video, first=0 if memory is None else memory.blocks)
        last = chunk.segments[-1].block + 1 == self.geometry.blocks
        out, memory = self.stack(chunk, memory, read=frozenset({Role.LATENT}), last=last)
        return self.read(out), memory
