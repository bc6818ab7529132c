"""Generation over adaptive and over fixed tokens: class-conditional and frame prediction (Tab. gFVD).

    python benchmarks/paper/generation.py --data videos/manifest.csv [--model FOLDER --causaltok FOLDER] [--num 96]

For each condition the generators that models.py trained on the same number of tokens per clip: `adaptive` (ipal),
`fixed` (the same tokenizer, equal lengths) and `causaltok`. gFVD of `--num` samples against as many real clips of the
training split, perplexity per token of held-out clips, tokens per clip. Perplexities of different tokens say little
about each other; bits per clip do. A generator that is not there is named, not guessed. Writes
results/paper/generation.json.
"""

import argparse
import warnings
from pathlib import Path

from common import TableRows, arguments, finish, opened, parsed, trained

from adaptok.generation import Director, Sampling, open_generator
from adaptok.metrics.fvd import FewSamplesWarning
from adaptok.stream.codec import Codec
from generation_quality import Yardstick, surprise

CONDITIONS = {"class-conditional": "ar", "frame prediction": "fp"}
TOKENS = ("adaptive", "fixed", "causaltok")
COLUMNS = ("gfvd", "tokens_per_clip", "perplexity", "perplexity_unigram", "bits_per_clip", "parameters")


def compare(
    prefix: str, codecs: dict[str, Codec], yardstick: Yardstick, options: argparse.Namespace
) -> tuple[TableRows, list[str]]:
    """A row per generator of one condition, and the folders that hold none."""
    rows: TableRows = []
    missing = []
    for tokens in TOKENS:
        folder = options.runs / f"{prefix}-{tokens}" / "best"
        if not trained(folder):
            missing.append(folder.as_posix())
            continue
        generator = open_generator(folder)
        sampling = Sampling(temperature=options.temperature, top_p=options.top_p)
        row = yardstick.row(f"{prefix}-{tokens}", Director(generator, codecs[tokens]), sampling, options.context)
        row |= surprise(generator, Path(options.runs / f"tokens-{tokens}"), options.val_clips)
        rows.append({"generator": tokens, **{name: round(row[name], 3) for name in COLUMNS}})
    return rows, missing


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--num", type=int, default=96, help="samples of each generator")
    parser.add_argument("--val-clips", type=int, default=128)
    parser.add_argument("--context", type=int, default=5, help="frames that are given in frame prediction")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=1.0)
    options = parsed(parser)
    warnings.simplefilter("ignore", FewSamplesWarning)
    codec = opened(options.model, options)
    codecs = {"adaptive": codec, "fixed": codec}
    if Path(options.causaltok).is_dir():
        codecs["causaltok"] = opened(options.causaltok, options)
    yardstick = Yardstick.of(options.data, codec, options.num, options.windows)
    tables, missing = {}, []
    for condition, prefix in CONDITIONS.items():
        rows, absent = compare(prefix, codecs, yardstick, options)
        missing += absent
        if rows:
            tables[condition] = rows
    floors = {name: yardstick.floor(one) for name, one in codecs.items() if name != "fixed"}
    tables["what to compare with"] = [
        {"tokenizer": name, **{what: round(value, 1) for what, value in floor.items()}}
        for name, floor in floors.items()
    ]
    notes = [f"not trained: {folder}" for folder in missing]
    finish("generation", options, tables, {"models": [one.fingerprint for one in codecs.values()], "notes": notes})


if __name__ == "__main__":
    main()
