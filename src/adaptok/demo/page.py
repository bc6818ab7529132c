"""The demo as one short page: the picture, the film, and a table of all blocks at all budgets.

In: the clip and its passages. Out: HTML that shows the files beside it. Next on the walk: show.py.
"""

from collections.abc import Sequence
from html import escape

from adaptok._version import __version__
from adaptok.demo.passage import Passage, Shown

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } img, video { max-width: 100%; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem; text-align: right; } th { border-bottom: 2px solid #bbb; } .wide { overflow-x: auto; }
p.small { font-size: .86rem; color: #555; }
"""
HEADS = ("per block", "tokens", "kbit/s", "PSNR", "evenly", "SSIM", "score", "truth", "sec")
"""Of the summary, here and on the terminal."""


def summary(passages: Sequence[Passage]) -> list[tuple[str, ...]]:
    """One line per budget under `HEADS`."""
    return [
        (
            f"{p.budget:g}",
            str(p.tokens.kept.sum()),
            f"{p.bits_per_second / 1000:.2f}",
            f"{p.psnr:.2f}",
            f"{p.fixed_psnr:.2f}",
            f"{p.ssim:.3f}",
            _mean([b.predicted for b in p.blocks]),
            _mean([b.true for b in p.blocks]),
            f"{p.seconds:.2f}",
        )
        for p in passages
    ]


def page(model: str, clip: Shown, passages: Sequence[Passage], note: str) -> str:
    """The whole page."""
    height, width = clip.images.shape[1:3]
    facts = f"{len(clip.images)} frames of {width}×{height}, {float(clip.fps):g} per second"
    streams = ", ".join(f'<a href="{name}">{name}</a>' for name in map(stream_name, passages))
    parts = [
        f"<h1>{escape(clip.name)} in tokens</h1>",
        f'<p class="small">{facts}; model {escape(model)}; adaptok {escape(__version__)}. {escape(note)}</p>',
        '<img src="tokens.png" alt="frames, reconstructions and tokens per block">',
        "<h2>Side by side</h2>",
        "<p>The original, then the budgets from left to right; each bar is a block, the dark one is on screen.</p>",
        '<video src="side_by_side.mp4" controls loop muted></video>',
        "<h2>Numbers</h2>",
        _table(HEADS, summary(passages)),
        '<p class="small">PSNR in dB. “Evenly”: PSNR of as many tokens, the same in every block. Score: the loss'
        " that the scorer predicted (LPIPS, or minus PSNR); truth: the real one. Lower is better; means of blocks.</p>",
        f"<p>Token streams, to be read by <code>adaptok info</code> and <code>adaptok decode</code>: {streams}</p>",
        "<h2>Block by block</h2>",
        _table(*_blocks(passages)),
    ]
    head = f'<meta charset="utf-8"><title>{escape(clip.name)} in tokens</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def stream_name(passage: Passage) -> str:
    """The file of one budget's tokens."""
    return f"tokens_{passage.budget:g}.adtk"


def _blocks(passages: Sequence[Passage]) -> tuple[list[str], list[tuple[str, ...]]]:
    heads = ["block"]
    for p in passages:
        heads += [f"tokens ({p.budget:g})", "PSNR dB", "score", "truth"]
    lines = []
    for number, blocks in enumerate(zip(*(p.blocks for p in passages), strict=True)):
        cells = [str(number)]
        for b in blocks:
            cells += [str(b.kept), f"{b.psnr:.2f}", _mean([b.predicted]), _mean([b.true])]
        lines.append(tuple(cells))
    return heads, lines


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.4g}" if known else "–"


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
