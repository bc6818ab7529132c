"""What it takes to find lengths: scorer and IPAL against threshold search by repeated decoding (Tab. latency).

    python benchmarks/paper/latency.py --data videos/manifest.csv [--model FOLDER] [--repeats 7]

ElasticTok's way: after encoding, block after block, the smallest candidate length whose true loss lies below a
threshold, found by decoding candidates: all of them (sweep), or by bisection, which trusts that the loss falls with
length. Same model, same clips, one run, the ways taking turns. The threshold is the mean loss at half of the tokens,
so that all ways spend about as many. Decoding the result is in no time. `parts` takes these times apart. Then the
appendix's tables: IPAL against batch size with the quality it gives, against blocks and average tokens. Writes
results/paper/latency.json.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from common import TableRows, arguments, finish, opened, parsed, run, settings, shares
from jaxtyping import Float
from torch import Tensor

from adaptok.allocation import Budget
from adaptok.allocation.context import Prediction, judge
from adaptok.allocation.truth import BlockLoss, Truth, block_loss
from adaptok.blocks.memory import Memory
from adaptok.bundle import Bundle
from adaptok.evaluation.settings import candidate_lengths
from adaptok.shapes import Kept, Video
from adaptok.stream.codec import Codec
from adaptok.video import to_video
from allocation_latency import by_batch, by_blocks, by_tokens
from generation_quality import real_clips

Find = Callable[[Truth, int, Memory | None, float], Kept]
"""The lengths (B,1) of one block after what memory holds."""


def swept(truth: Truth, block: int, memory: Memory | None, threshold: float) -> Kept:
    """The smallest length below the threshold, by decoding every one; the longest where none is."""
    good = truth.score(block, memory) <= threshold
    good[:, -1] = True
    return torch.tensor(truth.lengths, device=good.device)[good.int().argmax(dim=1)][:, None]


def bisected(truth: Truth, block: int, memory: Memory | None, threshold: float) -> Kept:
    """The same where losses fall with length, by decoding as often as lengths can be halved."""
    lengths = torch.tensor(truth.lengths, device=truth.video.device)
    low = torch.zeros(truth.shape[0], dtype=torch.long, device=lengths.device)
    high = torch.full_like(low, len(lengths) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        good = loss_at(truth, block, memory, lengths[middle][:, None]) <= threshold
        high, low = torch.where(good, middle, high), torch.where(good, low, (middle + 1).minimum(high))
    return lengths[high][:, None]


def loss_at(truth: Truth, block: int, memory: Memory | None, kept: Kept) -> Float[Tensor, " B"]:
    """True loss of a block when each sample keeps a length of its own."""
    frames = truth.tokenizer.config.geometry.block_frames
    decoded, _ = truth.tokenizer.decoder(truth.encoding.embedded[:, block : block + 1], kept, memory)
    return truth.loss(decoded.clamp(0, 1), truth.video[:, :, block * frames : (block + 1) * frames])


@torch.inference_mode()
def threshold_search(bundle: Bundle, video: Video, loss: BlockLoss, threshold: float, find: Find) -> Kept:
    """Encode clips and find the length of every block, each after the cuts before it."""
    tokenizer = bundle.tokenizer
    truth = Truth(tokenizer, tokenizer.encode(video), video, candidate_lengths(bundle), loss)
    memory, kept = None, []
    for block in range(truth.shape[1]):
        kept.append(find(truth, block, memory, threshold))
        if block + 1 < truth.shape[1]:
            memory = truth.remember(block, kept[-1], memory)
    return torch.cat(kept, dim=1)


@torch.inference_mode()
def scored(bundle: Bundle, video: Video, per_block: float, in_context: bool) -> Kept:
    """Encode clips, predict losses, allocate."""
    assert bundle.scorer is not None
    by = Prediction(bundle.scorer, bundle.tokenizer.encode(video))
    return torch.from_numpy(judge(by, Budget(per_block=per_block), in_context=in_context).kept)


@torch.inference_mode()
def half_loss(bundle: Bundle, video: Video, loss: BlockLoss) -> float:
    """Mean loss of all blocks at half of the tokens, the threshold that spends about as much."""
    g = bundle.config.tokenizer.geometry
    kept = torch.full((len(video), g.blocks), g.tokens_per_block // 2, device=video.device)
    decoded = bundle.tokenizer.decode(bundle.tokenizer.encode(video).codes, kept).clamp(0, 1)
    pairs = zip(decoded.split(g.block_frames, dim=2), video.split(g.block_frames, dim=2), strict=True)
    return float(torch.stack([loss(a, b) for a, b in pairs]).mean())


def timed(ways: Mapping[str, Callable[[], object]], repeats: int, videos: int) -> dict[str, list[float]]:
    """Milliseconds per video of each way in `repeats` rounds in which all take turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            taken[name].append(1000 * (time.perf_counter() - start) / videos)
    return taken


def in_turns(ways: Mapping[str, Callable[[], Kept]], repeats: int, videos: int) -> TableRows:
    """Milliseconds per video of each way, the median of all rounds; the first way is 1×.

    `times` has the least and the largest ratio of any round after it: what noise there is shows there.
    """
    kept = {name: way() for name, way in ways.items()}  # also warms up
    taken = timed(ways, repeats, videos)
    first = np.array(next(iter(taken.values())))
    rows = []
    for name, times in taken.items():
        ratios = np.array(times) / first
        rows.append(
            {
                "method": name,
                "ms per video": round(float(np.median(times)), 2),
                "times": [round(float(value), 2) for value in (np.median(ratios), ratios.min(), ratios.max())],
                "tokens": round(float(kept[name].double().sum(dim=1).mean()), 1),
            }
        )
    return rows


@torch.inference_mode()
def parts(codec: Codec, clips: Sequence[np.ndarray], size: int, options: argparse.Namespace) -> TableRows:
    """Where the time goes: what every way needs, what the scorer adds, what one candidate of a search adds."""
    bundle, g = codec.bundle, codec.geometry
    assert bundle.scorer is not None
    video = torch.cat([to_video(clip) for clip in clips[:size]]).to(options.device)
    tokenizer, scorer, encoding = bundle.tokenizer, bundle.scorer, bundle.tokenizer.encode(video)
    half = torch.full((len(video), g.blocks), g.tokens_per_block // 2, device=video.device)
    ways: dict[str, Callable[[], object]] = {
        "encoder": lambda: tokenizer.encoder(video),
        "finding codes": lambda: tokenizer.quantizer.nearest(encoding.latents),
        "scorer in context, IPAL": lambda: judge(
            Prediction(scorer, encoding), Budget(per_block=g.tokens_per_block / 2)
        ),
        "decoder, half of the tokens": lambda: tokenizer.decode(encoding.codes, half),
    }
    timed(ways, 1, len(video))  # warms up
    taken = timed(ways, options.repeats, len(video))
    return [
        {"batch": len(video), "part": name, "ms per video": round(float(np.median(t)), 2)} for name, t in taken.items()
    ]


def searching(codec: Codec, clips: Sequence[np.ndarray], size: int, options: argparse.Namespace) -> TableRows:
    """All ways on the first `size` clips, encoded together."""
    bundle, loss = codec.bundle, block_loss(options.loss)
    video = torch.cat([to_video(clip) for clip in clips[:size]]).to(options.device)
    threshold, half = half_loss(bundle, video, loss), codec.geometry.tokens_per_block / 2
    ways: dict[str, Callable[[], Kept]] = {
        "scorer and IPAL": lambda: scored(bundle, video, half, in_context=True),
        "scorer in one pass and IPAL": lambda: scored(bundle, video, half, in_context=False),
        "threshold search, bisection": lambda: threshold_search(bundle, video, loss, threshold, bisected),
        "threshold search, sweep": lambda: threshold_search(bundle, video, loss, threshold, swept),
    }
    return [{"batch": len(video), **row} for row in in_turns(ways, options.repeats, len(video))]


def batches(codec: Codec, options: argparse.Namespace, share: float) -> TableRows:
    """Time and quality against the number of videos that share a budget, blocks of the same index as in the paper."""
    rows = []
    for row in by_batch(codec.bundle, options.batches, share):
        size = int(row["batch"])
        wanted = replace(settings(options), budgets=shares(codec, share), strategies=("ipal",), scope="index")
        (found,) = run(codec, options, replace(wanted, batch=size)).rows
        quality = {name: [round(v, 4) for v in (e.value, e.low, e.high)] for name, e in found.estimates.items()}
        rows.append({"batch": size, **quality, **row})
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8], help="clips that are encoded together")
    parser.add_argument("--loss", default="mse", help="what the threshold is on; ElasticTok's is squared error")
    parser.add_argument("--batches", type=int, nargs="*", default=[8, 16, 32], help="multiples of 8")
    options = parsed(parser)
    codec = opened(options.model, options)
    clips = [clip.images for clip in real_clips(options.data, codec, "val", max(options.sizes))]
    tables = {"latency": [row for size in options.sizes for row in searching(codec, clips, size, options)]}
    tables["parts"] = [row for size in options.sizes for row in parts(codec, clips, size, options)]
    if options.batches:
        tables["batch, a quarter of the tokens"] = batches(codec, options, 1 / 4)
        tables["batch, half of the tokens"] = batches(codec, options, 1 / 2)
    tables |= {"blocks": by_blocks(), "tokens": by_tokens()}
    finish("latency", options, tables, {"models": [codec.fingerprint], "candidates": candidate_lengths(codec.bundle)})


if __name__ == "__main__":
    main()
