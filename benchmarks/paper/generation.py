"""Generation over adaptive and over fixed tokens: class-conditional and frame prediction (Tab. gFVD).

    python benchmarks/paper/generation.py --data videos/manifest.csv [--model FOLDER --causaltok FOLDER] [--num 96]

For each condition the generators that models.py trained: `adaptive` (ipal), `fixed` (the same tokenizer, equal
lengths) and `causaltok` on the same number of tokens per clip, `fewer` on as many times fewer adaptive ones as
models.py was told, 1.5 by default. gFVD of `--num` samples against as many real clips of the training split, and its
differences to CausalTok's and to that of equal lengths against the same clips; perplexity per token of held-out
clips, tokens per clip. Perplexities of different tokens say little about each other; bits per clip do. `what to
compare with` is the gFVD of other real clips, and of what each generator learns from: windows of the same videos,
decoded from the corpus. A generator that is not there is named, not guessed. Writes results/paper/generation.json,
and docs/images/paper/class-conditional.png: a row per kind of tokens, the first sample of every class.
"""

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from common import TableRows, arguments, finish, opened, parsed, save_image, trained

from adaptok.generation import Director, Sampling, open_generator
from adaptok.metrics.fvd import FewSamplesWarning
from adaptok.stream.block import TokenBlock
from adaptok.stream.codec import Codec, Tokens
from adaptok.training.token_corpus import TokenCorpus, open_corpus
from generation_quality import Clips, Distance, Yardstick, picture, rounded, surprise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITIONS = {"class-conditional": "ar", "frame prediction": "fp"}
TOKENS = ("adaptive", "fewer", "fixed", "causaltok")
BASES = ("causaltok", "fixed")
ALONE = "causaltok"
"""The tokens that are of a tokenizer of their own."""
COLUMNS = ("gfvd", "tokens_per_clip", "perplexity", "perplexity_unigram", "bits_per_clip", "parameters")


def directors(prefix: str, codecs: dict[str, Codec], runs: Path) -> tuple[dict[str, Director], list[str]]:
    """The generators of one condition by their tokens, and the folders that hold none."""
    found, missing = {}, []
    for tokens in TOKENS:
        folder = runs / f"{prefix}-{tokens}" / "best"
        if trained(folder):
            found[tokens] = Director(open_generator(folder), codecs[tokens])
        else:
            missing.append(folder.as_posix())
    return found, missing


def compare(
    prefix: str, cast: dict[str, Director], yardstick: Yardstick, sampling: Sampling, options: argparse.Namespace
) -> TableRows:
    """A row per generator of one condition."""
    rows: dict[str, dict[str, Any]] = {}
    found: dict[str, Distance] = {}
    for tokens, director in cast.items():
        row, found[tokens] = yardstick.row(f"{prefix}-{tokens}", director, sampling, options.context)
        row |= surprise(director.generator, Path(options.runs / f"tokens-{tokens}"), options.val_clips)
        rows[tokens] = {name: rounded(row[name], 3) for name in COLUMNS}
    for tokens, distance in found.items():
        for base in BASES:
            if base in found and tokens != base:
                rows[tokens][f"gfvd less {base}'s"] = rounded(distance.less(found[base]), 1)
    return [{"generator": tokens, **row} for tokens, row in rows.items()]


def drawn(cast: dict[str, Director], sampling: Sampling) -> "Figure":
    """A row per kind of tokens: the first sample of every class, some frames of each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.0 * len(cast)), layout="constrained")
    for axes, (tokens, director) in zip(figure.subplots(len(cast), 1, squeeze=False)[:, 0], cast.items(), strict=True):
        classes = len(director.config.classes)
        image = np.concatenate(np.split(picture(director, sampling, samples=1), classes), axis=1)
        axes.imshow(image)
        axes.set_xticks((np.arange(classes) + 0.5) * image.shape[1] / classes, director.config.classes)
        axes.set_yticks([])
        axes.set_ylabel(tokens, rotation=0, ha="right", va="center")
    return figure


def as_told(corpus: TokenCorpus, codec: Codec, clips: Clips) -> list[np.ndarray]:
    """For each clip a window of the same video, as the corpus tells it."""
    windows: dict[str, list[int]] = {}
    for i, name in enumerate(corpus.names):
        windows.setdefault(name, []).append(i)
    rng = np.random.default_rng(0)
    told = []
    for clip in clips:
        if clip.video not in windows:
            raise ValueError(f"the corpus of {corpus.facts.model} holds no clip of {clip.video}: made of other videos?")
        told.append(decoded(corpus, int(rng.choice(windows[clip.video])), codec))
    return told


def decoded(corpus: TokenCorpus, clip: int, codec: Codec) -> np.ndarray:
    """Frames of one clip of a corpus."""
    g = codec.geometry
    blocks = tuple(TokenBlock(index=i, frames=g.block_frames, codes=b) for i, b in enumerate(corpus.blocks(clip)))
    return codec.decode(Tokens(codec.header(g.height, g.width, frame_count=g.frames, with_scores=False), blocks))


def floors(codecs: dict[str, Codec], yardstick: Yardstick, runs: Path) -> TableRows:
    """The gFVD of real clips, and of what every generator learns from."""
    rows: TableRows = [{"clips": "other real clips", "gfvd": rounded(yardstick.apart.estimate, 1)}]
    for tokens, codec in codecs.items():
        folder = runs / f"tokens-{tokens}"
        if folder.is_dir():
            told = as_told(open_corpus(folder, "train"), codec, yardstick.other)
            found = yardstick.distance(told, f"{tokens} tokens")
            rows.append({"clips": f"decoded from {tokens} tokens", "gfvd": rounded(found.estimate, 1)})
    return rows


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
    codecs = {tokens: codec for tokens in TOKENS if tokens != ALONE}
    if Path(options.causaltok).is_dir():
        codecs[ALONE] = opened(options.causaltok, options)
    yardstick = Yardstick.of(options.data, codec, options.num, options.windows)
    sampling = Sampling(temperature=options.temperature, top_p=options.top_p)
    tables, missing = {}, []
    for condition, prefix in CONDITIONS.items():
        cast, absent = directors(prefix, codecs, options.runs)
        missing += absent
        if cast:
            tables[condition] = compare(prefix, cast, yardstick, sampling, options)
        if cast and prefix == "ar":
            save_image(drawn(cast, sampling), condition, options)
    tables["what to compare with"] = floors(codecs, yardstick, options.runs)
    notes = [f"not trained: {folder}" for folder in missing]
    finish("generation", options, tables, {"models": [one.fingerprint for one in codecs.values()], "notes": notes})


if __name__ == "__main__":
    main()
