"""A small model, short videos and networks that cost nothing, for the tests of evaluation."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adaptok import Codec
from adaptok.config import Geometry
from adaptok.evaluation import Settings, measuring
from adaptok.metrics import I3D, LPIPS
from adaptok.video import create_video
from tiny_models import tiny_bundle, tiny_config

GEOMETRY = Geometry(frames=12, height=32, width=32, patch_frames=2, patch_size=8, blocks=3, tokens_per_block=8)
FPS = Fraction(24)
SETTINGS = Settings(budgets=(4, 6), strategies=("fixed", "ipal"), batch=2, resamples=50)
PIXELS = Settings(budgets=(4,), strategies=("fixed",), metrics=("psnr",), batch=2, resamples=20)


def small_codec(geometry: Geometry = GEOMETRY, seed: int = 0) -> Codec:
    """Candidate lengths 2, 4, 6, 8; 5 bits per token."""
    return Codec(tiny_bundle(tiny_config(geometry, depth=1), seed=seed, dtype=torch.float32))


def pattern(frames: int, height: int, width: int, seed: int) -> np.ndarray:
    """Waves that drift, at a speed and in colours of their own."""
    rng = np.random.default_rng(seed)
    t, y, x = np.mgrid[0:frames, 0:height, 0:width]
    planes = [128 + 90 * np.sin((x * a + y * b) / 6 + t * c + d) for a, b, c, d in rng.uniform(-1, 1, (3, 4))]
    return np.stack(planes, axis=-1).clip(0, 255).astype(np.uint8)


def make_videos(folder: Path, count: int, frames: int = 30) -> Path:
    """`count` videos v0.mp4, v1.mp4, ... of 48×40 pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        with create_video(folder / f"v{number}.mp4", height=40, width=48, fps=FPS, time_base=1 / FPS) as writer:
            for pts, image in enumerate(pattern(frames, 40, 48, number)):
                writer.write(image, pts)
    return folder


class CheapI3D(I3D):
    """Mean colours instead of logits."""

    calls = 0

    def __init__(self) -> None:
        nn.Module.__init__(self)

    def forward(self, video: Tensor) -> Tensor:
        CheapI3D.calls += len(video)
        return torch.cat([video.mean(dim=(2, 3, 4)), video.std(dim=(2, 3, 4))], dim=1)


class CheapLPIPS(LPIPS):
    """Mean difference instead of a network's."""

    def __init__(self, net: str) -> None:
        nn.Module.__init__(self)
        self.net = net

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return (a - b).abs().mean(dim=(1, 2, 3))


def make_cheap(patch: pytest.MonkeyPatch, cache: Path) -> None:
    """Cheap networks, and a cache that no one else sees."""
    patch.setenv("ADAPTOK_CACHE", str(cache))
    patch.setattr(measuring, "I3D", CheapI3D)
    patch.setattr(measuring, "LPIPS", CheapLPIPS)
    patch.setattr(CheapI3D, "calls", 0)


def files(out: Path) -> list[bytes]:
    """What an evaluation wrote."""
    return [(out / name).read_bytes() for name in ("evaluation.json", "evaluation.csv", "report.html")]
