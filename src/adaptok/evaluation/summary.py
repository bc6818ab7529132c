"""Groups to one result: values of all clips together, their means, intervals and codebook usage.

In: `Group`s whose parts are all in the store. Out: an `Evaluation`. Nothing here runs a network but for the few clips
that are shown. Next on the walk: plots.py.
"""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from adaptok.evaluation.bench import allowed_bits
from adaptok.evaluation.bootstrap import draws, interval, resampled_distances, resampled_means
from adaptok.evaluation.measuring import PSNR_CAP
from adaptok.evaluation.result import LOWER_IS_BETTER, CodeUsage, Estimate, Evaluation, Example, Row
from adaptok.evaluation.settings import ORIGINAL, Point, Settings
from adaptok.evaluation.work import Clip, Group, Measured
from adaptok.metrics import FewSamplesWarning, frechet_distance
from adaptok.metrics.fvd import MIN_VIDEOS
from adaptok.stream.codec import Codec

RANKED_BY = ("lpips", "lpips-vgg", "psnr", "ssim", "mse")
"""What makes a clip best or worst: the first of these that was measured."""


def summarise(groups: Sequence[Group], codec: Codec, settings: Settings, source: str, notes: list[str]) -> Evaluation:
    """One result for all groups; `notes` are what is already known to be worth saying."""
    full = [group for group in groups if group.members.clips]
    skipped = tuple(s for group in groups for s in group.members.skipped)
    if not full:
        reasons = "; ".join(s.reason for s in skipped[:3])
        raise ValueError(f"none of the {len(skipped)} videos of {source} can be evaluated: {reasons}")
    clips = tuple(clip for group in full for clip in group.members.clips)
    notes = list(notes)
    real = _features_of_originals(full, clips, settings, notes)
    counts = _draws(clips, settings)
    codes = torch.cat([group.codes for group in full])
    rows = tuple(_row(point, full, clips, codes, counts, real, codec, notes) for point in settings.points())
    capped = sum(value == PSNR_CAP for row in rows for value in row.values.get("psnr", ()))
    if capped:
        notes.append(f"{capped} reconstructions are exact: their PSNR, infinite, counts as {PSNR_CAP:g} dB")
    notes += _too_large(rows, len(clips))
    g = codec.geometry
    return Evaluation(
        model=codec.bundle.config.name,
        fingerprint=codec.identity,
        frames=g.frames,
        height=g.height,
        width=g.width,
        blocks=g.blocks,
        tokens_per_block=g.tokens_per_block,
        codebook=codec.bundle.config.tokenizer.quantizer.codebook_size,
        bits_per_token=codec.bits_per_token,
        source=source,
        settings=settings,
        clips=clips,
        skipped=skipped,
        notes=tuple(dict.fromkeys(notes)),
        rows=rows,
        examples=_examples(full, rows, clips, settings),
    )


def _features_of_originals(
    groups: Sequence[Group], clips: Sequence[Clip], settings: Settings, notes: list[str]
) -> Float[Tensor, "N D"] | None:
    """None where FVD is not wanted, or not possible, which is then an error or a note."""
    if "fvd" not in settings.metrics:
        return None
    videos = len({clip.video for clip in clips})
    if videos < MIN_VIDEOS:
        reason = f"FVD needs at least {MIN_VIDEOS} videos, there is {videos}"
        if settings.metrics == ("fvd",):
            raise ValueError(reason)
        notes.append(f"{reason}: it is left out")
        return None
    return _stacked([group.measure(ORIGINAL).features for group in groups])


def _draws(clips: Sequence[Clip], settings: Settings) -> Int[np.ndarray, "R N"]:
    names = {name: number for number, name in enumerate(dict.fromkeys(clip.video for clip in clips))}
    return draws(np.array([names[clip.video] for clip in clips]), settings.resamples, settings.seed)


def _row(
    point: Point,
    groups: Sequence[Group],
    clips: Sequence[Clip],
    codes: Int[Tensor, "N K M"],
    counts: Int[np.ndarray, "R N"],
    real: Float[Tensor, "N D"] | None,
    codec: Codec,
    notes: list[str],
) -> Row:
    parts = [group.measure(point) for group in groups]
    names = [name for name in groups[0].settings.metrics if name != "fvd"]
    values = {name: torch.cat([part.values[name] for part in parts]).numpy() for name in names}
    estimates = {}
    for name, column in values.items():
        mean = float(column.mean())
        estimates[name] = Estimate(mean, *interval(mean, resampled_means(column, counts)))
    drawn: Float[np.ndarray, " R"] = np.zeros(0)
    if real is not None:
        fake = _stacked([part.features for part in parts])
        drawn = resampled_distances(real, fake, counts)
        estimates["fvd"] = _distance(real, fake, drawn, notes)
    bits = torch.cat([part.bits for part in parts])
    seconds = sum(codec.geometry.frames / float(clip.fps) for clip in clips)
    kept = _kept(parts)
    return Row(
        point=point,
        tokens=float(bits.double().mean()) / codec.bits_per_token,
        bits_per_second=float(bits.sum()) / seconds,
        over=int((bits > allowed_bits(point, codec)).sum()) if point.is_reference else 0,
        estimates=estimates,
        values={name: tuple(column.tolist()) for name, column in values.items()},
        kept=None if kept is None else tuple(tuple(row) for row in kept.tolist()),
        usage=None if kept is None else _usage(codes, kept, codec),
        fvd_drawn=tuple(drawn.tolist()),
    )


def _distance(
    real: Float[Tensor, "N D"], fake: Float[Tensor, "N D"], drawn: Float[np.ndarray, " R"], notes: list[str]
) -> Estimate:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FewSamplesWarning)
        value = frechet_distance(real, fake)
    notes += [f"FVD: {warning.message}" for warning in caught]
    low, high = interval(value, drawn)
    return Estimate(value, max(0.0, low), high)


def _kept(parts: Sequence[Measured]) -> Int[Tensor, "N K"] | None:
    kept = [part.kept for part in parts if part.kept is not None]
    return torch.cat(kept) if kept else None


def _usage(codes: Int[Tensor, "N K M"], kept: Int[Tensor, "N K"], codec: Codec) -> CodeUsage:
    present = torch.arange(codes.shape[2]) < kept[..., None]
    size = codec.bundle.config.tokenizer.quantizer.codebook_size
    return CodeUsage(torch.bincount(codes[present], minlength=size).numpy())


def _too_large(rows: Sequence[Row], clips: int) -> list[str]:
    """A note for every video codec that could not do with the bits of a budget."""
    notes = []
    for curve in dict.fromkeys(row.point.curve for row in rows if row.over):
        over = [row for row in rows if row.point.curve == curve and row.over]
        where = ", ".join(f"{row.over} of {clips} at {row.point.budget:g}" for row in over)
        notes.append(f"{curve} cannot be made as small for some clips (tokens per block: {where}); true bits are shown")
    return notes


def _examples(
    groups: Sequence[Group], rows: Sequence[Row], clips: Sequence[Clip], settings: Settings
) -> tuple[Example, ...]:
    """Best and worst clips at the middle budget of the adaptive strategy that matters most."""
    metric = next((name for name in RANKED_BY if name in settings.metrics), None)
    shown = [number for number, row in enumerate(rows) if row.kept is not None]
    if metric is None or not shown or settings.examples == 0:
        return ()
    budget = settings.budgets[len(settings.budgets) // 2]
    shown = [n for n in shown if rows[n].point.budget == budget] or shown
    number = next((n for n in shown if rows[n].point.method == "ipal"), shown[-1])
    values = np.array(rows[number].values[metric])
    order = np.argsort(values if metric in LOWER_IS_BETTER else -values, kind="stable").tolist()
    count = min(settings.examples, len(clips) // 2 or 1)
    picks = [("best", n) for n in order[:count]] + [("worst", n) for n in order[::-1][:count] if len(clips) > 1]
    found = []
    for title, clip in picks:
        group, place = _find(groups, clip)
        kept = group.measure(rows[number].point).kept
        assert kept is not None
        found.append(Example(title, clip, number, *group.pictures(place, kept)))
    return tuple(found)


def _find(groups: Sequence[Group], clip: int) -> tuple[Group, int]:
    """The group of a clip and the clip's place in it."""
    for group in groups:
        if clip < len(group.members.clips):
            return group, clip
        clip -= len(group.members.clips)
    raise IndexError("there is no such clip")


def _stacked(features: Sequence[Float[Tensor, "_ D"] | None]) -> Float[Tensor, "N D"]:
    return torch.cat([part for part in features if part is not None])
