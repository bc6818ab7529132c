"""In: a kernel written as plain loops over numpy arrays. Out: the same kernel, compiled where numba is installed.

The kernels (`hull`, `core`, `monotone`) are ordinary Python, so without numba they run as they stand: same text,
same arithmetic, same answers, some hundred times slower. They use one thread and no fast-math, so the order of
every addition is the one in the source. Machine code is kept on disk next to the module, or in the user's cache
where that folder is read-only, so only the first process on a machine pays for compiling.

Kernels carry `@no_type_check`: a compiled function cannot be wrapped by a run-time type checker.
"""

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

try:
    _njit: Any = importlib.import_module("numba").njit
except ImportError:
    _njit = None

HAS_COMPILER: bool = _njit is not None
"""Whether kernels are compiled in this process."""


def compiled(kernel: Kernel) -> Kernel:
    """Compile `kernel` on its first call, or return it unchanged where numba is absent."""
    if _njit is None:
        return kernel
    try:
        return _njit(kernel, cache=True)
    except RuntimeError:  # numba found no folder it may write its cache to
        return _njit(kernel)
