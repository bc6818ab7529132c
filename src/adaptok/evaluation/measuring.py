"""Pixels to numbers: every metric of a pair of clips, and the I3D features that FVD compares.

In: original and reconstruction as 8-bit frames, as a viewer gets them. Out: one value per clip, or its 400 features.
The networks are loaded at first use. Features are kept in the user's cache by the pixels they belong to, so that those
of the originals serve every model. Next on the walk: reference.py.
"""

import hashlib
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float32, Float64, UInt8
from torch import Tensor

from adaptok.allocation.truth import BlockLoss, block_loss
from adaptok.metrics import I3D, LPIPS, mse, psnr, ssim
from adaptok.metrics.i3d import by_twos
from adaptok.metrics.weights import CATALOGUE, cache_dir
from adaptok.store import Record, Store, key_of
from adaptok.video import to_video

ClipImages = UInt8[np.ndarray, "B T H W 3"]
PSNR_CAP = 100.0
"""dB that an exact reconstruction counts as: infinity has no place in JSON, in a mean or on an axis."""


class Meter:
    """All metrics, on one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cache = Store(cache_dir() / "features")

    @cached_property
    def _alex(self) -> LPIPS:
        return LPIPS("alex").to(self._device)

    @cached_property
    def _vgg(self) -> LPIPS:
        return LPIPS("vgg").to(self._device)

    @cached_property
    def _i3d(self) -> I3D:
        return I3D().to(self._device)

    def loss(self, scoring: str) -> BlockLoss:
        """The loss that an oracle minimises."""
        return block_loss(scoring, self._alex if scoring == "perceptual" else None)

    @torch.inference_mode()
    def values(self, metric: str, original: ClipImages, shown: ClipImages) -> Float64[Tensor, " B"]:
        """One number per clip; clip by clip, so that no value depends on the others."""
        compare: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
            "psnr": lambda a, b: psnr(a, b).clamp(max=PSNR_CAP),
            "ssim": ssim,
            "mse": mse,
            "lpips": lambda a, b: self._alex.video(a, b),
            "lpips-vgg": lambda a, b: self._vgg.video(a, b),
        }
        pairs = zip(original, shown, strict=True)
        values = [compare[metric](self._float(a), self._float(b))[0, 0].cpu().double() for a, b in pairs]
        return torch.stack(values)

    @torch.inference_mode()
    def features(self, shown: ClipImages) -> Float32[Tensor, "B D"]:
        """I3D's logits of each clip, from the cache where these very pixels were seen before."""
        pixels = hashlib.sha256(np.ascontiguousarray(shown).data).hexdigest()
        key = key_of("features", CATALOGUE["i3d"].content, list(shown.shape), pixels)
        known = self._cache.read(key)
        if known is not None:
            return known.tensors["features"]
        videos = (torch.cat([self._float(clip) for clip in some]) for some in by_twos(list(shown)))
        features = torch.cat([self._i3d(video).float().cpu() for video in videos])
        self._cache.write(key, Record({"features": features}))
        return features

    def _float(self, clip: UInt8[np.ndarray, "T H W 3"]) -> Tensor:
        return to_video(clip).to(self._device)
