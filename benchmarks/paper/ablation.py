"""Sampler in training, scorer at inference: what each is worth (Tab. ablation).

    python benchmarks/paper/ablation.py --data videos/manifest.csv [--model FOLDER --causaltok FOLDER]

Full is CausalTok's own length, half of AdapTok's longest; half is half of that. No sampler is CausalTok, cut where it
must be; sampler without scorer is AdapTok with equal lengths; both is ipal. `differences` are ipal's less the others'
on the same clips, with intervals of these differences. `order` is how a block's tokens start: coarse to fine, where
every prefix covers the frame, or row after row (`--raster FOLDER`, if it was trained). Writes
results/paper/ablation.json.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from common import (
    TableRows,
    arguments,
    facts_of,
    finish,
    opened,
    paired,
    parsed,
    rows_of,
    run,
    same_clips,
    settings,
    trained,
)

from adaptok.evaluation import Evaluation

PARTS = {"full": 1.0, "half": 0.5}


def differences(adaptive: Evaluation, causal: Mapping[str, Evaluation], budgets: Mapping[str, float]) -> TableRows:
    """The row of ipal less all others, budget by budget."""
    rows = []
    for name, budget in budgets.items():
        ours = adaptive.row("ipal", budget)
        others = {"no scorer": adaptive.row("fixed", budget)}
        for order, found in causal.items():
            same_clips(adaptive, found)
            others[f"no sampler, no scorer, {order}"] = found.row("fixed", budget)
        for other, row in others.items():
            values = {metric: paired(ours, row, metric, adaptive.clips) for metric in ours.estimates}
            rows.append({"budget": name, "sampler and scorer less": other, **values})
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--raster", help="folder of CausalTok whose tokens start row after row")
    options = parsed(parser)
    options.raster = options.raster or str(options.runs / "causaltok-raster" / "best")
    codec, fixed = opened(options.model, options), opened(options.causaltok, options)
    budgets = {name: part * fixed.geometry.tokens_per_block for name, part in PARTS.items()}
    wanted = replace(settings(options), budgets=tuple(budgets.values()))
    lengths = replace(wanted, strategies=("fixed",))
    causal = {"coarse to fine": run(fixed, options, lengths)}
    if trained(Path(options.raster)):
        causal["raster"] = run(opened(options.raster, options), options, lengths)
    adaptive = run(codec, options, replace(wanted, strategies=("fixed", "ipal")))
    rows = [
        row
        for order, found in causal.items()
        for row in rows_of(found, {"order": order, "sampler": False, "scorer": False})
    ]
    rows += rows_of(adaptive, {"order": "coarse to fine", "sampler": True, "scorer": False})
    for row in rows:
        row["scorer"] = row["method"] == "ipal"
    rows.sort(key=lambda row: -row["budget"])
    tables = {"ablation": rows, "differences": differences(adaptive, causal, budgets)}
    finish("ablation", options, tables, facts_of(adaptive, *causal.values()))


if __name__ == "__main__":
    main()
