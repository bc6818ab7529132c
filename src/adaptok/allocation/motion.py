"""`motion`: tokens in proportion to how much the picture changes. The cheap baseline: no scorer, no losses.

In: mean absolute frame differences per row (`ScoreTable.motion`). Out: candidate lengths nearest, in least squares,
to each row's share. Next on the walk: `bithr`.
"""

import numpy as np
from jaxtyping import Float

from adaptok.allocation.ipal import closest_from_below
from adaptok.allocation.problem import Allocation, ScoreTable, Target


def motion(table: ScoreTable, target: Target) -> Allocation:
    """Lengths in proportion to `table.motion`, within the target and its bounds."""
    if table.motion is None:
        raise ValueError("the motion strategy needs ScoreTable.motion: the frame difference of every block")
    if not (np.isfinite(table.motion) & (table.motion >= 0)).all():
        raise ValueError(f"motion must be finite and not negative, got {table.motion.min()} to {table.motion.max()}")
    share = proportional(table.motion.astype(np.float64), target)
    distance = (table.lengths[None, :] - share[:, None]) ** 2
    return Allocation.of(table, closest_from_below(distance, table.lengths, target), target)


def proportional(motion: Float[np.ndarray, " R"], target: Target) -> Float[np.ndarray, " R"]:
    """Shares of the target in proportion to `motion`, each clipped to the bounds, the rest scaled to fit."""
    energy = motion + 1e-9 * motion.max() if motion.max() > 0 else np.ones_like(motion)
    least, most = 0.0, target.upper / energy.min()
    for _ in range(200):  # bisection on the tokens per unit of motion, to the last bit
        scale = (least + most) / 2
        if np.clip(scale * energy, target.lower, target.upper).sum() > target.tokens:
            most = scale
        else:
            least = scale
    return np.clip(least * energy, target.lower, target.upper)


def block_motion(video: Float[np.ndarray, "B C T H W"], frames_per_block: int) -> Float[np.ndarray, "B K"]:
    """Mean absolute difference between successive frames, averaged over the frames of each block.

    The first frame of a video has no predecessor and takes the difference that follows it.
    """
    frames = video.shape[2]
    if frames % frames_per_block or frames < 2:
        raise ValueError(f"{frames} frames do not make whole blocks of {frames_per_block}, or are fewer than 2")
    change = np.abs(np.diff(video, axis=2)).mean(axis=(1, 3, 4))
    change = np.concatenate([change[:, :1], change], axis=1)
    return change.reshape(video.shape[0], -1, frames_per_block).mean(axis=2)
