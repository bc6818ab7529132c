"""What the data of a run are, as frozen dataclasses: where clips come from and how they are varied.

In: numbers from a recipe's YAML. Out: values within their limits. Next on the walk: settings.py, all the rest of a run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from adaptok.config import Strict
from adaptok.training.curriculum import need, need_share


@dataclass(frozen=True, kw_only=True)
class DataConfig(Strict):
    """Where clips come from and how they are kept at hand."""

    source: Path
    """A folder (class sub-folders are labels), a manifest (.csv, .parquet) or WebDataset shards (a .tar, or a folder
    that holds some)."""
    train_split: str = "train"
    val_split: str = "val"
    cache: Literal["none", "memory", "disk"] = "disk"
    """Decoded frames: not kept, kept in memory, or memory-mapped from files that are written once."""
    cache_folder: Path | None = None
    """By default `adaptok/frames` in the user's cache directory."""
    short_side: int = 96
    """Frames are kept at this size, so that crops of different scale still have detail."""
    workers: int = 0
    """Processes that prepare clips; 0 prepares them between the steps. The clips are the same for any number."""
    val_clips: int = 64

    def __post_init__(self) -> None:
        need(self.short_side >= 16, f"data: short_side must be at least 16, got {self.short_side}")
        need(self.workers >= 0, f"data: workers must be at least 0, got {self.workers}")
        need(self.val_clips >= 1, f"data: val_clips must be at least 1, got {self.val_clips}")


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(Strict):
    """How each clip is varied; shares are probabilities."""

    crop: tuple[float, float] = (0.5, 1.0)
    """Side of the random crop, as a share of the largest one of the model's shape."""
    flip: float = 0.5
    transpose: float = 0.0
    reverse: float = 0.0
    strides: tuple[int, ...] = (1,)
    colour: float = 0.0
    """Up to this much change of each channel's gain, of contrast and of saturation."""
    gamma: float = 0.0
    """Gamma between 1/(1+x) and 1+x."""
    stills: float = 0.0
    """Share of clips that are a slow pan and zoom over one frame."""
    cuts: float = 0.0
    """Share of clips that change the scene once: from some frame on another window of the video, varied anew."""

    def __post_init__(self) -> None:
        low, high = self.crop
        need(0 < low <= high <= 1, f"augment: crop must be two rising shares in 0..1, got {self.crop}")
        need(min(self.strides, default=0) >= 1, f"augment: strides must be positive, got {self.strides}")
        shares = {name: getattr(self, name) for name in ("flip", "transpose", "reverse", "stills", "cuts")}
        need_share(**shares)
        need(0 <= self.colour < 1 and self.gamma >= 0, f"augment: colour in 0..1 and gamma >= 0 are needed: {self}")
