"""Sampler in training, scorer at inference: what each is worth (Tab. ablation).

    python benchmarks/paper/ablation.py --data videos/manifest.csv [--model FOLDER --causaltok FOLDER]

Full is CausalTok's own length, half of AdapTok's longest; half is half of that. No sampler is CausalTok, cut where it
must be; sampler without scorer is AdapTok with equal lengths; both is ipal. `differences` are ipal's less the others'
on the same clips, with intervals of these differences. Writes results/paper/ablation.json.
"""

from dataclasses import replace

from common import TableRows, arguments, facts_of, finish, opened, paired, parsed, rows_of, run, same_clips, settings

from adaptok.evaluation import Evaluation

PARTS = {"full": 1.0, "half": 0.5}


def differences(adaptive: Evaluation, causal: Evaluation, budgets: dict[str, float]) -> TableRows:
    """The row of ipal less those of both others, budget by budget, for every metric that clips have one by one."""
    clips, rows = same_clips(adaptive, causal), []
    for name, budget in budgets.items():
        ours = adaptive.row("ipal", budget)
        others = {"no scorer": adaptive.row("fixed", budget), "no sampler, no scorer": causal.row("fixed", budget)}
        for other, row in others.items():
            found = {metric: paired(ours, row, metric, clips) for metric in ours.values}
            rows.append({"budget": name, "sampler and scorer less": other, **found})
    return rows


def main() -> None:
    options = parsed(arguments(__doc__))
    codec, fixed = opened(options.model, options), opened(options.causaltok, options)
    budgets = {name: part * fixed.geometry.tokens_per_block for name, part in PARTS.items()}
    wanted = replace(settings(options), budgets=tuple(budgets.values()))
    causal = run(fixed, options, replace(wanted, strategies=("fixed",)))
    adaptive = run(codec, options, replace(wanted, strategies=("fixed", "ipal")))
    rows = rows_of(causal, {"sampler": False, "scorer": False}) + rows_of(adaptive, {"sampler": True, "scorer": False})
    for row in rows:
        row["scorer"] = row["method"] == "ipal"
    rows.sort(key=lambda row: -row["budget"])
    tables = {"ablation": rows, "differences": differences(adaptive, causal, budgets)}
    finish("ablation", options, tables, facts_of(adaptive, causal))


if __name__ == "__main__":
    main()
