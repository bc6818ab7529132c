"""The paper's figures, drawn from a model and held-out clips.

    python benchmarks/paper/figures.py --data videos/manifest.csv [--model FOLDER] [--only cut attention]

`budgets`: tokens per block under the frames, across budgets and clips (Fig. 1). `content`: the clips that get fewest
and most tokens when all share a budget. `cut`: two videos joined at a known frame, tokens per block, the cut marked.
`coarse`: pictures from the first tokens of each block, and where the n-th token changes the picture. `attention`: what
latent tokens look at in the encoder's patches. `scores`: predicted against true score curves. Each writes
docs/images/paper/NAME.png and rows into results/paper/figures.json, which say what one is meant to see in numbers.
Numbers are of all clips; pictures only show clips whose name contains `--show`, where others must not be published.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attention
import numpy as np
import torch
from common import TableRows, arguments, finish, opened, parsed, save_image
from torch import Tensor

from adaptok.allocation import Budget
from adaptok.allocation.context import Prediction, judge
from adaptok.allocation.scope import batch as shared
from adaptok.allocation.truth import Truth, block_loss
from adaptok.shapes import Kept, Video
from adaptok.stream.codec import Codec
from adaptok.training.scorer_validation import rank_correlation
from adaptok.video import to_video
from generation_quality import real_clips

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawn = tuple["Figure", TableRows]
Draw = Callable[[Codec, Video, argparse.Namespace], Drawn]
SHOWN = 4
"""Clips, or tokens, that a picture has room for."""
_BAR, _CUT = "#1f5fbf", "#d62728"


def sheet(rows: int, columns: int, size: tuple[float, float], heights: Sequence[float] | None = None) -> Any:
    """A figure and its axes (rows, columns), frames of axes hidden."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw={"height_ratios": heights or [1] * rows})
    for one in axes.flat:
        one.set_xticks([])
        one.set_yticks([])
        one.spines[:].set_visible(False)
    return figure, axes


def strip(axes: "Axes", video: Video, blocks: int) -> None:
    """The middle frame of every block of one clip (1,3,T,H,W), side by side."""
    each = video.shape[2] // blocks
    frames = video[0, :, each // 2 :: each].clamp(0, 1).permute(2, 1, 3, 0).flatten(1, 2)
    axes.imshow(frames.cpu().numpy(), aspect="auto", extent=(0, blocks, 0, 1), interpolation="nearest")


def bars(axes: "Axes", kept: Sequence[int], most: int) -> None:
    """Tokens per block."""
    axes.bar(np.arange(len(kept)) + 0.5, kept, width=0.86, color=_BAR)
    axes.set_xlim(0, len(kept))
    axes.set_ylim(0, most)


def allotted(codec: Codec, video: Video, per_block: float) -> Kept:
    """Tokens of every block when all clips share a budget."""
    assert codec.bundle.scorer is not None
    by = Prediction(codec.bundle.scorer, codec.bundle.tokenizer.encode(video))
    return torch.from_numpy(judge(by, Budget(per_block=per_block), scope=shared).kept)


def budgets(codec: Codec, video: Video, options: argparse.Namespace) -> Drawn:
    """A row per clip, a column per budget: frames as decoded, bars below."""
    g, tokenizer = codec.geometry, codec.bundle.tokenizer
    averages = [g.tokens_per_block / part for part in (8, 4, 2)]
    figure, axes = sheet(2 * SHOWN, 1 + len(averages), (15, 1.6 * SHOWN), [2, 1] * SHOWN)
    codes, rows = tokenizer.encode(video).codes, []
    for clip in range(min(SHOWN, options.shown)):
        strip(axes[2 * clip, 0], video[clip, None], g.blocks)
    axes[0, 0].set_title("original", loc="left", fontsize=9)
    for column, average in enumerate(averages, 1):
        kept = allotted(codec, video, average)
        decoded = tokenizer.decode(codes, kept)
        axes[0, column].set_title(f"{average:g} tokens per block on average", loc="left", fontsize=9)
        for clip in range(min(SHOWN, options.shown)):
            strip(axes[2 * clip, column], decoded[clip, None], g.blocks)
            bars(axes[2 * clip + 1, column], kept[clip].tolist(), g.tokens_per_block)
        spent = kept.sum(dim=1)
        by_block = {f"block {k}": round(float(kept[:, k].double().mean()), 2) for k in range(g.blocks)}
        rows.append({"budget": average, "fewest": int(spent.min()), "most": int(spent.max()), **by_block})
    return figure, rows


def content(codec: Codec, video: Video, options: argparse.Namespace) -> Drawn:
    """Clips by the tokens they get out of one budget for all, and how that goes with motion and detail."""
    g = codec.geometry
    kept = allotted(codec, video, g.tokens_per_block / 4)
    order = kept[: options.shown].sum(dim=1).argsort()
    places = torch.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().long()
    figure, axes = sheet(2 * SHOWN, 1, (6, 2.2 * SHOWN), [3, 1] * SHOWN)
    for row, clip in enumerate(order[places].tolist()):
        strip(axes[2 * row, 0], video[clip, None], g.blocks)
        bars(axes[2 * row + 1, 0], kept[clip].tolist(), g.tokens_per_block)
        axes[2 * row, 0].set_title(f"{int(kept[clip].sum())} tokens", loc="left", fontsize=9)
    spent = kept.sum(dim=1).double()
    measures = {
        "motion": video.diff(dim=2).abs().mean(dim=(1, 2, 3, 4)),
        "detail": video.diff(dim=3).abs().mean(dim=(1, 2, 3, 4)) + video.diff(dim=4).abs().mean(dim=(1, 2, 3, 4)),
    }
    named = {f"rank correlation with {name}": rank_correlation(spent, m.double()) for name, m in measures.items()}
    return figure, [{"clips": len(video), **{name: round(value, 3) for name, value in named.items()}}]


def cut(codec: Codec, video: Video, _: argparse.Namespace) -> Drawn:
    """Joined videos: does the block with the cut get more than blocks at the same place of clips without one?

    A clip begins afresh every T frames, and its first block costs most, so a cut is put into each later block in turn.
    """
    g = codec.geometry
    images = (video * 255).round().to(torch.uint8).permute(0, 2, 3, 4, 1).cpu().numpy()
    budget = Budget(per_block=g.tokens_per_block / 4)
    figure, axes = sheet(2 * (g.blocks - 1), 1, (8, 2.6 * (g.blocks - 1)), [3, 1] * (g.blocks - 1))
    rows: TableRows = []
    for place in range(1, g.blocks):
        first = place * g.block_frames
        with_cut, without = [], []
        for one, two in zip(images, np.roll(images, -1, axis=0), strict=True):
            joined = np.concatenate([one[:first], two[first:]])
            kept = [codec.encode(clip, budget).kept for clip in (joined, one)]
            with_cut.append(kept[0][place])
            without.append(kept[1][place])
            if len(with_cut) == 1:
                strip(axes[2 * place - 2, 0], to_video(joined), g.blocks)
                bars(axes[2 * place - 1, 0], kept[0], g.tokens_per_block)
                axes[2 * place - 1, 0].axvline(place, color=_CUT, linewidth=2)
        rows.append(
            {
                "cut at block": place,
                "its tokens": round(float(np.mean(with_cut)), 2),
                "tokens without a cut": round(float(np.mean(without)), 2),
                "clips that give it more": float(np.mean(np.array(with_cut) > np.array(without))),
            }
        )
    return figure, rows


def coarse(codec: Codec, video: Video, _: argparse.Namespace) -> Drawn:
    """Pictures from the first n tokens of the first block; and how much of the frame token n alone changes."""
    g, tokenizer = codec.geometry, codec.bundle.tokenizer
    codes = tokenizer.encode(video).codes[:, :1]
    most = g.tokens_per_block
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if n <= most]
    figure, axes = sheet(2, len(counts), (1.6 * len(counts), 3.6))

    def shown(n: int) -> Tensor:
        kept = torch.full((len(video), 1), n, device=codes.device)
        return tokenizer.decode_blocks(codes, kept, None)[0].clamp(0, 1)

    rows: TableRows = []
    for column, n in enumerate(counts):
        now = shown(n)
        change = (now - shown(n - 1)).abs().mean(dim=(1, 2))
        area = change.sum(dim=(1, 2)).square() / (change.square().sum(dim=(1, 2)) * change[0].numel()).clamp(min=1e-12)
        size = round(float(change.mean()), 5)
        rows.append({"token": n, "share of the frame it changes": round(float(area.mean()), 3), "mean change": size})
        axes[0, column].imshow(now[0, :, 0].permute(1, 2, 0).cpu().numpy(), interpolation="nearest")
        axes[0, column].set_title(f"first {n}", fontsize=9)
        axes[1, column].imshow(change[0].cpu().numpy(), cmap="magma", interpolation="nearest")
        axes[1, column].set_title(f"change by token {n}", fontsize=8)
    return figure, rows


def attended(codec: Codec, video: Video, options: argparse.Namespace) -> Drawn:
    """What each token of the first block looks at, mean over layers and heads; how many patches that is in effect."""
    g = codec.geometry
    maps = attention.over_patches(codec.bundle.tokenizer, video, block=0)
    columns = min(g.tokens_per_block, 16)
    tokens = [round(i * (g.tokens_per_block - 1) / max(columns - 1, 1)) for i in range(columns)]
    clips = min(SHOWN, options.shown)
    figure, axes = sheet(clips, 1 + columns, (1 + columns, clips))
    for clip, row in enumerate(axes):
        row[0].imshow(video[clip, :, 0].permute(1, 2, 0).cpu().numpy())
        for one, token in zip(row[1:], tokens, strict=True):
            one.imshow(maps[clip, token].sum(dim=0).cpu().numpy(), cmap="magma", interpolation="nearest")
            one.set_title(f"{token + 1}", fontsize=8)
    spread = attention.effective_patches(maps).mean(dim=0)
    rows = [{"token": t + 1, "patches in effect": round(float(spread[t]), 2)} for t in tokens]
    return figure, [*rows, {"token": "all there are", "patches in effect": g.patches_per_block}]


def scores(codec: Codec, video: Video, options: argparse.Namespace) -> Drawn:
    """Loss of every block against its length, blocks before it whole: predicted and true."""
    del options
    from matplotlib.ticker import MaxNLocator

    tokenizer, scorer, config = codec.bundle.tokenizer, codec.bundle.scorer, codec.bundle.config.scorer
    assert scorer is not None
    assert config is not None
    encoding = tokenizer.encode(video)
    predicted = Prediction(scorer, encoding).once()
    true = Truth(tokenizer, encoding, video, scorer.lengths, block_loss(config.metric)).once()
    clips, blocks = min(SHOWN, len(video)), codec.geometry.blocks
    figure, axes = sheet(clips, blocks, (3 * blocks, 2 * clips))
    low, high = torch.stack([true[:clips], predicted[:clips]]).aminmax()
    limits = (float(low - 0.05 * (high - low)), float(high + 0.05 * (high - low)))
    for clip, row in enumerate(axes):
        for block, one in enumerate(row):
            one.plot(scorer.lengths, true[clip, block].cpu(), color=_CUT, label="true")
            one.plot(scorer.lengths, predicted[clip, block].cpu(), color=_BAR, label="predicted")
            one.set_title(f"clip {clip + 1}, block {block + 1}", loc="left", fontsize=8)
            one.set_ylim(*limits)
            one.tick_params(labelsize=7)
            one.xaxis.set_major_locator(MaxNLocator(4))
            one.yaxis.set_major_locator(MaxNLocator(4))
            one.grid(color="#e6e6e6", linewidth=0.6)
    axes[0, 0].legend(frameon=False, fontsize=8)
    found = {
        "rank correlation": rank_correlation(predicted.flatten(), true.flatten()),
        "mean error": float((predicted - true).abs().mean()),
        "mean true loss": float(true.mean()),
    }
    row = {name: round(value, 4) for name, value in found.items()}
    return figure, [{"clips": len(video), "metric": config.metric, **row}]


FIGURES: dict[str, Draw] = {
    "budgets": budgets,
    "content": content,
    "cut": cut,
    "coarse": coarse,
    "attention": attended,
    "scores": scores,
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--show", default="", help="part of the names of the clips in pictures")
    options = parsed(parser)
    codec = opened(options.model, options)
    first, rest = (
        [to_video(clip.images) for clip in real_clips(options.data, codec, "val", options.videos, which=which)]
        for which in (lambda entry: options.show in entry.name, lambda entry: options.show not in entry.name)
    )
    options.shown = len(first)
    if options.shown < 2:
        parser.error(f"--show {options.show}: {options.shown} clips of {options.data} are called so, two are needed")
    video, tables = torch.cat(first + rest).to(options.device), {}
    for name in options.only:
        with torch.inference_mode():
            figure, tables[name] = FIGURES[name](codec, video, options)
        save_image(figure, name, options)
    finish("figures", options, tables, {"models": [codec.fingerprint], "clips": len(video)})


if __name__ == "__main__":
    main()
