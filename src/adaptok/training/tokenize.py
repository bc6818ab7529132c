"""Videos to a token corpus: every clip encoded once, its tokens allotted, the result kept.

In: a codec and videos. Out: Parquet parts. All clips of a part share one budget, so that lengths adapt between clips as
well as within them. A part is a function of the list and the options: a run that was stopped goes on with the parts
that are missing. Videos that give no clip are reported and skipped. Next on the walk: generator_recipe.py.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8

from adaptok.allocation import Budget, allocate, strategy_named
from adaptok.allocation.context import Prediction, judge
from adaptok.allocation.scope import batch as share_batch
from adaptok.config import Strict
from adaptok.stream.codec import Codec, describe
from adaptok.stream.spending import unscored
from adaptok.tokenizer.model import Encoding
from adaptok.training.curriculum import need
from adaptok.training.frames import decode
from adaptok.training.listing import Entry, list_videos
from adaptok.training.token_corpus import CorpusFacts, TokenRow, part_path, read_facts, write_part
from adaptok.video import VideoError, centre_cropped

log = logging.getLogger(__name__)
Clip = UInt8[np.ndarray, "T H W 3"]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class TokenizeConfig(Strict):
    """How videos become rows."""

    splits: tuple[str, ...] = ("train", "val")
    """Splits of the data; each has its own folder in the corpus."""
    tokens_per_block: float | None = None
    """Average tokens of a block; half of all where null."""
    min_per_block: int | None = None
    """Fewest tokens of any block."""
    max_per_block: int | None = None
    """Most tokens of any block."""
    strategy: str = "ipal"
    """How tokens are shared out among the blocks of a part; models without scorer give all the same."""
    stride: int | None = None
    """Frames from the start of a clip to the start of the next; a clip's length where null."""
    clips: int | None = None
    """Most clips of one video, spread evenly over it."""
    mirror: bool = False
    """Every clip a second time, mirrored."""
    context: int = 0
    """Store the tokens of this many first frames as well, for frame prediction."""
    videos_per_part: int = 32
    """Videos that share a file and a budget."""
    batch: int = 8
    """Clips that are encoded at a time."""

    def __post_init__(self) -> None:
        strategy_named(self.strategy)
        need(bool(self.splits), "splits: at least one is needed")
        for name in ("stride", "clips", "videos_per_part", "batch"):
            value = getattr(self, name)
            need(value is None or value >= 1, f"{name} must be at least 1, got {value}")
        need(self.context >= 0, f"context must be at least 0, got {self.context}")


@dataclass(frozen=True)
class Tokenized:
    """What was done."""

    clips: int
    """Written now."""
    parts: int
    kept: int
    """Parts that were there already."""
    skipped: tuple[str, ...]
    """Videos without clips, over all parts, and why."""


def tokenize(
    codec: Codec, source: Path, out: Path, config: TokenizeConfig, progress: Progress | None = None
) -> Tokenized:
    """Make the corpus of some videos, or what is missing of it."""
    g = codec.geometry
    if config.context >= g.frames:
        raise ValueError(f"a context of {config.context} frames: a clip has {g.frames}, so at most {g.frames - 1}")
    worker = _Worker(codec, config)
    clips, kept, parts = 0, 0, 0
    skipped: list[str] = []
    work = [(split, list_videos(source, split)) for split in config.splits]
    total, done = sum(len(entries) for _, entries in work), 0
    for split, entries in work:
        facts = worker.facts(entries)
        parts += facts.parts
        for part in range(facts.parts):
            group = entries[part * config.videos_per_part : (part + 1) * config.videos_per_part]
            path = part_path(out, split, part)
            if path.exists():
                there = read_facts(path)
                if not there.same_run(facts):
                    raise ValueError(
                        f"{path} holds tokens of other videos, options or another model; choose a new folder"
                    )
                kept += 1
            else:
                rows, missing = worker.rows(group)
                there = replace(facts, part=part, skipped=missing)
                write_part(path, there, rows)
                clips += len(rows)
            skipped += there.skipped
            done += len(group)
            if progress is not None:
                progress(done, total)
    return Tokenized(clips, parts, kept, tuple(skipped))


class _Worker:
    """Turns videos into rows."""

    def __init__(self, codec: Codec, config: TokenizeConfig) -> None:
        self.codec, self.config, self.geometry = codec, config, codec.geometry
        m = codec.geometry.tokens_per_block
        average = m / 2 if config.tokens_per_block is None else config.tokens_per_block
        if not 1 <= average <= m:
            raise ValueError(f"tokens_per_block must lie in 1..{m}, got {average:g}")
        self.budget = Budget(per_block=average, min_per_block=config.min_per_block, max_per_block=config.max_per_block)
        self.context_blocks = -(-config.context // self.geometry.block_frames)

    def facts(self, entries: Sequence[Entry]) -> CorpusFacts:
        """What all parts of a split have in common."""
        g, c, scorer = self.geometry, self.config, self.codec.bundle.scorer
        names = "\n".join(f"{entry.name}\t{entry.label}" for entry in entries)
        cut = f"{c.stride} {c.clips} {c.mirror} {c.strategy} {c.videos_per_part} {self.codec.identity}"
        return CorpusFacts(
            tokenizer=self.codec.fingerprint,
            model=self.codec.bundle.config.name,
            blocks=g.blocks,
            tokens_per_block=g.tokens_per_block,
            codebook_size=self.codec.bundle.config.tokenizer.quantizer.codebook_size,
            candidates=() if scorer is None else scorer.lengths,
            budget=describe(self.budget),
            context_frames=c.context,
            context_blocks=self.context_blocks,
            listing=hashlib.sha256(f"{names}\n{cut}".encode()).hexdigest()[:32],
            parts=-(-len(entries) // c.videos_per_part),
        )

    def rows(self, entries: Sequence[Entry]) -> tuple[list[TokenRow], tuple[str, ...]]:
        """All clips of some videos, and the videos that gave none."""
        found: list[tuple[Entry, int, bool, Clip]] = []
        skipped: list[str] = []
        for entry in entries:
            try:
                found += [(entry, start, mirrored, clip) for start, mirrored, clip in self._clips(entry)]
            except (VideoError, FileNotFoundError) as error:
                log.warning("%s is left out: %s", entry.name, error)
                skipped.append(f"{entry.name}: {error}")
        if not found:
            return [], tuple(skipped)
        encoding = self._encode([clip for *_, clip in found])
        context = self._context([clip for *_, clip in found])
        kept, scores = self._allot(encoding)
        codes = encoding.codes.cpu().numpy()
        rows = []
        for i, (entry, start, mirrored, _) in enumerate(found):
            tokens = np.concatenate([block[:n] for block, n in zip(codes[i], kept[i], strict=True)])
            rows.append(
                TokenRow(entry.name, start, mirrored, entry.label, kept[i], tokens, scores[i].ravel(), context[i])
            )
        return rows, tuple(skipped)

    def _clips(self, entry: Entry) -> Iterator[tuple[int, bool, Clip]]:
        """Windows of a video at the model's size."""
        g, c = self.geometry, self.config
        frames = decode(entry, max(g.height, g.width))
        if len(frames) < g.frames:
            raise VideoError(f"it has {len(frames)} frames, a clip has {g.frames}")
        images = centre_cropped(frames, g.height, g.width)
        starts = range(0, len(frames) - g.frames + 1, c.stride or g.frames)
        count = min(c.clips or len(starts), len(starts))
        for start in (starts[i * len(starts) // count] for i in range(count)):
            clip = images[start : start + g.frames]
            yield start, False, clip
            if c.mirror:
                yield start, True, np.ascontiguousarray(clip[:, :, ::-1])

    @torch.inference_mode()
    def _encode(self, clips: Sequence[Clip]) -> Encoding:
        parts = []
        tokenizer = self.codec.bundle.tokenizer
        for first in range(0, len(clips), self.config.batch):
            images = torch.from_numpy(np.stack(clips[first : first + self.config.batch]))
            video = images.permute(0, 4, 1, 2, 3).to(tokenizer.quantizer.codebook.device).float() / 255
            parts.append(tokenizer.encode_blocks(video, None)[0])
        return Encoding(
            torch.cat([p.latents for p in parts]),
            torch.cat([p.codes for p in parts]),
            torch.cat([p.embedded for p in parts]),
        )

    def _context(self, clips: Sequence[Clip]) -> Int[np.ndarray, "N C"]:
        """All tokens of the first frames, the last of them repeated to whole blocks."""
        if not self.context_blocks:
            return np.zeros((len(clips), 0), np.int64)
        wanted = np.arange(self.context_blocks * self.geometry.block_frames)
        padded = [clip[np.minimum(wanted, self.config.context - 1)] for clip in clips]
        return self._encode(padded).codes.flatten(1).cpu().numpy()

    @torch.inference_mode()
    def _allot(self, encoding: Encoding) -> tuple[Int[np.ndarray, "N K"], np.ndarray]:
        """Tokens of every block, all clips sharing the budget, and the scores they rest on."""
        count, blocks, m = encoding.codes.shape
        strategy, scorer = strategy_named(self.config.strategy), self.codec.bundle.scorer
        if scorer is None or self.config.strategy == "fixed":
            table = unscored(np.zeros((count, blocks)), m)
            kept = allocate(table, self.budget, strategy_named("fixed"), scope=share_batch).kept.reshape(count, blocks)
            scores = np.zeros((count, 0)) if scorer is None else scorer.score_once(encoding).flatten(1).cpu().numpy()
            return kept, scores
        judged = judge(Prediction(scorer, encoding), self.budget, strategy=strategy, scope=share_batch)
        return judged.kept, judged.table.loss.reshape(count, -1)
