"""A short clip made by arithmetic, for demos and tests that need no file."""

import torch

from adaptok.shapes import Video


def bouncing_disc(frames: int, height: int, width: int) -> Video:
    """A bright disc that crosses a slowly shifting colour gradient; (1,3,T,H,W) in [0,1]."""
    t = torch.arange(frames)[:, None, None] / max(frames - 1, 1)
    y = torch.linspace(0, 1, height)[None, :, None]
    x = torch.linspace(0, 1, width)[None, None, :]
    red = 0.2 + 0.4 * x + 0.2 * t + 0 * y
    green = 0.3 + 0.4 * y - 0.1 * t + 0 * x
    blue = 0.6 - 0.3 * x * y + 0 * t
    distance = (x - 0.2 - 0.6 * t) ** 2 + (y - 0.8 + 2.4 * t * (1 - t)) ** 2
    disc = torch.sigmoid((0.02 - distance) * 400)
    return torch.stack([red, green, blue]).lerp(torch.tensor(0.95), disc)[None]
