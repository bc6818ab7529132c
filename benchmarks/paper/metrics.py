"""What the scorer is trained to predict: SSIM, PSNR, MSE or perceptual loss (Tab. and Fig. of scoring metrics).

    python benchmarks/paper/metrics.py --data videos/manifest.csv [--models perceptual=FOLDER psnr=FOLDER ...]

One tokenizer, a scorer for each metric (runs/paper/scorer-METRIC), ipal at four budgets. Does each metric do best
when it is also the measure? `less perceptual` is the difference to the paper's choice on the same clips. Writes
results/paper/metrics.json and docs/images/paper/metrics.png.
"""

from common import arguments, compared, curves, differences, facts_of, finish, parsed, save_image

METRICS = ("ssim", "psnr", "mse", "perceptual")
BASE = "perceptual"
BUDGETS = (1 / 8, 1 / 4, 1 / 2, 3 / 4)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", metavar="METRIC=FOLDER", help="runs/paper/scorer-METRIC if not given")
    options = parsed(parser)
    options.models = options.models or [f"{metric}={options.runs / f'scorer-{metric}' / 'best'}" for metric in METRICS]
    rows, found = compared(options, "scored by", BUDGETS, "ipal")
    rows.sort(key=lambda row: row["budget"])
    tables = {"metrics": rows}
    if BASE in found:
        tables[f"less {BASE}"] = differences("scored by", found, BASE)
    finish("metrics", options, tables, facts_of(*found.values()))
    save_image(curves(rows, "scored by", options.metrics), "metrics", options)


if __name__ == "__main__":
    main()
