"""The report for people: one HTML file that needs nothing else.

In: an `Evaluation`. Out: HTML with tables, plots as inline SVG and frames as inline PNG. No script, no font and no
picture comes from outside, so it can be mailed and kept. This is the last file of the walk through `evaluation/`;
run.py calls it.
"""

import base64
from fractions import Fraction
from html import escape

import av
import numpy as np
from av.codec.context import CodecContext
from av.video.codeccontext import VideoCodecContext

from adaptok._version import __version__
from adaptok.evaluation.plots import codebook_use, rate_quality, tokens_over_time
from adaptok.evaluation.result import DIGITS, LOWER_IS_BETTER, TITLES, Estimate, Evaluation, Example, Row
from adaptok.video import Image

FRAMES = 8
"""Frames of a clip that are shown."""
_GAP = 3
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; } th { border-bottom: 2px solid #bbb; }
th:first-child, td:first-child { text-align: left; } tr.first td { border-top: 1px solid #ccc; }
td small { color: #777; display: block; line-height: 1.1; } .facts td { text-align: left; white-space: normal; }
.wide { overflow-x: auto; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: .5rem; }
img { max-width: 100%; } img.frames, .grid img { width: 100%; } figure { margin: .8rem 0; }
figcaption { font-size: .86rem; color: #444; }
.note { background: #fff6dd; border-left: 4px solid #e0b030; padding: .4rem .8rem; margin: .4rem 0; }
p.small { font-size: .86rem; color: #555; }
"""


def to_html(evaluation: Evaluation) -> str:
    """The whole page."""
    e = evaluation
    plots = "".join(_svg(rate_quality(e, metric), f"{TITLES[metric]} against tokens per clip") for metric in e.metrics)
    parts = [
        f"<h1>{escape(e.model)}: quality against tokens</h1>",
        f'<p class="small">{escape(e.source)}, adaptok {escape(__version__)}</p>',
        *(f'<p class="note">{escape(note)}</p>' for note in e.notes),
        _skipped(e),
        "<h2>Curves</h2>",
        '<p class="small">Shaded: 95 % intervals by bootstrap over videos.'
        + (f" Video codecs lie at their bits, in tokens of {e.bits_per_token} bits." if e.settings.references else "")
        + "</p>",
        f'<div class="grid">{plots}</div>',
        "<h2>Numbers</h2>",
        _table(e),
        "<h2>Tokens per block over time</h2>",
        '<p class="small">Mean over clips; shaded: the middle 80 % of them.</p>',
        _svg(tokens_over_time(e), "tokens per block"),
        *_examples(e),
        "<h2>Codebook</h2>",
        _svg(codebook_use(e), "share of each code"),
        "<h2>How this was measured</h2>",
        _facts(e),
    ]
    head = f'<meta charset="utf-8"><title>{escape(e.model)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _table(e: Evaluation) -> str:
    """One line per point, budget by budget, so that strategies stand side by side; the best of a budget is bold."""
    arrows = {name: "↓" if name in LOWER_IS_BETTER else "↑" for name in e.metrics}
    heads = ["method", "tokens", "kbit/s", *(f"{TITLES[name]} {arrows[name]}" for name in e.metrics)]
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in [*heads, "codes used", "perplexity"]) + "</tr>"]
    for budget in e.settings.budgets:
        rows = [row for row in e.rows if row.point.budget == budget]
        best = {name: _best(name, rows) for name in e.metrics}
        for place, row in enumerate(rows):
            cells = [escape(row.point.curve), f"{row.tokens:.1f}", f"{row.bits_per_second / 1000:.2f}"]
            cells += [_cell(name, row.estimates[name], best[name]) for name in e.metrics]
            usage = row.usage
            cells += ["", ""] if usage is None else [f"{usage.used} of {e.codebook}", f"{usage.perplexity:.1f}"]
            kind = ' class="first"' if place == 0 else ""
            lines.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _best(metric: str, rows: list[Row]) -> float | None:
    """The best value among token strategies, where there is a choice."""
    values = [row.estimates[metric].value for row in rows if not row.point.is_reference]
    if len(values) < 2:
        return None
    return min(values) if metric in LOWER_IS_BETTER else max(values)


def _cell(metric: str, estimate: Estimate, best: float | None) -> str:
    digits = DIGITS[metric]
    value, low, high = (f"{number:.{digits}f}" for number in (estimate.value, estimate.low, estimate.high))
    shown = f"<b>{value}</b>" if best is not None and value == f"{best:.{digits}f}" else value
    return f"{shown}<small>{low} – {high}</small>"


def _skipped(e: Evaluation) -> str:
    if not e.skipped:
        return ""
    count = len(e.skipped)
    lines = "".join(f"<li>{escape(s.video)}: {escape(s.reason)}</li>" for s in e.skipped)
    return f'<div class="note">{count} video{"s" * (count > 1)} skipped:<ul>{lines}</ul></div>'


def _examples(e: Evaluation) -> list[str]:
    if not e.examples:
        return []
    point = e.rows[e.examples[0].row].point
    where = f"{escape(point.curve)} at {point.budget:g} tokens per block on average"
    return [
        "<h2>Best and worst clips</h2>",
        f'<p class="small">{where}; above the original, below the reconstruction.</p>',
        *(_example(e, example) for example in e.examples),
    ]


def _example(e: Evaluation, example: Example) -> str:
    clip, row = e.clips[example.clip], e.rows[example.row]
    kept = () if row.kept is None else row.kept[example.clip]
    numbers = ", ".join(f"{TITLES[n]} {v[example.clip]:.{DIGITS[n]}f}" for n, v in row.values.items())
    caption = f"{clip.video}, from frame {clip.start}; {numbers}; tokens {' + '.join(map(str, kept))}"
    source = base64.b64encode(png(filmstrip(example))).decode()
    image = f'<img class="frames" alt="{escape(caption)}" src="data:image/png;base64,{source}">'
    return f"<figure>{image}<figcaption><b>{example.title}</b> {escape(caption)}</figcaption></figure>"


def filmstrip(example: Example) -> Image:
    """Some frames of a clip in a row, the original above the reconstruction."""
    count, height, width, _ = example.original.shape
    shown = [i * count // min(FRAMES, count) for i in range(min(FRAMES, count))]
    canvas = np.full((2 * height + _GAP, len(shown) * (width + _GAP) - _GAP, 3), 255, np.uint8)
    for place, frame in enumerate(shown):
        x = place * (width + _GAP)
        canvas[:height, x : x + width] = example.original[frame]
        canvas[height + _GAP :, x : x + width] = example.reconstruction[frame]
    return canvas


def png(image: Image) -> bytes:
    """The bytes of a PNG file."""
    encoder = CodecContext.create("png", "w")
    assert isinstance(encoder, VideoCodecContext)
    encoder.height, encoder.width = image.shape[:2]
    encoder.pix_fmt, encoder.time_base = "rgb24", Fraction(1, 25)
    packets = encoder.encode(av.VideoFrame.from_ndarray(image, format="rgb24")) + encoder.encode()
    return b"".join(bytes(packet) for packet in packets)


def _svg(text: str, what: str) -> str:
    """A plot as an image, which keeps its names and styles apart from the page's."""
    data = base64.b64encode(text.encode()).decode()
    return f'<img alt="{escape(what)}" src="data:image/svg+xml;base64,{data}">'


def _facts(e: Evaluation) -> str:
    s = e.settings
    shared = {"clip": "a clip", "batch": f"{s.batch} videos", "index": f"{s.batch} videos at the same place"}[s.scope]
    facts = {
        "model": f"{e.model} ({e.fingerprint}), {e.blocks} blocks of at most {e.tokens_per_block} tokens, "
        f"{e.codebook} codes, {e.bits_per_token} bits per token",
        "clips": f"{len(e.clips)} of {e.videos} videos, {e.frames} frames of {e.height}×{e.width}, centre-cropped, "
        f"{s.windows} per video at places drawn from seed {s.seed}",
        "budget": f"average tokens per block, shared by the blocks of {shared}; blocks are scored "
        + ("after those before them were cut" if s.in_context else "in one pass"),
        "pixels": "reconstructions are rounded to 8 bits, as a viewer gets them; PSNR is of a clip's mean error",
        "intervals": f"95 %, {s.resamples} resamples of the videos; those of FVD hold for this number of videos",
    }
    if s.references:
        facts["video codecs"] = (
            "finest constant quality whose pictures fit into the bits of the budget, clip by clip; headers not counted"
        )
    lines = "".join(f"<tr><td>{name}</td><td>{escape(text)}</td></tr>" for name, text in facts.items())
    return f'<table class="facts">{lines}</table>'
