"""One block of a token stream: what a session hands out, a container stores and a decoder takes.

Next on the walk: `records.py`, which turns blocks into bytes.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer


@dataclass(frozen=True, eq=False, kw_only=True)
class _BlockFacts:
    """What every stored block has, however its codes are written."""

    index: int
    """Place in the stream, counted from 0."""
    frames: int
    """Real frames of the block; fewer than T / K where the video ended and the rest was padding."""
    timestamps: tuple[int, ...] | None = None
    """When each real frame is shown, in the header's time base; None in streams of constant frame rate."""
    scores: Float[np.ndarray, " S"] | None = None
    """Predicted loss at each of the header's candidate lengths, before any tail was dropped."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenBlock(_BlockFacts):
    """A block whose kept codes are at hand."""

    codes: Integer[np.ndarray, " N"]

    @property
    def kept(self) -> int:
        """How many tokens the block retains."""
        return len(self.codes)


@dataclass(frozen=True, eq=False, kw_only=True)
class CodedBlock(_BlockFacts):
    """A block whose codes are entropy coded: the container carries `payload` without looking into it."""

    kept: int
    payload: bytes


Block = TokenBlock | CodedBlock


def same_block(a: Block, b: Block) -> bool:
    """Whether two blocks say the same; arrays have no single truth value, so `==` is not defined on blocks."""
    if type(a) is not type(b) or (a.index, a.frames, a.timestamps) != (b.index, b.frames, b.timestamps):
        return False
    if (a.scores is None) != (b.scores is None):
        return False
    if a.scores is not None and b.scores is not None and not np.array_equal(a.scores, b.scores, equal_nan=True):
        return False
    if isinstance(a, TokenBlock) and isinstance(b, TokenBlock):
        return np.array_equal(a.codes, b.codes)
    return isinstance(a, CodedBlock) and isinstance(b, CodedBlock) and (a.kept, a.payload) == (b.kept, b.payload)
