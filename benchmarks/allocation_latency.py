"""What allocation costs within encoding: the appendix's runtime tables, on this machine.

    python benchmarks/allocation_latency.py [--preset tiny] [--videos 1024]

Mini-batch size (ms per video in all, ms per video for IPAL, its share), number of blocks, average tokens; scoring in
context against one pass. Times are of this machine; the paper's are of a GPU. Random weights: they do not change the
amount of work. Writes results/allocation_latency.json.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import machine
from adaptok.allocation import Budget, ScoreTable, allocate
from adaptok.allocation.context import Prediction, judge
from adaptok.allocation.scope import batch, index
from adaptok.bundle import Bundle, build

BATCHES = (8, 16, 64, 128, 256, 512, 1024)
PIECE = 8
"""Clips that go through the networks at once."""


def timed(work: Callable[[], Any], repeats: int = 5) -> tuple[float, Any]:
    """Best time in milliseconds, and the result."""
    best, out = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        out = work()
        best = min(best, time.perf_counter() - start)
    return 1000 * best, out


def realistic(rows: int, candidates: int, seed: int = 0) -> np.ndarray:
    """Losses that decay with length at a pace of their own, with a little noise."""
    rng = np.random.default_rng(seed)
    n = np.arange(1, candidates + 1) / candidates
    start, rate = rng.uniform(0.2, 0.8, (rows, 1)), rng.uniform(1, 6, (rows, 1))
    return start * np.exp(-rate * n) + rng.normal(0, 0.002, (rows, candidates))


@torch.inference_mode()
def pipeline(bundle: Bundle, videos: int) -> tuple[float, np.ndarray]:
    """Milliseconds per video for encoding, scoring and decoding at half of the tokens; and the scores."""
    g = bundle.config.tokenizer.geometry
    video = torch.rand(PIECE, 3, g.frames, g.height, g.width)
    kept = torch.full((PIECE, g.blocks), g.tokens_per_block // 2)
    scores = []
    assert bundle.scorer is not None
    start = time.perf_counter()
    for _ in range(videos // PIECE):
        encoding = bundle.tokenizer.encode(video)
        scores.append(bundle.scorer.score_once(encoding).numpy())
        bundle.tokenizer.decode(encoding.codes, kept)
    return 1000 * (time.perf_counter() - start) / videos, np.concatenate(scores)


def by_batch(bundle: Bundle, sizes: Sequence[int], share: float = 0.5) -> list[dict[str, float]]:
    """Batches of these sizes with a share of all tokens."""
    g = bundle.config.tokenizer.geometry
    assert bundle.scorer is not None
    lengths = np.asarray(bundle.scorer.lengths)
    budget = Budget(per_block=share * g.tokens_per_block)
    rows = []
    for size in sizes:
        networks, _ = pipeline(bundle, size)
        loss = realistic(size * g.blocks, len(lengths)).reshape(size, g.blocks, -1)
        table = ScoreTable.of_clips(loss, lengths)
        taken, _ = timed(lambda table=table: allocate(table, budget, scope=index))
        ipal = taken / size
        rows.append(
            {
                "batch": size,
                "total_ms": round(networks + ipal, 2),
                "ipal_ms": round(ipal, 5),
                "share_percent": round(100 * ipal / (networks + ipal), 4),
            }
        )
    return rows


def by_blocks() -> list[dict[str, float]]:
    """64 videos, 1024 tokens a video, 8 candidate lengths a block, as many blocks as stated."""
    rows = []
    for blocks in (1, 2, 4, 8):
        most = 2048 // blocks
        table = ScoreTable.of_clips(realistic(64 * blocks, 8).reshape(64, blocks, 8), np.arange(1, 9) * (most // 8))
        taken, _ = timed(lambda table=table, b=blocks: allocate(table, Budget(per_block=1024 / b), scope=index))
        rows.append({"blocks": blocks, "tokens": 1024, "ipal_ms": round(taken / 64, 5)})
    return rows


def by_tokens() -> list[dict[str, float]]:
    """64 videos of 4 blocks of up to 512 tokens, average tokens a video as stated."""
    rows = []
    for tokens in (32, 128, 512, 1024):
        step = 8 if tokens < 512 else 64
        lengths = np.arange(step, 513, step)
        table = ScoreTable.of_clips(realistic(256, len(lengths)).reshape(64, 4, -1), lengths)
        taken, _ = timed(lambda table=table, t=tokens: allocate(table, Budget(per_block=t / 4), scope=batch))
        rows.append({"blocks": 4, "tokens": tokens, "candidates": len(lengths), "ipal_ms": round(taken / 64, 5)})
    return rows


@torch.inference_mode()
def context(bundle: Bundle) -> dict[str, float]:
    """In context against one pass: time, and how many blocks get another length."""
    g = bundle.config.tokenizer.geometry
    assert bundle.scorer is not None
    encoding = bundle.tokenizer.encode(torch.rand(PIECE, 3, g.frames, g.height, g.width))
    by, budget = Prediction(bundle.scorer, encoding), Budget(per_block=g.tokens_per_block / 2)
    once, a = timed(lambda: judge(by, budget, in_context=False), 3)
    in_context, b = timed(lambda: judge(by, budget), 3)
    return {
        "one_pass_ms": round(once / PIECE, 3),
        "in_context_ms": round(in_context / PIECE, 3),
        "blocks_that_differ_percent": round(100 * float((a.kept != b.kept).mean()), 1),
    }


def show(title: str, rows: list[dict[str, float]]) -> None:
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--videos", type=int, default=1024)
    options = parser.parse_args()
    torch.manual_seed(0)
    bundle = build(options.preset)
    allocate(ScoreTable.of_clips(realistic(8, 8).reshape(2, 4, 8), np.arange(1, 9)), Budget(per_block=4))  # compile
    result = {
        "batch": by_batch(bundle, [size for size in BATCHES if size <= options.videos]),
        "blocks": by_blocks(),
        "tokens": by_tokens(),
        "context": [context(bundle)],
    }
    for title, rows in result.items():
        show(title, rows)
    machine.save("allocation_latency", {**machine.describe(("numba",)), "preset": options.preset, **result})


if __name__ == "__main__":
    main()
