"""What an evaluation found, as frozen values, and the two files for programs: JSON and CSV.

In: nothing but the numbers. Out: `Evaluation`, `evaluation.json` with everything down to single clips,
`evaluation.csv` with one line per point. Both hold the same digits. Next on the walk: summary.py.
"""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from adaptok.evaluation.settings import Point, Settings
from adaptok.evaluation.work import Clip, Skipped

Images = UInt8[np.ndarray, "T H W 3"]
TITLES = {
    "fvd": "rFVD",
    "psnr": "PSNR",
    "lpips": "LPIPS",
    "lpips-vgg": "LPIPS (VGG)",
    "ssim": "SSIM",
    "mse": "MSE",
}
"""Column heads, in the order in which the paper has them."""
DIGITS = {"fvd": 1, "psnr": 2, "lpips": 4, "lpips-vgg": 4, "ssim": 4, "mse": 5}
"""After the point, where people read."""
LOWER_IS_BETTER = frozenset({"fvd", "lpips", "lpips-vgg", "mse"})


@dataclass(frozen=True)
class Estimate:
    """A mean over clips, or a distance of two sets of them, with a 95 % interval over videos."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class CodeUsage:
    """How often each code of the codebook was kept."""

    counts: Int[np.ndarray, " V"]

    @property
    def used(self) -> int:
        """Codes that occur at all."""
        return int((self.counts > 0).sum())

    @property
    def perplexity(self) -> float:
        """As many equally frequent codes would carry the same information."""
        share = self.counts[self.counts > 0] / self.counts.sum()
        return float(np.exp(-(share * np.log(share)).sum()))


@dataclass(frozen=True, eq=False)
class Row:
    """One point of one curve, over all clips."""

    point: Point
    tokens: float
    """Per clip, on average; for a video codec, its bits in tokens of the model."""
    bits_per_second: float
    """Bits spent over seconds shown, all clips together."""
    over: int
    """Clips that took more bits than the budget has, because the video codec could not do with fewer. None of a
    model's, whose tokens fit: under a shared budget a clip may take more than its part while others take less."""
    estimates: Mapping[str, Estimate]
    values: Mapping[str, tuple[float, ...]]
    """Metrics of every clip; FVD has none."""
    kept: tuple[tuple[int, ...], ...] | None
    """Tokens of every block of every clip."""
    usage: CodeUsage | None
    fvd_drawn: tuple[float, ...] = ()
    """FVD in each resample of the videos; rows of the same clips and seed have the same resamples."""


@dataclass(frozen=True, eq=False)
class Example:
    """One clip to look at."""

    title: str
    clip: int
    row: int
    original: Images
    reconstruction: Images


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything that was found."""

    model: str
    fingerprint: str
    frames: int
    height: int
    width: int
    blocks: int
    tokens_per_block: int
    codebook: int
    bits_per_token: int
    source: str
    settings: Settings
    clips: tuple[Clip, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    rows: tuple[Row, ...]
    examples: tuple[Example, ...]

    @property
    def videos(self) -> int:
        """Videos that gave clips."""
        return len({clip.video for clip in self.clips})

    @property
    def metrics(self) -> tuple[str, ...]:
        """What was found, in the order of the paper's columns."""
        return tuple(name for name in TITLES if any(name in row.estimates for row in self.rows))

    def row(self, method: str, budget: float | int, scoring: str | None = None) -> Row:
        """One point; a ValueError if it was not evaluated."""
        wanted = Point(method, float(budget), scoring)
        for row in self.rows:
            if row.point == wanted:
                return row
        raise ValueError(f"there is no point {wanted.curve} at {budget:g} tokens per block in this evaluation")


def to_json(evaluation: Evaluation) -> str:
    """The whole evaluation but for pictures; numbers are finite throughout."""
    e = evaluation
    facts = ("frames", "height", "width", "blocks", "tokens_per_block", "codebook", "bits_per_token")
    document = {
        "model": {"name": e.model, "fingerprint": e.fingerprint, **{name: getattr(e, name) for name in facts}},
        "data": {
            "source": e.source,
            "videos": e.videos,
            "clips": len(e.clips),
            "skipped": [{"video": s.video, "reason": s.reason} for s in e.skipped],
        },
        "settings": e.settings.facts(),
        "notes": list(e.notes),
        "rows": [_row(row) for row in e.rows],
        "clips": [
            {
                "video": clip.video,
                "start": clip.start,
                "fps": float(clip.fps),
                "rows": [_clip(row, number) for row in e.rows],
            }
            for number, clip in enumerate(e.clips)
        ],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def to_csv(evaluation: Evaluation) -> str:
    """One line per point: what was spent, then every metric with the ends of its interval."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["method", "scoring", "budget", "tokens", "bits_per_second", "clips", "codes_used", "perplexity"]
    ends = [f"{name}{end}" for name in evaluation.metrics for end in ("", "_low", "_high")]
    writer.writerow(head + ends)
    for row in evaluation.rows:
        usage = ["", ""] if row.usage is None else [row.usage.used, row.usage.perplexity]
        found = [row.estimates[name] for name in evaluation.metrics]
        numbers = [number for estimate in found for number in (estimate.value, estimate.low, estimate.high)]
        p = row.point
        spent = [p.method, p.scoring or "", p.budget, row.tokens, row.bits_per_second, len(evaluation.clips)]
        writer.writerow([*spent, *usage, *numbers])
    return text.getvalue()


def _row(row: Row) -> dict[str, Any]:
    p = row.point
    return {
        "method": p.method,
        "scoring": p.scoring,
        "budget": p.budget,
        "tokens": row.tokens,
        "bits_per_second": row.bits_per_second,
        "clips_over_budget": row.over,
        "codes_used": None if row.usage is None else row.usage.used,
        "perplexity": None if row.usage is None else row.usage.perplexity,
        "metrics": {n: {"value": e.value, "low": e.low, "high": e.high} for n, e in row.estimates.items()},
    }


def _clip(row: Row, number: int) -> dict[str, Any]:
    kept = {} if row.kept is None else {"kept": list(row.kept[number])}
    return {**kept, **{name: values[number] for name, values in row.values.items()}}
