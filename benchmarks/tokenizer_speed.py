"""How much faster and leaner is block by block than the dense mask, on the same weights?

    python benchmarks/tokenizer_speed.py [--preset l] [--repeats 3]

Encoding, decoding with half of the tokens kept, and scoring all blocks in sequence, each against the dense oracle;
decode time against kept tokens. Batch 1, random weights. Writes results/tokenizer_speed.json and .png. Ratios are
taken within one run, both paths by turns, the best of the repeats; peak memory in a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import machine
from adaptok.allocation.dense import dense_score
from adaptok.bundle import Bundle, build
from adaptok.tokenizer.dense import dense_decode, dense_latents
from adaptok.tokenizer.model import Encoding

GOALS = {"encode": 1.1, "decode half": 1.6, "score all blocks": 2.5}
Work = Callable[[], object]


def works(bundle: Bundle) -> dict[str, tuple[Work, Work]]:
    """For every question the fast path and the dense one."""
    tokenizer, scorer, g = bundle.tokenizer, bundle.scorer, bundle.config.tokenizer.geometry
    assert scorer is not None
    video = torch.rand(1, 3, g.frames, g.height, g.width)
    half = torch.full((1, g.blocks), g.tokens_per_block // 2)
    width = bundle.config.tokenizer.encoder.width
    codes = torch.randint(0, bundle.config.tokenizer.quantizer.codebook_size, (1, g.blocks, g.tokens_per_block))
    latents = torch.randn(1, g.blocks, g.tokens_per_block, width)
    encoding = Encoding(latents, codes, tokenizer.quantizer.embed(tokenizer.quantizer.lookup(codes)))

    def score() -> None:
        memory = None
        for k in range(g.blocks):
            one = encoding.blocks(k, k + 1)
            scorer.score_block(one, memory)
            if k + 1 < g.blocks:
                memory = scorer.remember(one, half[:, k : k + 1], memory)

    def score_dense() -> None:
        for k in range(g.blocks):
            dense_score(scorer, encoding, half, k)

    return {
        "encode": (lambda: tokenizer.encoder(video), lambda: dense_latents(tokenizer, video)),
        "decode half": (lambda: tokenizer.decode(codes, half), lambda: dense_decode(tokenizer, codes, half)),
        "score all blocks": (score, score_dense),
    }


def seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_megabytes(work: Work) -> float:
    """Growth of the resident set while `work` runs, sampled every millisecond."""
    page = resource.getpagesize()
    rss = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * page  # noqa: E731
    base, peak, done = rss(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.001):
            peak[0] = max(peak[0], rss() - base)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return peak[0] / 2**20


def measure_memory(preset: str, question: str, path: int) -> float:
    """In a fresh process, so that freed memory of earlier work does not hide the peak."""
    command = [sys.executable, __file__, "--preset", preset, "--memory", question, str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def decode_curve(bundle: Bundle, repeats: int) -> list[dict[str, float]]:
    g = bundle.config.tokenizer.geometry
    codes = torch.randint(0, bundle.config.tokenizer.quantizer.codebook_size, (1, g.blocks, g.tokens_per_block))
    curve = []
    for share in (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1):
        kept = torch.full((1, g.blocks), int(share * g.tokens_per_block))
        taken = min(seconds(lambda kept=kept: bundle.tokenizer.decode(codes, kept)) for _ in range(repeats))
        curve.append({"tokens": int(kept.sum()), "seconds": round(taken, 4)})
    return curve


def plot(curve: list[dict[str, float]], dense: float, name: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.plot([p["tokens"] for p in curve], [p["seconds"] for p in curve], "o-", label="block by block")
    axes.axhline(dense, color="tab:red", linestyle="--", label="dense mask, whatever is kept")
    axes.set(
        xlabel="kept tokens of a clip", ylabel="seconds to decode", ylim=(0, None), title=f"preset {name}, batch 1"
    )
    axes.legend()
    figure.savefig(machine.RESULTS / "tokenizer_speed.png", dpi=120)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="l")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", nargs=2, metavar=("QUESTION", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.manual_seed(0)
    bundle = build(options.preset)
    questions = works(bundle)
    if options.memory:
        print(peak_megabytes(questions[options.memory[0]][int(options.memory[1])]))
        return
    table = Table("", "block by block", "dense mask", "faster", "goal", "peak MB", "dense peak MB")
    rows, dense_decode_time = {}, 0.0
    for question, (fast, dense) in questions.items():
        times = [(seconds(fast), seconds(dense)) for _ in range(options.repeats + 1)][1:]
        fast_time, dense_time = (min(column) for column in zip(*times, strict=True))
        memory = [measure_memory(options.preset, question, path) for path in (0, 1)]
        rows[question] = {
            "seconds": round(fast_time, 4),
            "dense_seconds": round(dense_time, 4),
            "ratio": round(dense_time / fast_time, 2),
            "goal": GOALS[question],
            "peak_mb": round(memory[0]),
            "dense_peak_mb": round(memory[1]),
        }
        dense_decode_time = dense_time if question == "decode half" else dense_decode_time
        row = rows[question]
        table.add_row(
            question,
            f"{fast_time:.2f} s",
            f"{dense_time:.2f} s",
            f"{row['ratio']:.2f}×",
            f"{GOALS[question]}×",
            str(row["peak_mb"]),
            str(row["dense_peak_mb"]),
        )
    curve = decode_curve(bundle, options.repeats)
    Console().print(table)
    print(json.dumps(curve))
    machine.save("tokenizer_speed", {**machine.describe(), "preset": options.preset, "rows": rows, "decode": curve})
    plot(curve, dense_decode_time, options.preset)


if __name__ == "__main__":
    main()
