"""What comes in from outside is checked once, at the tokenizer's doors; errors name the value and the limit."""

from typing import no_type_check

import torch
from torch import Tensor

from adaptok.config import Geometry


@no_type_check
def check_video(video: Tensor, geometry: Geometry, blocks: int | None = None) -> None:
    """A float video (B,3,T,H,W) in [0,1] of the model's size and of `blocks` blocks (any number if None)."""
    g = geometry
    if not isinstance(video, Tensor) or not video.is_floating_point():
        kind = video.dtype if isinstance(video, Tensor) else type(video).__name__
        raise ValueError(f"video must be a float tensor in [0, 1], got {kind}; divide uint8 frames by 255")
    if video.ndim != 5:
        raise ValueError(f"video must have 5 axes (B,3,T,H,W), got shape {tuple(video.shape)}")
    if video.shape[1] != 3:
        raise ValueError(f"video must have 3 channels on axis 1, got {video.shape[1]} in {tuple(video.shape)}")
    if tuple(video.shape[3:]) != (g.height, g.width):
        raise ValueError(f"video frames are {video.shape[3]}×{video.shape[4]}, the model takes {g.height}×{g.width}")
    if blocks is not None and video.shape[2] != blocks * g.block_frames:
        raise ValueError(f"video has {video.shape[2]} frames, the model takes clips of {blocks * g.block_frames}")
    if video.shape[2] == 0 or video.shape[2] % g.block_frames:
        raise ValueError(f"video has {video.shape[2]} frames, which is not whole blocks of {g.block_frames}")
    if video.numel() == 0:
        raise ValueError(f"video is empty: shape {tuple(video.shape)}")
    low, high = (bound.item() for bound in torch.aminmax(video.detach()))
    if not (low >= 0.0 and high <= 1.0):
        raise ValueError(f"video values must lie in [0, 1], found {low:g} to {high:g} (NaN means not a number)")


@no_type_check
def check_codes(codes: Tensor, geometry: Geometry, codebook_size: int, blocks: int | None = None) -> None:
    """Integer codes (B,K,M) in 0..V−1, of `blocks` blocks (any number if None)."""
    m = geometry.tokens_per_block
    if not isinstance(codes, Tensor) or codes.is_floating_point() or codes.dtype in (torch.bool, torch.complex64):
        kind = codes.dtype if isinstance(codes, Tensor) else type(codes).__name__
        raise ValueError(f"codes must be an integer tensor, got {kind}")
    if codes.ndim != 3 or codes.shape[2] != m:
        raise ValueError(f"codes must have shape (B,K,{m}), got {tuple(codes.shape)}")
    if blocks is not None and codes.shape[1] != blocks:
        raise ValueError(f"codes have {codes.shape[1]} blocks, the model takes clips of {blocks}")
    if codes.numel() == 0:
        raise ValueError(f"codes are empty: shape {tuple(codes.shape)}")
    low, high = (bound.item() for bound in torch.aminmax(codes))
    if low < 0 or high >= codebook_size:
        raise ValueError(f"codes must lie in 0..{codebook_size - 1}, found {low} to {high}")


@no_type_check
def check_kept(kept: Tensor, batch: int, blocks: int, geometry: Geometry) -> None:
    """Integer lengths (B,K) in 0..M."""
    m = geometry.tokens_per_block
    if not isinstance(kept, Tensor) or kept.is_floating_point() or kept.dtype is torch.bool:
        kind = kept.dtype if isinstance(kept, Tensor) else type(kept).__name__
        raise ValueError(f"kept must be an integer tensor, got {kind}")
    if tuple(kept.shape) != (batch, blocks):
        raise ValueError(f"kept must have shape ({batch},{blocks}), got {tuple(kept.shape)}")
    low, high = (bound.item() for bound in torch.aminmax(kept))
    if low < 0 or high > m:
        raise ValueError(f"kept must lie in 0..{m}, found {low} to {high}")


def check_room(seen: int, more: int, geometry: Geometry) -> None:
    """A clip has K blocks; positions exist for no more."""
    if seen + more > geometry.blocks:
        raise ValueError(
            f"{seen} blocks are in memory and {more} follow, but a clip has {geometry.blocks}; start a new clip"
        )
