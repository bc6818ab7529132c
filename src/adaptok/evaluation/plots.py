"""Curves as SVG: quality against rate, tokens over time, use of the codebook.

In: an `Evaluation`. Out: SVG text, the same for the same numbers. Figures are made without pyplot, so that nothing of
the caller's plots is touched. Next on the walk: report.py.
"""

import importlib.util
import io
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from adaptok.evaluation.result import LOWER_IS_BETTER, TITLES, Evaluation, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "ipal": "#0072b2",
    "fixed": "#e69f00",
    "bithr": "#009e73",
    "bidelta": "#d55e00",
    "ilp": "#56b4e9",
    "motion": "#cc79a7",
    "oracle": "#222222",
    "h264": "#777777",
    "av1": "#aaaaaa",
}
"""Told apart by colour-blind readers too (Okabe and Ito); grey is for video codecs."""
DASHES = {"perceptual": "-", "mse": "--", "psnr": ":", "ssim": "-."}
PANELS = 4
"""Most budgets that tokens over time are drawn for."""


def require_plots() -> None:
    """A ValueError, before any work, where the library for plots is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("the report's plots need matplotlib: pip install 'adaptok[evaluate]'")


def rate_quality(evaluation: Evaluation, metric: str) -> str:
    """One metric against tokens per clip, a line per curve, with 95 % intervals."""
    figure, (axes,) = _figure(1, (4.6, 3.3))
    for curve, rows in _curves(evaluation):
        points = sorted(rows, key=lambda row: row.tokens)
        values = np.array([[getattr(row.estimates[metric], end) for row in points] for end in ("value", "low", "high")])
        tokens = [row.tokens for row in points]
        colour, dash = _look(points[0])
        axes.fill_between(tokens, values[1], values[2], color=colour, alpha=0.12, linewidth=0)
        axes.plot(tokens, values[0], dash, color=colour, marker="o", markersize=4, label=curve)
    axes.set_xscale("log", base=2)
    ticks = [budget * evaluation.blocks for budget in evaluation.settings.budgets]
    while 2 * ticks[-1] < max(row.tokens for row in evaluation.rows):
        ticks.append(2 * ticks[-1])
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("tokens per clip")
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    unit = " (dB)" if metric == "psnr" else ""
    axes.set_title(f"{TITLES[metric]}{unit}, {better} is better", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return _svg(figure)


def tokens_over_time(evaluation: Evaluation) -> str:
    """Tokens of each block of a clip: the mean over clips and where the middle 80 % lie, a panel per budget."""
    budgets = evaluation.settings.budgets
    if len(budgets) > PANELS:
        budgets = tuple(budgets[i * (len(budgets) - 1) // (PANELS - 1)] for i in range(PANELS))
    figure, panels = _figure(len(budgets), (2.9 * len(budgets) + 0.4, 2.7))
    blocks = np.arange(1, evaluation.blocks + 1)
    for axes, budget in zip(panels, budgets, strict=True):
        for row in evaluation.rows:
            if row.kept is not None and row.point.budget == budget:
                kept = np.array(row.kept)
                colour, dash = _look(row)
                low, high = np.quantile(kept, [0.1, 0.9], axis=0)
                axes.fill_between(blocks, low, high, color=colour, alpha=0.1, linewidth=0)
                axes.plot(
                    blocks, kept.mean(axis=0), dash, color=colour, marker="o", markersize=4, label=row.point.curve
                )
        axes.set_title(f"{budget:g} per block on average", loc="left", fontsize=10)
        axes.set_xticks(blocks)
        axes.set_xlabel("block")
        axes.set_ylim(0, evaluation.tokens_per_block * 1.03)
    panels[0].set_ylabel("tokens")
    panels[0].legend(frameon=False, fontsize=8)
    return _svg(figure)


def codebook_use(evaluation: Evaluation) -> str:
    """Share of each code among the tokens kept, codes in the order of their frequency, at the largest budget."""
    figure, (axes,) = _figure(1, (6.2, 2.9))
    budget = max(evaluation.settings.budgets)
    for row in evaluation.rows:
        if row.usage is not None and row.point.budget == budget:
            shares = np.sort(row.usage.counts / row.usage.counts.sum())[::-1][: row.usage.used]
            colour, dash = _look(row)
            axes.plot(np.arange(1, len(shares) + 1), shares, dash, color=colour, label=row.point.curve)
    axes.axhline(1 / evaluation.codebook, color="#999999", linewidth=0.8, linestyle=":", label="all codes alike")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, evaluation.codebook)
    axes.minorticks_off()
    axes.set_xlabel(f"code, by frequency (of {evaluation.codebook})")
    axes.set_title(f"share of the tokens kept, {budget:g} per block", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    return _svg(figure)


def _curves(evaluation: Evaluation) -> list[tuple[str, list[Row]]]:
    """Rows lie curve by curve."""
    return [(name, list(rows)) for name, rows in groupby(evaluation.rows, key=lambda row: row.point.curve)]


def _look(row: Row) -> tuple[str, str]:
    point = row.point
    return COLOURS[point.method], "--" if point.is_reference else DASHES.get(point.scoring or "", "-")


def _figure(panels: int, size: tuple[float, float]) -> "tuple[Figure, Sequence[Axes]]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(color="#e6e6e6", linewidth=0.6)
        one.tick_params(labelsize=8)
    return figure, list(axes)


def _svg(figure: "Figure") -> str:
    from matplotlib import rc_context

    text = io.StringIO()
    # Text stays text, and neither the date nor random names make two files of one result differ.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "adaptok"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()
