"""What later blocks may still see of earlier ones: a value, passed in and handed back, never kept inside a module.

In and out: the keys and values of remembered rows, one pair per layer. Because a memory is never changed in place,
a stream can be forked by keeping a reference. Next on the walk: transformer.py.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from adaptok.blocks.layout import Segment
from adaptok.shapes import Present

Heads = Float[Tensor, "B heads _ head_width"]


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of one layer."""

    keys: Heads
    values: Heads


@dataclass(frozen=True)
class Memory:
    """Remembered rows of all blocks so far; `blocks` counts the blocks seen, empty ones included."""

    blocks: int
    segments: tuple[Segment, ...]
    layers: tuple[KeyValues, ...]
    present: Present | None

    @property
    def tokens(self) -> int:
        """Rows held per layer."""
        return sum(segment.size for segment in self.segments)
