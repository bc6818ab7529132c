"""Fixed sine-cosine positions: which place and time a patch has, which slot a token has.

In: sizes. Out: tables that are added to embeddings before the transformer (next: encoder.py). They are computed once
in double precision, never learned and never stored in checkpoints.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from adaptok.config import Geometry

BASE = 10_000.0


def line_positions(count: int, width: int) -> Float[Tensor, "N D"]:
    """Positions 0..count−1 along a line: all sines, then all cosines."""
    half = width // 2
    frequencies = BASE ** -(torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(count, dtype=torch.float64)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def patch_positions(geometry: Geometry, width: int) -> Float[Tensor, "N D"]:
    """Place within the frame (column half, then row half) plus time, for all patches of a clip."""
    steps, rows, columns = geometry.grid
    time = line_positions(steps * geometry.blocks, width)[:, None, None, :]
    row = line_positions(rows, width // 2)[:, None, :].expand(rows, columns, -1)
    column = line_positions(columns, width // 2)[None, :, :].expand(rows, columns, -1)
    place = torch.cat([column, row], dim=-1)
    return (time + place).flatten(0, 2).float()


def slot_positions(geometry: Geometry, width: int) -> Float[Tensor, "N D"]:
    """One position for each of the clip's K·M token slots."""
    return line_positions(geometry.tokens, width).float()
