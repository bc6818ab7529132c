"""Strategies at equal tokens, scopes, and scoring in context against one pass (Tab. and Fig. of strategies).

    python benchmarks/paper/strategies.py --data videos/manifest.csv [--model FOLDER] [--skip oracle]

All strategies at an eighth, a quarter, a half and three quarters of the tokens; `ipal less fixed` is the difference on
the same clips at every budget, with the interval of that difference over videos: a claim holds where it excludes 0.
`scopes` is ipal at a quarter and a half with each scope, blocks scored in context or all in one pass, and the
difference to fixed; below it the oracle of the scorer's own metric, which tells what a scope allows from what the
scorer misses. `blocks unlike one pass` is the share of blocks with another length than ipal in one pass gives: a
context that shifts a block's whole curve changes no choice. Writes results/paper/strategies.json and
docs/images/paper/strategies.png.
"""

import argparse
from dataclasses import replace

import numpy as np
from common import (
    TableRows,
    arguments,
    curves,
    facts_of,
    finish,
    opened,
    paired,
    parsed,
    rows_of,
    run,
    save_image,
    settings,
    shares,
)

from adaptok.evaluation import Evaluation, Row, Settings
from adaptok.stream.codec import Codec

STRATEGIES = ("fixed", "bithr", "bidelta", "ilp", "ipal", "motion", "oracle")
BUDGETS = (1 / 8, 1 / 4, 1 / 2, 3 / 4)
SCOPE_BUDGETS = (1 / 4, 1 / 2)
SCOPES = ("clip", "batch", "index")


def less_fixed(row: Row, base: Evaluation) -> dict[str, list[float]]:
    """What a row has less than fixed at its budget."""
    fixed = base.row("fixed", row.point.budget)
    return {name: paired(row, fixed, name, base.clips) for name in row.estimates}


def scopes(codec: Codec, options: argparse.Namespace, wanted: Settings, base: Evaluation) -> TableRows:
    """Rows of ipal and the oracle by scope and way of scoring; FVD is left out, it takes most of the time."""
    rows = []
    scorer = codec.bundle.config.scorer
    assert scorer is not None  # ipal was evaluated
    wanted = replace(
        wanted,
        budgets=shares(codec, *SCOPE_BUDGETS),
        strategies=("ipal",),
        scorings=(scorer.metric,),
        metrics=tuple(name for name in wanted.metrics if name != "fvd"),
    )
    best = tuple(name for name in ("ipal", "oracle") if name not in options.skip)
    for scope in SCOPES:
        once = run(codec, options, replace(wanted, scope=scope, in_context=False))
        context = run(codec, options, replace(wanted, scope=scope, strategies=best))
        for found in (once, context):
            named = rows_of(found, {"scope": scope, "in_context": found is context})
            for shown, row in zip(named, found.rows, strict=True):
                unlike = (np.array(row.kept) != np.array(once.row("ipal", row.point.budget).kept)).mean()
                less = {f"{name} less fixed": value for name, value in less_fixed(row, base).items()}
                rows.append({**shown, **less, "blocks unlike one pass": round(float(unlike), 4)})
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--skip", nargs="*", default=[], choices=STRATEGIES, help="strategies to leave out")
    options = parsed(parser)
    codec, wanted = opened(options.model, options), settings(options)
    chosen = tuple(name for name in STRATEGIES if name not in options.skip)
    found = run(codec, options, replace(wanted, budgets=shares(codec, *BUDGETS), strategies=chosen))
    rows = rows_of(found, {})
    tables = {"strategies": rows}
    if {"fixed", "ipal"} <= set(chosen):
        budgets = found.settings.budgets
        tables["ipal less fixed"] = [{"budget": b, **less_fixed(found.row("ipal", b), found)} for b in budgets]
        if any(name != "fvd" for name in wanted.metrics):
            tables["scopes"] = scopes(codec, options, wanted, found)
    finish("strategies", options, tables, facts_of(found))
    save_image(curves(rows, "method", found.metrics), "strategies", options)


if __name__ == "__main__":
    main()
