"""Reconstruction against tokens, AdapTok and CausalTok: Tab. 1 and Fig. 3.

    python benchmarks/paper/reconstruction.py --data videos/manifest.csv [--model FOLDER --causaltok FOLDER]

AdapTok by ipal at six budgets, CausalTok cut to four, H.264 and AV1 at AdapTok's bits (where they cannot be made as
small, at their true bits: `clips_over_budget`). Beside them the paper's numbers, marked as quoted. `equal quality` is
how many tokens AdapTok needs for what CausalTok has at full length, on a line between budgets against the logarithm of
tokens; its interval is over videos, the same ones for both. Writes results/paper/reconstruction.json and
docs/images/paper/reconstruction.png.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from common import (
    TableRows,
    arguments,
    curves,
    facts_of,
    finish,
    opened,
    parsed,
    resampled,
    rows_of,
    run,
    same_clips,
    save_image,
    settings,
    shares,
)

from adaptok.evaluation import Clip, Evaluation, Row
from adaptok.evaluation.result import LOWER_IS_BETTER

BUDGETS = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)
CAUSAL_BUDGETS = (1 / 4, 1 / 2, 3 / 4, 1)
REFERENCES = ("h264", "av1")


def tokens_for(tokens: Sequence[float], values: Sequence[float], wanted: float, lower_is_better: bool) -> float | None:
    """The fewest tokens at which a curve reaches `wanted`; None where it never does.

    `tokens` rise. Between two points the curve is a line against the logarithm; before the first it is not known, so
    where already the first is good enough, that one is the answer, and an upper bound.
    """
    sign = -1.0 if lower_is_better else 1.0
    short = sign * (wanted - np.asarray(values))
    places = np.log(tokens)
    for i, missing in enumerate(short):
        if missing <= 0:
            if i == 0:
                return float(tokens[0])
            part = short[i - 1] / (short[i - 1] - missing)
            return float(np.exp(places[i - 1] + part * (places[i] - places[i - 1])))
    return None


def fewer(curve: Sequence[Row], target: Row, metric: str, clips: Sequence[Clip]) -> dict[str, object]:
    """How many times fewer tokens the curve needs than `target`, with its interval over the bootstrap's videos."""
    lower, tokens = metric in LOWER_IS_BETTER, [row.tokens for row in curve]
    estimates = [row.estimates[metric].value for row in curve]
    needed = tokens_for(tokens, estimates, target.estimates[metric].value, lower)
    drawn = np.stack([resampled(row, metric, clips) for row in (*curve, target)], axis=1)
    reached = [tokens_for(tokens, draw[:-1], draw[-1], lower) for draw in drawn]
    ratios = [target.tokens / one for one in reached if one is not None]
    low, high = np.quantile(ratios, [0.025, 0.975]).round(3).tolist() if ratios else (None, None)
    return {
        "metric": metric,
        "of CausalTok": round(target.estimates[metric].value, 4),
        "its tokens": round(target.tokens, 1),
        "AdapTok's tokens": None if needed is None else round(needed, 1),
        "fewer": None if needed is None else round(target.tokens / needed, 3),
        "already at the smallest budget": needed == tokens[0],
        "low": low,
        "high": high,
        "samples that reach it": len(ratios) / len(reached),
    }


def equal_quality(adaptive: Evaluation, causal: Evaluation) -> TableRows:
    """One row per metric."""
    curve = sorted((row for row in adaptive.rows if row.point.method == "ipal"), key=lambda row: row.tokens)
    target = max(causal.rows, key=lambda row: row.tokens)
    clips = same_clips(adaptive, causal)
    return [fewer(curve, target, metric, clips) for metric in adaptive.metrics]


def main() -> None:
    options = parsed(arguments(__doc__))
    codec, fixed = opened(options.model, options), opened(options.causaltok, options)
    wanted = settings(options)
    adaptive = run(
        codec,
        options,
        replace(wanted, budgets=shares(codec, *BUDGETS), strategies=("ipal",), references=REFERENCES),
    )
    causal = run(fixed, options, replace(wanted, budgets=shares(fixed, *CAUSAL_BUDGETS), strategies=("fixed",)))
    rows = rows_of(adaptive, {"model": "AdapTok"}) + rows_of(causal, {"model": "CausalTok"})
    for row in rows:
        row["model"] = row["method"] if row["method"] in REFERENCES else row["model"]
    tables = {"reconstruction": rows, "equal quality": equal_quality(adaptive, causal)}
    finish("reconstruction", options, tables, facts_of(adaptive, causal))
    own = [row for row in rows if row["model"] not in REFERENCES]
    save_image(curves(own, "model", adaptive.metrics), "reconstruction", options)


if __name__ == "__main__":
    main()
