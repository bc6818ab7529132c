"""The codec end to end: speed, memory, latency, overhead.

    python benchmarks/codec.py [--model tiny] [--seconds 10 600]

Frames per second from file to stream and back, share of time per stage, peak memory of a short and a long video, time
to the first block against a whole clip, bits per second, container overhead, the saving of entropy coding, and clips
of a video encoded side by side on all cores. The video is made here, 160×120 at 25 fps. Writes results/codec.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import adaptok
import machine
from adaptok import Budget, Codec, Spending
from adaptok.stream import TokenWriter
from adaptok.stream.convert import decode_file, encode_file
from adaptok.stream.entropy import EntropyCoder
from adaptok.video import create_video, open_video, stretched, to_images, to_video

FPS, HEIGHT, WIDTH = 25, 120, 160
BATCH = 8


def make_video(path: Path, seconds: int) -> None:
    """A disc on a moving texture: enough going on that no stage is idle."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    with create_video(path, height=HEIGHT, width=WIDTH, fps=Fraction(FPS), time_base=Fraction(1, FPS)) as writer:
        for i in range(seconds * FPS):
            wave = 100 + 60 * np.sin((x + 2 * i) / 9) + 40 * np.sin((y - i) / 7)
            disc = (x - 80 - 50 * np.sin(i / 20)) ** 2 + (y - 60 - 40 * np.cos(i / 15)) ** 2 < 300
            image = np.stack([wave, np.roll(wave, i, 1), 255 - wave], axis=-1)
            image[disc] = (250, 220, 40)
            writer.write(image.clip(0, 255).astype(np.uint8), i)


def child(model: str, video: Path) -> None:
    """Encode and decode in a process of its own; print times and its peak memory."""
    import resource

    codec = load(model)
    spending = Spending(budget=Budget(per_block=codec.geometry.tokens_per_block / 2))
    stream, back = video.with_suffix(".adtk"), video.with_name(video.stem + "-back.mp4")
    start = time.perf_counter()
    report = encode_file(codec, str(video), str(stream), spending, overwrite=True)
    middle = time.perf_counter()
    decode_file(codec, str(stream), str(back), overwrite=True)
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"frames": report.frames, "encode": middle - start, "decode": end - middle, "peak_mb": peak}))


def load(model: str) -> Codec:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adaptok.UntrainedWarning)
        return adaptok.load(model)


def end_to_end(model: str, seconds: list[int], folder: Path) -> list[dict[str, float]]:
    rows = []
    for length in seconds:
        video = folder / f"{length}.mp4"
        make_video(video, length)
        command = [sys.executable, __file__, "--model", model, "--child", str(video)]
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows.append(
            {
                "seconds": length,
                "encode_fps": round(out["frames"] / out["encode"], 1),
                "decode_fps": round(out["frames"] / out["decode"], 1),
                "peak_mb": round(out["peak_mb"]),
            }
        )
    return rows


@torch.inference_mode()
def stages(codec: Codec, video: Path) -> dict[str, float]:
    """Share of the time of one pass spent in each stage, in percent."""
    g = codec.geometry
    taken = dict.fromkeys(("read", "resize", "encode", "score and allot", "decode", "resize back", "write"), 0.0)

    def lap(stage: str, start: float) -> float:
        now = time.perf_counter()
        taken[stage] += now - start
        return now

    from adaptok.allocation.context import Prediction, judge

    clock = time.perf_counter()
    with open_video(video) as reader:
        images = np.stack([frame.image for frame in reader])
    clock = lap("read", clock)
    with create_video(
        video.with_name("stage.mp4"),
        height=HEIGHT,
        width=WIDTH,
        fps=Fraction(FPS),
        time_base=Fraction(1, FPS),
        overwrite=True,
    ) as writer:
        for first in range(0, len(images) - g.frames + 1, g.frames):
            clip = stretched(images[first : first + g.frames], g.height, g.width)
            clock = lap("resize", clock)
            encoding = codec.bundle.tokenizer.encode(to_video(clip))
            clock = lap("encode", clock)
            kept = judge(Prediction(codec.bundle.scorer, encoding), Budget(per_block=g.tokens_per_block / 2)).kept
            clock = lap("score and allot", clock)
            shown = to_images(codec.bundle.tokenizer.decode(encoding.codes, torch.from_numpy(kept)))
            clock = lap("decode", clock)
            shown = stretched(shown, HEIGHT, WIDTH)
            clock = lap("resize back", clock)
            for i, image in enumerate(shown):
                writer.write(image, first + i)
            clock = lap("write", clock)
    total = sum(taken.values())
    return {stage: round(100 * seconds / total, 1) for stage, seconds in taken.items()}


def first_block(codec: Codec, repeats: int = 7) -> dict[str, float]:
    """Time from the last frame of a block (live) to its tokens, against a whole clip offline."""
    g = codec.geometry
    frames = np.random.default_rng(0).integers(0, 256, (g.frames, g.height, g.width, 3), dtype=np.uint8)
    budget = Budget(per_block=g.tokens_per_block / 2)
    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        session = codec.encoder(Spending(budget=budget, scope="live"))
        start = time.perf_counter()
        assert session.push(frames[: g.block_frames])
        best[0] = min(best[0], time.perf_counter() - start)
        start = time.perf_counter()
        codec.encode(frames, budget)
        best[1] = min(best[1], time.perf_counter() - start)
    return {
        "first_block_ms": round(1000 * best[0], 1),
        "whole_clip_ms": round(1000 * best[1], 1),
        "ratio": round(best[0] / best[1], 3),
        "goal": 0.35,
    }


def sizes(codec: Codec, video: Path) -> dict[str, float]:
    """Bytes: packed codes, container, entropy coding."""
    import io

    with open_video(video) as reader:
        images = np.stack([frame.image for frame in reader])[: 40 * codec.geometry.block_frames]
    full = codec.encode(images, fps=Fraction(FPS))
    bits = codec.bits_per_token
    payload = int(full.kept.sum()) * bits / 8
    plain = codec.header(HEIGHT, WIDTH, Fraction(FPS), with_scores=False)
    file = io.BytesIO()
    writer = TokenWriter(file, plain, blocks_per_record=codec.geometry.blocks)
    from dataclasses import replace

    for i in range(1000):
        block = full.blocks[i % len(full.blocks)]
        writer.write(replace(block, index=i, scores=None, frames=codec.geometry.block_frames))
    writer.close()
    container = len(file.getvalue()) / (1000 * codec.geometry.tokens_per_block * bits / 8) - 1
    half = codec.encode(images, Budget(per_block=codec.geometry.tokens_per_block / 2), fps=Fraction(FPS))
    saving = None
    if codec.bundle.tokenizer.prior is not None:
        coder = EntropyCoder(codec.bundle.tokenizer)
        coded = sum(len(coder.encode(block).payload) for block in half.blocks)
        saving = round(100 * coded / sum(-(-block.kept * bits // 8) for block in half.blocks), 1)
    return {
        "bits_per_second_full": round(8 * payload / (len(images) / FPS)),
        "container_overhead_percent": round(100 * container, 2),
        "overhead_goal_percent": 2,
        "entropy_coded_percent_of_packed": saving,
    }


def side_by_side(codec: Codec, video: Path) -> dict[str, Any]:
    """Clips of one video in batches, against one after another: how much faster, and are the tokens the same?"""
    with open_video(video) as reader:
        images = np.stack([frame.image for frame in reader])
    budget = Budget(per_block=codec.geometry.tokens_per_block / 2)
    start = time.perf_counter()
    plain = codec.encode(images, budget)
    middle = time.perf_counter()
    many = codec.encode(images, budget, batch=BATCH)
    end = time.perf_counter()
    same = all(np.array_equal(a.codes, b.codes) for a, b in zip(plain.blocks, many.blocks, strict=True))
    return {
        "batch": BATCH,
        "one_after_another_fps": round(len(images) / (middle - start), 1),
        "side_by_side_fps": round(len(images) / (end - middle), 1),
        "faster": round((middle - start) / (end - middle), 2),
        "same_tokens": bool(same),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--seconds", type=int, nargs="+", default=[10, 600])
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.model, options.child)
        return
    codec = load(options.model)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        runs = end_to_end(options.model, options.seconds, folder)
        short = folder / f"{options.seconds[0]}.mp4"
        result = {
            "end_to_end": runs,
            "peak_ratio": round(runs[-1]["peak_mb"] / runs[0]["peak_mb"], 3),
            "stage_percent": stages(codec, short),
            "latency": first_block(codec),
            "sizes": sizes(codec, short),
            "side_by_side": side_by_side(codec, short),
        }
    table = Table("what", "figures")
    for name, value in result.items():
        table.add_row(name, json.dumps(value))
    Console(width=150).print(table)
    machine.save("codec", {**machine.describe(("av",)), "model": options.model, **result})


if __name__ == "__main__":
    main()
