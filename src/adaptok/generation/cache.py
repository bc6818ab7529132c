"""Keys and values of all rows that are being generated, in memory that is claimed once.

In: the keys and values of new ids. Out: what they read of their own row's past. Every step writes one column, the same
for all rows; a row that began later (or shorter) has its first id in a later column, its offset. So rows at different
places of different blocks share every product, a slice of the memory is all that attention needs, and a mask only where
offsets differ. Positions are in the embeddings, so columns carry no meaning. Next on the walk: sampling.py.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from adaptok.generation.config import LlamaConfig
from adaptok.generation.generator import Heads


class Cache:
    """Keys and values (rows, heads, columns, head width) per layer; `count` rows are in use."""

    def __init__(self, config: LlamaConfig, rows: int, columns: int, like: Tensor) -> None:
        shape = (rows, config.heads, columns, config.width // config.heads)
        self._keys = [torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in range(config.depth)]
        self._values = [torch.zeros(shape, dtype=like.dtype, device=like.device) for _ in range(config.depth)]
        self._bias = torch.zeros(rows, columns, dtype=like.dtype, device=like.device)
        self._mask: Float[Tensor, "B 1 1 N"] | None = None
        self.columns = columns
        self.count = 0
        self.column = 0
        """Where the next ids go."""
        self.offsets = [0] * rows
        self._first = 0

    @property
    def bytes(self) -> int:
        """Memory claimed."""
        return sum(t.numel() * t.element_size() for t in (*self._keys, *self._values, self._bias))

    def begin(self) -> None:
        """Prepare a step: what it reads is the same for all layers."""
        if self.column == self.columns:
            self._shift()
        used = self.offsets[: self.count]
        self._first = min(used)
        same = max(used) == self._first
        self._mask = None if same else self._bias[: self.count, None, None, self._first : self.column + 1]

    def step(self, layer: int, q: Heads, k: Heads, v: Heads) -> Heads:
        """One new id per row in use."""
        n, first, here = self.count, self._first, self.column
        keys, values = self._keys[layer], self._values[layer]
        keys[:n, :, here] = k[:, :, 0]
        values[:n, :, here] = v[:, :, 0]
        return F.scaled_dot_product_attention(
            q, keys[:n, :, first : here + 1], values[:n, :, first : here + 1], attn_mask=self._mask
        )

    def filler(self, rows: list[int], length: int) -> "Filler":
        """How the first `length` ids of new contents of some rows are read and remembered."""
        if length > self.column:
            self._make_room(length - self.column)
        for row in rows:
            self.offsets[row] = self.column - length
            self._bias[row] = 0
            self._bias[row, : self.column - length] = -torch.inf
        return Filler(self._keys, self._values, rows, slice(self.column - length, self.column))

    def move(self, source: int, target: int) -> None:
        """Put one row's contents in another row's place."""
        if source == target:
            return
        live = slice(self.offsets[source], self.column)
        for tensor in (*self._keys, *self._values):
            tensor[target, :, live] = tensor[source, :, live]
        self._bias[target] = self._bias[source]
        self.offsets[target] = self.offsets[source]

    def _make_room(self, more: int) -> None:
        """Move everything to later columns: a row that is let in may be longer than what the others have by now."""
        if self.column + more > self.columns:
            raise ValueError(f"{self.column + more} ids do not fit into {self.columns} columns")
        live, moved = slice(0, self.column), slice(more, self.column + more)
        for tensor in (*self._keys, *self._values):
            tensor[: self.count, :, moved] = tensor[: self.count, :, live].clone()
        self._bias[:, more:] = self._bias[:, : self.columns - more].clone()
        self._bias[:, :more] = -torch.inf
        self.offsets = [offset + more for offset in self.offsets]
        self.column += more

    def _shift(self) -> None:
        """Forget columns that no row needs any more, so that there is room again."""
        away = min(self.offsets[: self.count])
        live = slice(away, self.column)
        for tensor in (*self._keys, *self._values):
            tensor[: self.count, :, : self.column - away] = tensor[: self.count, :, live].clone()
        self._bias[:, : self.columns - away] = self._bias[:, away:].clone()
        self._bias[:, self.columns - away :] = 0
        self.offsets = [max(0, offset - away) for offset in self.offsets]
        self.column -= away


class Filler:
    """Causal attention among the ids of a prompt that leaves their keys and values in the cache."""

    def __init__(self, keys: list[Tensor], values: list[Tensor], rows: list[int], columns: slice) -> None:
        self._keys, self._values, self._rows, self._columns = keys, values, rows, columns

    def __call__(self, layer: int, q: Heads, k: Heads, v: Heads) -> Heads:
        """Read among themselves, remember."""
        self._keys[layer][self._rows, :, self._columns] = k
        self._values[layer][self._rows, :, self._columns] = v
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
