"""How good is an embedded model on videos it never saw, and how fast is it?

    python benchmarks/embedded_model.py videos/manifest.csv [--model tiny] [--run runs/tiny --scorer-run runs/scorer]

Quality: PSNR, SSIM, LPIPS and FVD of `adaptok evaluate` with equal lengths and ipal, at an eighth, a quarter, a half
and all of the tokens; use of the codebook; the scorer's rank correlation with the truth, and how much of the gap
between equal lengths and the oracle it closes. Speed: loading, and one clip there and back. Writes
results/embedded_model.json; with `--run`, also docs/images/training.png, the curves of the runs it came from.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

import adaptok
import machine
from adaptok.allocation.truth import block_loss
from adaptok.evaluation import Row, Settings, evaluate
from adaptok.stream.codec import Codec
from adaptok.tokenizer.tail_drop import sample_kept
from adaptok.training.clips import validation_batch
from adaptok.training.frames import decode, open_store
from adaptok.training.listing import list_videos
from adaptok.training.scorer_validation import Exam
from adaptok.video import centre_cropped, to_video

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def row_facts(row: Row, codebook: int) -> dict[str, Any]:
    """One point as plain data, each metric with the ends of its interval."""
    return {
        "method": row.point.curve,
        "budget": row.point.budget,
        "tokens": round(row.tokens, 2),
        "bits_per_second": round(row.bits_per_second, 1),
        "codes_used": None if row.usage is None else row.usage.used / codebook,
        **{name: [round(v, 4) for v in (e.value, e.low, e.high)] for name, e in row.estimates.items()},
    }


def quality(codec: Codec, data: Path, windows: int) -> dict[str, Any]:
    """Rows of `adaptok evaluate`, without single clips."""
    m = codec.geometry.tokens_per_block
    settings = Settings(
        budgets=(m / 8, m / 4, m / 2, m),
        strategies=("fixed", "ipal"),
        windows=windows,
        batch=16,
        scope="batch",
    )
    with tempfile.TemporaryDirectory() as scratch:
        found = evaluate(codec, data, Path(scratch) / "out", settings)
    assert found is not None
    rows = [row_facts(row, found.codebook) for row in found.rows]
    return {"videos": found.videos, "clips": len(found.clips), "skipped": len(found.skipped), "rows": rows}


def scoring(codec: Codec, data: Path, clips: int) -> dict[str, float]:
    """Predicted against true scores, and what the difference costs."""
    g, scorer = codec.geometry, codec.bundle.scorer
    assert scorer is not None
    with tempfile.TemporaryDirectory() as scratch:
        store = open_store(list_videos(data, "val"), "disk", Path(scratch), 96, 0, 0, lambda items, _: items)
        video = validation_batch(store, clips, g.frames, (g.height, g.width)).video(torch.device("cpu"))
    kept = sample_kept(
        codec.bundle.config.tokenizer.lengths,
        len(video),
        g.blocks,
        g.tokens_per_block,
        torch.Generator().manual_seed(0),
    )
    exam = Exam(codec.bundle.tokenizer, scorer.lengths, video, kept, block_loss(scorer.config.metric))
    return {name: round(value, 5) for name, value in exam(scorer).values.items()}


@torch.inference_mode()
def codes_used(codec: Codec, data: Path, split: str) -> dict[str, float]:
    """Share of the codebook that all clips of a split's videos use: one clip of each cannot show it."""
    g, tokenizer = codec.geometry, codec.bundle.tokenizer
    counts = torch.zeros(tokenizer.config.quantizer.codebook_size, dtype=torch.long)
    clips = 0
    for entry in list_videos(data, split):
        images = centre_cropped(decode(entry, max(g.height, g.width)), g.height, g.width)
        for first in range(0, len(images) - g.frames + 1, g.frames):
            codes = tokenizer.encode(to_video(images[first : first + g.frames])).codes
            counts += torch.bincount(codes.flatten(), minlength=len(counts))
            clips += 1
    return {"clips": clips, "tokens": int(counts.sum()), "share": round(float((counts > 0).double().mean()), 4)}


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The best of a few."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(min(times), 4)


def speed(codec: Codec, name: str) -> dict[str, float]:
    """Loading and one clip, all of it warm."""
    g = codec.geometry
    clip = np.random.default_rng(0).integers(0, 256, (g.frames, g.height, g.width, 3), dtype=np.uint8)
    tokens = codec.encode(clip)
    return {
        "load": seconds(lambda: adaptok.load(name)),
        "encode_clip": seconds(lambda: codec.encode(clip)),
        "decode_clip": seconds(lambda: codec.decode(tokens)),
    }


def validations(runs: list[Path]) -> list[dict[str, float]]:
    """What the runs found on held-out clips, each going on where the one before ended."""
    found: list[dict[str, float]] = []
    for run in runs:
        before = found[-1]["step"] if found else 0
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        found += [{**line, "step": line["step"] + before} for line in lines if line["kind"] == "val"]
    return found


def curves(runs: list[Path], scorers: list[Path], path: Path) -> None:
    """Validation of the runs over their steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    panels = figure.subplots(1, 3)
    found = validations(runs)
    steps = [line["step"] for line in found]
    for share, label in ((1, "all"), (2, "1/2"), (4, "1/4"), (8, "1/8")):
        panels[0].plot(steps, [line[f"psnr_1_{share}"] for line in found], label=f"{label} of the tokens")
        panels[1].plot(steps, [line[f"lpips_1_{share}"] for line in found])
    panels[0].set_title("PSNR (dB), held-out clips", loc="left", fontsize=10)
    panels[0].set_ylim(bottom=16)
    panels[0].legend(frameon=False, fontsize=8, ncols=2, loc="lower left")
    panels[1].set_title("LPIPS, held-out clips", loc="left", fontsize=10)
    panels[2].plot(steps, [line["codebook_usage"] for line in found], label="codes in use")
    if scorers:
        found = validations(scorers)
        panels[2].plot([line["step"] for line in found], [line["spearman"] for line in found], label="scorer: Spearman")
    panels[2].legend(frameon=False, fontsize=8)
    panels[2].set_title("codebook and scorer", loc="left", fontsize=10)
    for axes in panels:
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#e6e6e6", linewidth=0.6)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--windows", type=int, default=1)
    parser.add_argument("--run", type=Path, nargs="+", default=[], help="runs of the tokenizer, one after the other")
    parser.add_argument("--scorer-run", type=Path, nargs="+", default=[])
    options = parser.parse_args()
    codec = adaptok.load(options.model)
    result = {
        **machine.describe(("av",)),
        "model": codec.bundle.config.name,
        "fingerprint": codec.fingerprint,
        "parameters": {name: sum(p.numel() for p in part.parameters()) for name, part in codec.bundle.modules.items()},
        "seconds": speed(codec, options.model),
        "codes_used_all_windows": {split: codes_used(codec, options.data, split) for split in ("val", "train")},
        "scorer": scoring(codec, options.data, 43),
        "quality": quality(codec, options.data, options.windows),
    }
    Console().print(result)
    machine.save("embedded_model", result)
    if options.run:
        curves(options.run, options.scorer_run, IMAGES / "training.png")


if __name__ == "__main__":
    main()
