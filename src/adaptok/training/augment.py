"""One clip out of a video: a window in time, a crop, and variations that keep it a plausible video.

In: frames (T,H,W,3) of any number and size, and a random generator that belongs to this sample alone. Out: a clip
(3,t,h,w) of bytes. With few videos, these variations are what keeps a model from memorising. Next: clips.py.
"""

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from adaptok.training.data_settings import AugmentConfig
from adaptok.training.frames import AnyFrames, Frames
from adaptok.video import centre_cropped

ClipBytes = UInt8[Tensor, "3 t h w"]
Images = Float[Tensor, "t 3 h2 w2"]


def training_clip(
    frames: AnyFrames, count: int, size: tuple[int, int], config: AugmentConfig, rng: Generator
) -> ClipBytes:
    """A random clip of `count` frames of `size` (height, width)."""
    clip = _scene(frames, count, size, config, rng)
    # Without cuts no number is drawn for them: recipes without cuts show the clips they always did.
    if config.cuts and rng.random() < config.cuts and count > 1:
        cut = int(rng.integers(1, count))
        clip = torch.cat([clip[:, :cut], _scene(frames, count, size, config, rng)[:, cut:]], dim=1)
    return clip


def _scene(frames: AnyFrames, count: int, size: tuple[int, int], config: AugmentConfig, rng: Generator) -> ClipBytes:
    """A random clip without cuts but those of the video."""
    transposed = rng.random() < config.transpose
    target = size[::-1] if transposed else size
    if rng.random() < config.stills:
        clip = _pan(frames[rng.integers(len(frames))], count, target, config, rng)
    else:
        clip = _crop(frames[_window(len(frames), count, config.strides, rng)], target, config, rng)
    if rng.random() < config.reverse:
        clip = clip.flip(0)
    if rng.random() < config.flip:
        clip = clip.flip(3)
    if transposed:
        clip = clip.transpose(2, 3)
    clip = _recoloured(clip, config, rng)
    return clip.mul(255).round().clamp(0, 255).to(torch.uint8).transpose(0, 1).contiguous()


def validation_clip(frames: AnyFrames, count: int, size: tuple[int, int]) -> ClipBytes:
    """The middle of the video, cropped centrally: the same clip every time."""
    start = max(0, (len(frames) - count) // 2)
    chosen = np.minimum(np.arange(start, start + count), len(frames) - 1)
    images = centre_cropped(np.array(frames[chosen]), *size)
    return torch.from_numpy(images).permute(3, 0, 1, 2).contiguous()


def _window(total: int, count: int, strides: tuple[int, ...], rng: Generator) -> slice | np.ndarray:
    """Frame numbers of a random window; a video that is too short is played back and forth."""
    fitting = [stride for stride in strides if (count - 1) * stride < total]
    if not fitting:
        there_and_back = np.concatenate([np.arange(total), np.arange(total - 2, 0, -1)])
        return there_and_back[(rng.integers(total) + np.arange(count)) % len(there_and_back)]
    stride = int(rng.choice(fitting))
    span = (count - 1) * stride + 1
    start = int(rng.integers(total - span + 1))
    return slice(start, start + span, stride)


def _crop(images: Frames, size: tuple[int, int], config: AugmentConfig, rng: Generator) -> Images:
    """A random part of the wanted shape, at the wanted size; the same part of every frame."""
    height, width = images.shape[1:3]
    side = min(height / size[0], width / size[1]) * rng.uniform(*config.crop)
    h, w = max(1, round(size[0] * side)), max(1, round(size[1] * side))
    top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
    part = np.array(images[:, top : top + h, left : left + w])
    pixels = torch.from_numpy(part).permute(0, 3, 1, 2).float().div(255)
    return interpolate(pixels, size=size, mode="bilinear", antialias=True, align_corners=False).clamp(0, 1)


def _pan(
    image: UInt8[np.ndarray, "H W 3"], count: int, size: tuple[int, int], config: AugmentConfig, rng: Generator
) -> Images:
    """A camera that moves and zooms steadily over one frame."""
    height, width = image.shape[:2]
    largest = min(height / size[0], width / size[1])
    sides = largest * rng.uniform(*config.crop, size=2)
    # Speed is limited: over the whole clip at most a quarter of the view.
    sides[1] = np.clip(sides[1], 0.75 * sides[0], min(largest, 1.33 * sides[0]))
    half = sides[:, None] * np.array(size) / 2
    room = np.maximum(np.array([height, width]) - 2 * half, 0)
    start = half[0] + rng.random(2) * room[0]
    end = np.clip(start + rng.uniform(-0.5, 0.5, 2) * half[0], half[1], half[1] + room[1])
    along = np.linspace(0, 1, count)[:, None]
    centres = (1 - along) * start + along * end
    halves = (1 - along) * half[0] + along * half[1]
    extent = np.array([height, width])
    # affine_grid counts from −1 to 1, columns before rows.
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0] = torch.from_numpy(halves[:, 1] / (extent[1] / 2))
    theta[:, 1, 1] = torch.from_numpy(halves[:, 0] / (extent[0] / 2))
    theta[:, 0, 2] = torch.from_numpy(2 * centres[:, 1] / extent[1] - 1)
    theta[:, 1, 2] = torch.from_numpy(2 * centres[:, 0] / extent[0] - 1)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float().div(255)
    # Reduced first to about one source pixel per target pixel, as the sampling below has no filter.
    reduced = (max(2, round(height / sides.mean())), max(2, round(width / sides.mean())))
    if sides.mean() > 1:
        pixels = interpolate(pixels, size=reduced, mode="bilinear", antialias=True, align_corners=False)
    grid = affine_grid(theta, [count, 3, *size], align_corners=False)
    frames = pixels.expand(count, -1, -1, -1)
    return grid_sample(frames, grid, padding_mode="border", align_corners=False).clamp(0, 1)


def _recoloured(clip: Images, config: AugmentConfig, rng: Generator) -> Images:
    """Gain per channel, contrast, saturation and gamma, the same for all frames."""
    if config.colour:
        gain, contrast, saturation = (1 + rng.uniform(-config.colour, config.colour, n) for n in (3, 1, 1))
        clip = clip * torch.from_numpy(gain).float().view(3, 1, 1)
        clip = (clip - 0.5) * float(contrast[0]) + 0.5
        grey = clip.mean(dim=1, keepdim=True)
        clip = grey + (clip - grey) * float(saturation[0])
    if config.gamma:
        clip = clip.clamp(0, 1) ** float((1 + config.gamma) ** rng.uniform(-1, 1))
    return clip
