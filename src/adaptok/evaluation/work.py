"""One group of videos: its clips, its codes and what it is at every point, from the store or made for it.

In: a few entries of the listing. Out: for each point a `Measured`. A result's key holds the videos' content, how clips
are cut from them, the model's fingerprint and the point, and nothing else: results outlive renamed files, and those
that do not depend on the model serve every model. Next on the walk: bootstrap.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int, UInt8
from torch import Tensor

from adaptok.evaluation.bench import Bench, allowed_bits, coder_of
from adaptok.evaluation.clips import content_of
from adaptok.evaluation.measuring import ClipImages, Meter
from adaptok.evaluation.settings import ORIGINAL, Point, Settings
from adaptok.store import Record, Store, key_of
from adaptok.stream.codec import Codec
from adaptok.training.listing import Entry

_METRIC = "metric "


@dataclass(frozen=True)
class Clip:
    """Where a clip comes from."""

    video: str
    start: int
    """Number of its first frame."""
    fps: Fraction


@dataclass(frozen=True)
class Skipped:
    """A video that was left out."""

    video: str
    reason: str


@dataclass(frozen=True)
class Members:
    """The clips of a group and the videos that gave none."""

    clips: tuple[Clip, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, eq=False)
class Measured:
    """What the clips of a group are at one point."""

    bits: Int[Tensor, " B"]
    kept: Int[Tensor, "B K"] | None
    """None where no tokens made them."""
    values: Mapping[str, Float64[Tensor, " B"]] = field(default_factory=dict)
    features: Float32[Tensor, "B D"] | None = None

    @classmethod
    def of(cls, record: Record) -> "Measured":
        """From the store."""
        named = {n.removeprefix(_METRIC): value for n, value in record.tensors.items() if n.startswith(_METRIC)}
        return cls(record.tensors["bits"], record.tensors.get("kept"), named, record.tensors.get("features"))

    def record(self) -> Record:
        """For the store."""
        optional = {"kept": self.kept, "features": self.features}
        tensors = {_METRIC + name: value for name, value in self.values.items()}
        tensors |= {name: value for name, value in optional.items() if value is not None}
        return Record({"bits": self.bits, **tensors})

    def missing(self, metrics: Sequence[str]) -> list[str]:
        """Metrics that are not in it yet."""
        return [m for m in metrics if (self.features is None if m == "fvd" else m not in self.values)]


class Group:
    """A few videos that are encoded together."""

    def __init__(self, entries: Sequence[Entry], codec: Codec, settings: Settings, store: Store, meter: Meter) -> None:
        self._entries = tuple(entries)
        self._codec = codec
        self.settings = settings
        self._store = store
        self._meter = meter
        self._open: Bench | None = None

    @cached_property
    def members(self) -> Members:
        """Which clips there are, by a look into the store or into the videos."""
        known = self._store.read(key_of("members", self._key))
        if known is None:
            windows = [[[window.start, str(window.fps)] for window in found] for found, _ in self._bench.read]
            known = Record({}, {"windows": windows, "reasons": [reason for _, reason in self._bench.read]})
            self._store.write(key_of("members", self._key), known)
        clips, skipped = [], []
        for entry, windows, reason in zip(self._entries, known.facts["windows"], known.facts["reasons"], strict=True):
            clips += [Clip(entry.name, start, Fraction(fps)) for start, fps in windows]
            skipped += [] if reason is None else [Skipped(entry.name, reason)]
        return Members(tuple(clips), tuple(skipped))

    @cached_property
    def codes(self) -> Int[Tensor, "B K M"]:
        """All codes of all clips."""
        key = key_of("codes", self._key, self._codec.fingerprint)
        known = self._store.read(key)
        if known is None:
            known = Record({"codes": self._bench.codes.to("cpu", torch.int32)})
            self._store.write(key, known)
        return known.tensors["codes"].long()

    def known(self, point: Point) -> Measured | None:
        """What the store has of a point, finished or not."""
        record = self._store.read(self._point_key(point))
        return None if record is None else Measured.of(record)

    @property
    def finished(self) -> bool:
        """Whether the store has all of this group."""
        if self._store.read(key_of("members", self._key)) is None:
            return False
        if not self.members.clips:
            return True
        found = ((point, self.known(point)) for point in self.settings.targets())
        return all(known is not None and not known.missing(self._wanted(point)) for point, known in found)

    def measure(self, point: Point) -> Measured:
        """The clips at `point`, computed and stored as far as the store lacks it."""
        known = self.known(point)
        missing = self._wanted(point) if known is None else known.missing(self._wanted(point))
        if known is not None and not missing:
            return known
        bits, kept, shown = self._shown(point, None if known is None else known.kept)
        values = {} if known is None else dict(known.values)
        values |= {name: self._meter.values(name, self._bench.originals, shown) for name in missing if name != "fvd"}
        features = None if known is None else known.features
        if "fvd" in missing:
            features = self._meter.features(shown)
        done = Measured(bits, kept, values, features)
        self._store.write(self._point_key(point), done.record())
        return done

    def pictures(self, number: int, kept: Int[Tensor, "B K"]) -> tuple[UInt8[np.ndarray, "T H W 3"], ...]:
        """One clip before and after, for people to look at."""
        return self._bench.originals[number], self._bench.decoded(self.codes[number, None], kept[number, None])[0]

    def close(self) -> None:
        """Let go of the pixels; whatever needs them again reads them again."""
        self._open = None

    @property
    def _bench(self) -> Bench:
        if self._open is None:
            self._open = Bench(self._entries, self._contents, self._codec, self.settings, self._meter.loss)
        return self._open

    @cached_property
    def _contents(self) -> list[str]:
        return [content_of(entry) for entry in self._entries]

    @cached_property
    def _key(self) -> str:
        g = self._codec.geometry
        return key_of(self._contents, [g.frames, g.height, g.width], self.settings.windows, self.settings.seed)

    def _wanted(self, point: Point) -> list[str]:
        """The originals are looked at for their features only."""
        return [metric for metric in self.settings.metrics if point != ORIGINAL or metric == "fvd"]

    def _point_key(self, point: Point) -> str:
        if point == ORIGINAL:
            return key_of("original", self._key)
        if point.is_reference:
            coder = coder_of(point)
            qualities = [coder.qualities[0], coder.qualities[-1], len(coder.qualities)]
            return key_of("reference", self._key, coder.encoder, coder.options, qualities, self._allowed(point))
        how = [point.method, point.scoring, point.budget, self.settings.scope, self.settings.in_context]
        return key_of("tokens", self._key, self._codec.identity, how)

    def _allowed(self, point: Point) -> int:
        return allowed_bits(point, self._codec)

    def _shown(
        self, point: Point, kept: Int[Tensor, "B K"] | None
    ) -> tuple[Int[Tensor, " B"], Int[Tensor, "B K"] | None, ClipImages]:
        """A point's bits, lengths and pictures; lengths that are known already are not found again."""
        if point == ORIGINAL:
            return torch.zeros(len(self._bench.originals), dtype=torch.int64), None, self._bench.originals
        if point.is_reference:
            bits, shown = self._bench.referenced(point)
            return bits, None, shown
        kept = self._bench.kept(point) if kept is None else kept
        return kept.sum(dim=1) * self._codec.bits_per_token, kept, self._bench.decoded(self.codes, kept)
