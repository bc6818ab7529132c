"""Strategies at equal tokens, scopes, and scoring in context against one pass (Tab. and Fig. of strategies).

    python benchmarks/paper/strategies.py --data videos/manifest.csv [--model FOLDER] [--skip oracle]

All strategies at an eighth, a quarter, a half and three quarters of the tokens; `ipal less fixed` is the difference on
the same clips at every budget, with the interval of that difference over videos: a claim holds where it excludes 0.
`scopes` is ipal at a quarter and a half with each scope, blocks scored in context or all in one pass, and the
difference to fixed; `blocks unlike one pass` is the share of blocks to which scoring in context gives another length: a
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

from adaptok.evaluation import Evaluation, Settings
from adaptok.stream.codec import Codec

STRATEGIES = ("fixed", "bithr", "bidelta", "ilp", "ipal", "motion", "oracle")
BUDGETS = (1 / 8, 1 / 4, 1 / 2, 3 / 4)
SCOPE_BUDGETS = (1 / 4, 1 / 2)
SCOPES = ("clip", "batch", "index")


def less_fixed(found: Evaluation, base: Evaluation) -> TableRows:
    """What ipal has less than fixed at every budget, for every metric that clips have one by one."""
    rows = []
    for budget in found.settings.budgets:
        ours, fixed = found.row("ipal", budget), base.row("fixed", budget)
        rows.append({"budget": budget, **{name: paired(ours, fixed, name, base.clips) for name in ours.values}})
    return rows


def scopes(codec: Codec, options: argparse.Namespace, wanted: Settings, base: Evaluation) -> TableRows:
    """Rows of ipal by scope and way of scoring; FVD is left out, it takes most of the time."""
    rows = []
    metrics = tuple(name for name in wanted.metrics if name != "fvd")
    wanted = replace(wanted, budgets=shares(codec, *SCOPE_BUDGETS), strategies=("ipal",), metrics=metrics)
    for scope in SCOPES:
        once, context = (run(codec, options, replace(wanted, scope=scope, in_context=how)) for how in (False, True))
        for found in (once, context):
            named = rows_of(found, {"scope": scope, "in_context": found is context})
            differences = less_fixed(found, base)
            for row, difference, own, other in zip(named, differences, found.rows, once.rows, strict=True):
                unlike = float((np.array(own.kept) != np.array(other.kept)).mean())
                less = {f"{name} less fixed": value for name, value in difference.items() if name != "budget"}
                rows.append({**row, **less, "blocks unlike one pass": round(unlike, 4)})
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
        tables["ipal less fixed"] = less_fixed(found, found)
        if any(name != "fvd" for name in wanted.metrics):
            tables["scopes"] = scopes(codec, options, wanted, found)
    finish("strategies", options, tables, facts_of(found))
    save_image(curves(rows, "method", found.metrics), "strategies", options)


if __name__ == "__main__":
    main()
