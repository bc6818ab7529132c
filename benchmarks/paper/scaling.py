"""Model size: three tokenizers under equal data (Tab. scaling).

    python benchmarks/paper/scaling.py --data videos/manifest.csv [--models S=FOLDER M=FOLDER L=FOLDER]

runs/paper/adaptok and runs/paper/size-* saw the same clips in the same order for as many steps. Equal lengths unless
`--strategy ipal` is given, which takes models with scorers; at a half of the tokens, as in the paper, and at all of
them. `less the smallest` is what size is worth on the same clips. Writes results/paper/scaling.json.
"""

from common import arguments, compared, differences, facts_of, finish, parsed

SIZES = {
    "tiny": {"S": "size-s", "M": "size-m", "L": "adaptok"},
    "l": {"S": "size-s", "L": "adaptok", "XL": "size-xl"},
}
"""Folders in runs/paper, the smallest first."""
BUDGETS = (1 / 2, 1)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", metavar="NAME=FOLDER", help="those of models.py if not given")
    parser.add_argument("--strategy", default="fixed")
    options = parsed(parser)
    sizes = SIZES.get(options.preset, {})
    options.models = options.models or [f"{name}={options.runs / folder / 'best'}" for name, folder in sizes.items()]
    rows, found = compared(options, "model", BUDGETS, options.strategy)
    tables = {"scaling": rows, "less the smallest": differences("model", found, base=next(iter(found)))}
    finish("scaling", options, tables, facts_of(*found.values()))


if __name__ == "__main__":
    main()
