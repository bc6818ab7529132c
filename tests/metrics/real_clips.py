"""Real clips for the metric tests."""

from pathlib import Path

import av
import torch
import torch.nn.functional as F
from torch import Tensor


def read_clip(path: Path, frames: int, size: int) -> Tensor:
    """The first frames of a video as (3,T,size,size) in [0,1], squeezed to a square."""
    with av.open(path) as container:
        decoded = [f.to_ndarray(format="rgb24") for f, _ in zip(container.decode(video=0), range(frames), strict=False)]
    video = torch.stack([torch.from_numpy(frame) for frame in decoded]).permute(0, 3, 1, 2).float() / 255
    return F.interpolate(video, (size, size), mode="bilinear", antialias=True).transpose(0, 1)


def read_clips(folder: Path, count: int, frames: int, size: int) -> Tensor:
    """Clips (count,3,T,size,size) spread evenly over the folder's videos, in a fixed order."""
    paths = sorted(folder.rglob("*.mp4"))
    clips = (read_clip(paths[i * len(paths) // count], frames, size) for i in range(count))
    return torch.stack(list(clips))
