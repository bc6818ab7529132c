"""`evaluate`: a model and a folder of videos to curves, tables and a report.

In: a codec, a folder or manifest of videos, settings. Out: an `Evaluation`, and in the folder `out` evaluation.json,
evaluation.csv and report.html; `out/units` holds finished work, so that a run that was stopped goes on. The list of
videos is cut into groups of `batch`; shards take every n-th group, and whoever finds all groups finished writes the
result. This is the door of `evaluation/`; the command line calls it and adds nothing.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import no_type_check

from adaptok.evaluation.clips import spread
from adaptok.evaluation.measuring import Meter
from adaptok.evaluation.plots import require_plots
from adaptok.evaluation.reference import CODERS, coder_for
from adaptok.evaluation.report import to_html
from adaptok.evaluation.result import Evaluation, to_csv, to_json
from adaptok.evaluation.settings import Point, Settings
from adaptok.evaluation.summary import summarise
from adaptok.evaluation.work import Group
from adaptok.metrics.fvd import MIN_VIDEOS
from adaptok.store import Store
from adaptok.stream.codec import Codec
from adaptok.training.listing import list_videos
from adaptok.video import OutputError, VideoError, whole_file

Progress = Callable[[int, int | None], None]
"""Told the number of units done and of all units; a unit is one group of videos at one point."""


class SkippedVideosWarning(UserWarning):
    """Some videos could not be evaluated."""


@no_type_check
@dataclass(frozen=True)
class Shard:
    """Which part of the groups this process takes: every `count`-th one, from number `index` on."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"a shard is i/n with 0 <= i < n, got {self.index}/{self.count}")

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """From `i/n`."""
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal()):
            raise ValueError(f"a shard is i/n with 0 <= i < n, got {text!r}")
        return cls(int(index), int(count))

    @classmethod
    def here(cls) -> "Shard":
        """What torchrun says of this process; everything where there is no torchrun."""
        return cls(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


WHOLE = Shard()


@no_type_check
def evaluate(
    codec: Codec,
    source: Path | str,
    out: Path | str,
    settings: Settings | None = None,
    *,
    shard: Shard = WHOLE,
    strict: bool = False,
    progress: Progress | None = None,
) -> Evaluation | None:
    """Evaluate a model on videos and write the result; None where other shards have yet to finish.

    Videos that cannot be read are skipped with a SkippedVideosWarning; `strict` makes them a VideoError.
    """
    require_plots()
    settings = (settings or Settings()).fitted(codec.bundle)
    entries = spread(list_videos(Path(source), settings.split), settings.videos)
    settings, notes = _possible(settings, len(entries))
    out = Path(out)
    store = Store(_folder(out) / "units")
    meter = Meter(codec.bundle.tokenizer.quantizer.codebook.device)
    starts = range(0, len(entries), settings.batch)
    groups = [Group(entries[i : i + settings.batch], codec, settings, store, meter) for i in starts]
    _work(groups[shard.index :: shard.count], settings.targets(), strict, progress)
    if not all(group.finished for group in groups):
        return None
    evaluation = summarise(groups, codec, settings, str(source), notes)
    write(evaluation, out)
    if evaluation.skipped:
        first = evaluation.skipped[0]
        warnings.warn(
            f"{len(evaluation.skipped)} of {len(entries)} videos were skipped, see the report; "
            f"the first: {first.video}: {first.reason}",
            SkippedVideosWarning,
            stacklevel=2,
        )
    return evaluation


def write(evaluation: Evaluation, out: Path) -> None:
    """The three files of a result, each whole or not at all."""
    texts = {"evaluation.json": to_json, "evaluation.csv": to_csv, "report.html": to_html}
    for name, text in texts.items():
        with whole_file(out / name, overwrite=True) as file:
            file.write(text(evaluation).encode())


def _work(groups: Sequence[Group], points: Sequence[Point], strict: bool, progress: Progress | None) -> None:
    """Make what is missing, group by group, so that each is read and encoded once."""
    total, done = len(groups) * len(points), 0
    for group in groups:
        if strict and group.members.skipped:
            first = group.members.skipped[0]
            raise VideoError(f"{first.video}: {first.reason}")
        for point in points:
            if group.members.clips:
                group.measure(point)
            done += 1
            if progress is not None:
                progress(done, total)
        group.close()


def _possible(settings: Settings, videos: int) -> tuple[Settings, list[str]]:
    """Without what cannot be done here, and a note for each such thing."""
    notes = []
    if "fvd" in settings.metrics and videos < MIN_VIDEOS:
        reason = f"FVD needs at least {MIN_VIDEOS} videos, there is {videos}"
        if settings.metrics == ("fvd",):
            raise ValueError(reason)
        notes.append(f"{reason}: it is left out")
        settings = replace(settings, metrics=tuple(name for name in settings.metrics if name != "fvd"))
    for name in settings.references:
        if coder_for(name) is None:
            encoders = " or ".join(coder.encoder for coder in CODERS[name])
            notes.append(f"{name} is left out: the FFmpeg inside PyAV has no {encoders}")
    here = tuple(name for name in settings.references if coder_for(name) is not None)
    return replace(settings, references=here), notes


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {out}: {error.strerror or error}") from error
    return out
