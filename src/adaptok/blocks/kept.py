"""Blocks cut to the tokens they keep, for one sample or a batch whose samples keep different numbers.

In: `kept` (B,K). Out: the rows each block needs, and which of them are real. Used by decoder and scorer.
"""

import torch

from adaptok.shapes import Kept, Present


def block_sizes(kept: Kept) -> tuple[int, ...]:
    """Rows each block needs: as many as the sample that keeps most."""
    return tuple(kept.amax(dim=0).tolist())


def real_rows(kept: Kept, sizes: tuple[int, ...]) -> tuple[Present, ...] | None:
    """For every block of `sizes` rows which are kept; None where all are, so that no mask is built."""
    if all(n == size for row in kept.tolist() for n, size in zip(row, sizes, strict=True)):
        return None
    return tuple(torch.arange(n, device=kept.device) < kept[:, k, None] for k, n in enumerate(sizes))
