"""What is measured: budgets, strategies, metrics and how clips are chosen, as one frozen dataclass.

In: a user's wishes. Out: `Settings` whose names are known, and the `Point`s of the curves they ask for. What depends on
the model is filled in and checked by `fitted`, before anything is computed. Next on the walk: clips.py.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from adaptok.allocation.names import SCOPES, STRATEGIES
from adaptok.allocation.truth import METRICS as SCORINGS
from adaptok.bundle import Bundle
from adaptok.metrics.i3d import MIN_FRAMES
from adaptok.metrics.lpips import BACKBONES
from adaptok.metrics.ssim import WINDOW
from adaptok.stream.spending import SCORELESS

ORACLE = "oracle"
METHODS = (*STRATEGIES, ORACLE)
METRICS = ("psnr", "ssim", "lpips", "lpips-vgg", "mse", "fvd")
REFERENCES = ("h264", "av1")
SMALLEST = {"ssim": WINDOW, "lpips": BACKBONES["alex"].min_size, "lpips-vgg": BACKBONES["vgg"].min_size}
"""Height and width that a metric needs."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to evaluate; the help text of the command line is under each field."""

    budgets: tuple[float | int, ...] = ()
    """Average tokens per block, one point each; a quarter, a half and three quarters of a full block if not given."""
    strategies: tuple[str, ...] = ()
    """fixed, motion, bithr, bidelta, ilp, ipal, oracle (ipal on true losses, slow); fixed and ipal if not given."""
    scorings: tuple[str, ...] = ("perceptual",)
    """What the oracle minimises, one curve each: perceptual, mse, psnr, ssim."""
    metrics: tuple[str, ...] = ("psnr", "ssim", "lpips", "fvd")
    """What is reported: psnr, ssim, lpips (AlexNet), lpips-vgg, mse, fvd (slow: I3D on every clip at every point)."""
    references: tuple[str, ...] = ()
    """Video codecs to compare with at the same bitrates: h264, av1."""
    split: str = "val"
    """Which videos of a manifest; of a folder, the sub-folder of that name if there is one."""
    videos: int | None = None
    """Take only so many videos, spread evenly over the list."""
    windows: int = 1
    """Clips of each video, one from each of as many equal stretches of it, at places drawn from the seed."""
    batch: int = 8
    """Videos that are encoded together, and that share a budget where the scope says so."""
    scope: str = "clip"
    """Which blocks share a budget: clip, batch (all of a batch), index (same place in their clips; the paper's)."""
    in_context: bool = True
    """Score each block after those before it were cut, as the codec does; else all in one pass."""
    resamples: int = 1000
    """Bootstrap samples of the videos for the confidence intervals; FVD takes at most 200."""
    examples: int = 3
    """Best and worst clips to show, so many of each."""
    seed: int = 0
    """Seed of the places of clips and of the bootstrap."""

    def __post_init__(self) -> None:
        _known("strategy", self.strategies, METHODS)
        _known("scoring metric", self.scorings, SCORINGS)
        _known("metric", self.metrics, METRICS)
        _known("reference", self.references, REFERENCES)
        _known("scope", (self.scope,), tuple(SCOPES))
        if not self.metrics:
            raise ValueError(f"nothing to measure: give at least one of the metrics {', '.join(METRICS)}")
        if ORACLE in self.strategies and not self.scorings:
            raise ValueError(f"the oracle needs a scoring metric: one of {', '.join(SCORINGS)}")
        if self.videos is not None and self.videos < 1:
            raise ValueError(f"videos must be at least 1, got {self.videos}")
        for name, least in (("windows", 1), ("batch", 1), ("resamples", 2), ("examples", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")

    def fitted(self, bundle: Bundle) -> "Settings":
        """With the model's defaults filled in; a ValueError where the model cannot do what is asked."""
        g = bundle.config.tokenizer.geometry
        m = g.tokens_per_block
        default = tuple(b for b in dict.fromkeys((m / 4, m / 2, 3 * m / 4)) if b >= candidate_lengths(bundle)[0])
        budgets = tuple(sorted({float(budget) for budget in self.budgets or default}))
        least = candidate_lengths(bundle)[0]
        for budget in budgets:
            if not least <= budget <= m:
                raise ValueError(f"a budget of {budget:g} tokens per block is outside {least} to {m}")
        strategies = self.strategies or (("fixed", "ipal") if bundle.scorer else ("fixed",))
        scored = [name for name in strategies if name not in (*SCORELESS, ORACLE)]
        if bundle.scorer is None and scored:
            raise ValueError(
                f"this model has no scorer; strategy {scored[0]!r} needs one (fixed, motion, oracle do not)"
            )
        side = min(g.height, g.width)
        needs = dict.fromkeys((*self.metrics, *(self.scorings if ORACLE in strategies else ())))
        for name in needs:
            smallest = SMALLEST.get("lpips" if name == "perceptual" else name, 1)
            if side < smallest:
                raise ValueError(
                    f"{name} needs frames of at least {smallest}×{smallest}, the model's are {g.height}×{g.width}"
                )
        if "fvd" in self.metrics and g.frames < MIN_FRAMES:
            raise ValueError(f"fvd needs clips of at least {MIN_FRAMES} frames, the model's have {g.frames}")
        return replace(self, budgets=budgets, strategies=tuple(dict.fromkeys(strategies)))

    def points(self) -> tuple["Point", ...]:
        """Every point of every curve, curve by curve; to be asked of fitted settings."""
        curves: list[tuple[str, str | None]] = []
        for strategy in self.strategies:
            curves += [(strategy, scoring) for scoring in self.scorings] if strategy == ORACLE else [(strategy, None)]
        curves += [(reference, None) for reference in dict.fromkeys(self.references)]
        return tuple(Point(method, float(budget), scoring) for method, scoring in curves for budget in self.budgets)

    def targets(self) -> tuple["Point", ...]:
        """All that has to be measured of every clip: the points, and the originals where FVD needs them."""
        return ((ORIGINAL,) if "fvd" in self.metrics else ()) + self.points()

    def facts(self) -> dict[str, Any]:
        """As plain data, for a report."""
        return asdict(self)


@dataclass(frozen=True)
class Point:
    """One place on one curve: a strategy, or a reference codec at the same bits, at one budget."""

    method: str
    budget: float
    """Average tokens per block."""
    scoring: str | None = None
    """What the oracle minimised."""

    @property
    def curve(self) -> str:
        """The name of the curve it lies on."""
        return self.method if self.scoring is None else f"{self.method} ({self.scoring})"

    @property
    def is_reference(self) -> bool:
        """Whether a video codec made it, not tokens."""
        return self.method in REFERENCES


ORIGINAL = Point("original", 0.0)
"""The clips themselves, a point that lies on no curve: FVD compares with their features."""


def candidate_lengths(bundle: Bundle) -> tuple[int, ...]:
    """Lengths that a block may get: the scorer's, or every length where there is none."""
    if bundle.scorer is not None:
        return bundle.scorer.lengths
    return tuple(range(1, bundle.config.tokenizer.geometry.tokens_per_block + 1))


def _known(kind: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}; known are {', '.join(known)}")
