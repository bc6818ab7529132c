"""One picture in the manner of the paper's first figure: frames, reconstructions, and bars of tokens under them.

In: the clip and its passages. Out: PNG bytes. Columns are moments; under each budget's frames stands one bar per block,
so that one sees where the tokens went. Next on the walk: film.py.
"""

import io
from collections.abc import Sequence

import numpy as np

from adaptok.demo.passage import Images, Passage, Shown

COLUMNS = 12
"""Most frames in a row."""
_BAR = "#1f5fbf"
_EVEN = "#d55e00"


def figure(clip: Shown, passages: Sequence[Passage], block_frames: int, tokens_per_block: int) -> bytes:
    """The whole picture."""
    from matplotlib.figure import Figure

    blocks = len(passages[0].blocks)
    # Whole blocks lie under a column, so that bars and frames belong together.
    step = -(-blocks // COLUMNS)
    moments = [min(k * block_frames + step * block_frames // 2, len(clip.images) - 1) for k in range(0, blocks, step)]
    ratio = clip.images.shape[1] / clip.images.shape[2]
    heights = [ratio] + [part for _ in passages for part in (ratio, 0.75)]
    width = 13.0
    fig = Figure(figsize=(width, width / len(moments) * sum(heights) * 1.06 + 0.6), dpi=110, layout="constrained")
    rows = fig.subplots(len(heights), 1, gridspec_kw={"height_ratios": heights})
    _frames(rows[0], clip.images, moments, blocks / step, "original")
    for place, passage in enumerate(passages):
        title = (
            f"{passage.tokens.kept.sum()} tokens, {passage.bits_per_second / 1000:.1f} kbit/s: {passage.psnr:.1f} dB"
        )
        _frames(rows[1 + 2 * place], passage.images, moments, blocks / step, title)
        bars = rows[2 + 2 * place]
        bars.bar(np.arange(blocks) + 0.5, passage.tokens.kept, width=0.86, color=_BAR)
        bars.axhline(passage.budget, color=_EVEN, linewidth=1, linestyle="--")
        bars.set_xlim(0, -(-blocks // step) * step)
        bars.set_ylim(0, tokens_per_block)
        bars.set_yticks([0, tokens_per_block])
        bars.set_xticks([])
        bars.set_ylabel("tokens\nper block", fontsize=8)
        bars.tick_params(labelsize=7)
        bars.spines[["top", "right"]].set_visible(False)
    rows[-1].set_xlabel(
        f"{clip.seconds:.1f} s of {clip.name}, blocks of {block_frames} frames; "
        f"dashed: the average that the budget allows, out of {tokens_per_block} tokens",
        fontsize=9,
    )
    data = io.BytesIO()
    fig.savefig(data, format="png", metadata={"Software": None})
    return data.getvalue()


def _frames(axes: "object", images: Images, moments: Sequence[int], across: float, title: str) -> None:
    """A strip of frames, as wide as the bars of their blocks."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    height, width = images.shape[1:3]
    gap = np.full((height, max(1, width // 32), 3), 255, np.uint8)
    strip = np.concatenate([part for m in moments for part in (images[m], gap)], axis=1)
    axes.imshow(strip, aspect="auto", interpolation="nearest", extent=(0, len(moments), 0, 1))
    axes.set_xlim(0, max(across, len(moments)))
    axes.set_axis_off()
    axes.set_title(title, loc="left", fontsize=10, pad=3)
