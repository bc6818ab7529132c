"""Pickled numpy arrays, read without running anything: the one reader of the downloaded checkpoints.

In: the bytes of a pickle that holds nested dicts of arrays. Out: one flat dict, keys are paths joined by "/".
A pickle is a program; this reader lets it name numpy's `ndarray`, `dtype` and `_reconstruct` and no more:
no other code can be reached, whatever the file says. Next on the walk: convert.py.
"""

import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

# The function has a private home that moved between numpy 1 and 2: an array's own recipe names it on both.
_RECONSTRUCT = np.zeros(0).__reduce__()[0]

ADMITTED: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
}
"""Everything a pickle may name, by module and name; both of numpy's spellings of `_reconstruct`."""

Arrays = dict[str, np.ndarray]
"""Arrays by their path in the nested dicts, joined by "/"."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuse all but the admitted names: this is the only door from a pickle to code."""
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"names {module}.{name}, which is not an array")
        return ADMITTED[module, name]


def read_arrays(data: bytes) -> Arrays:
    """Read a pickle of nested dicts of float32 arrays; anything else is a ValueError that says what."""
    try:
        tree = _ArrayUnpickler(io.BytesIO(data)).load()
    # A damaged or hostile pickle can make the machine fail in nearly any way.
    except Exception as error:
        raise ValueError(f"not a pickle of plain arrays: {error}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"not a pickle of plain arrays: the outermost object is a {type(tree).__name__}")
    return _flatten(tree, "")


def _flatten(tree: dict[Any, Any], prefix: str) -> Arrays:
    flat: Arrays = {}
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= _flatten(value, f"{path}/")
        elif isinstance(value, np.ndarray) and value.dtype == np.float32:
            flat[path] = value
        else:
            kind = f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__
            raise ValueError(f"not a pickle of plain arrays: {path} is a {kind}, not a float32 array")
    return flat
