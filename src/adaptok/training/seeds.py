"""Random numbers that belong to a step, not to a process: nothing has to be saved to resume a run exactly.

In: the run's seed, the step, and what the numbers are for. Out: a generator. Next on the walk: objective.py.
"""

from enum import IntEnum

import numpy as np
import torch


class Purpose(IntEnum):
    """What random numbers are drawn for; each purpose has its own stream."""

    START = 0
    SHARED = 1
    """Choices that all processes must make alike, such as lengths."""
    OWN = 2
    """Draws that differ between processes, such as sampled codes."""
    CODEBOOK = 3


def generator(seed: int, step: int, purpose: Purpose, rank: int = 0) -> torch.Generator:
    """A generator on the CPU, the same for the same arguments."""
    words = np.random.SeedSequence([seed, step, int(purpose), rank]).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(words[0]) << 32 | int(words[1]))
