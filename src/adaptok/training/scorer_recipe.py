"""How a scorer is trained: a frozen tokenizer shows what each length of a block really costs, the scorer predicts it.

In: `ScorerTraining` settings. Out: a `Recipe`. The target block and the lengths before it are drawn anew at every
step, or all blocks of some clips are judged once and learnt from many times. The scorer learns standardised scores;
when it is saved, mean and spread are folded into its last layer, so that the model on disk speaks the metric's own
units and a checkpoint needs no constants beside its weights.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from adaptok.allocation.scorer import Scorer
from adaptok.allocation.truth import (
    Truth,
    all_true_scores,
    at_frames,
    block_loss,
    few_lengths,
    interpolated,
    true_scores,
)
from adaptok.bundle import Bundle, build, open_bundle
from adaptok.load import folder_of
from adaptok.shapes import Kept, Video
from adaptok.tokenizer.model import Encoding
from adaptok.tokenizer.tail_drop import sample_kept
from adaptok.training.clips import Batch, Clips, Order, batches, some_clips, validation_batch
from adaptok.training.curriculum import Stage, steps_for
from adaptok.training.finite import check_finite
from adaptok.training.frames import FrameStore
from adaptok.training.learner import Average, Learner, below, save_memory
from adaptok.training.loop import Validation
from adaptok.training.objective import Sealed
from adaptok.training.scorer_validation import validate_scorer
from adaptok.training.seeds import Purpose, generator
from adaptok.training.settings import ScorerTraining
from adaptok.training.sharding import whole


class Standard(nn.Module):
    """Mean and spread of scores, measured once."""

    constants: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("constants", torch.tensor([0.0, 1.0]))

    def measure(self, scores: Float[Tensor, "..."]) -> None:
        """Take mean and standard deviation of these scores."""
        self.constants.copy_(torch.stack([scores.mean(), scores.std().clamp(min=1e-6)]))

    def forward(self, scores: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Scores in units of the spread, around 0."""
        return (scores - self.constants[0]) / self.constants[1]

    @torch.no_grad()
    def fold(self, scorer: Scorer) -> None:
        """Make a scorer of standardised scores one of plain scores."""
        last = scorer.head[2]
        assert isinstance(last, nn.Linear)
        last.weight.mul_(self.constants[1])
        last.bias.mul_(self.constants[1]).add_(self.constants[0])

    @torch.no_grad()
    def unfold(self, scorer: Scorer) -> None:
        """The opposite of `fold`."""
        last = scorer.head[2]
        assert isinstance(last, nn.Linear)
        last.weight.div_(self.constants[1])
        last.bias.sub_(self.constants[0]).div_(self.constants[1])


class ScorerObjective(nn.Module):
    """The scorer and its loss as one forward."""

    def __init__(self, scorer: Scorer, shape: float) -> None:
        super().__init__()
        self.scorer, self.shape = scorer, shape

    def forward(
        self, wanted: Float[Tensor, "B N S"], encoding: Sealed[Encoding], kept: Kept, block: int | None
    ) -> Float[Tensor, ""]:
        """Mean squared error against standardised scores of one block, or of all where None."""
        known = encoding.value
        every = block is None
        predicted = self.scorer.score_all(known, kept) if every else self.scorer.score(known, kept, block)[:, None]
        error = predicted - wanted
        curve = error - error.mean(dim=-1, keepdim=True)
        return error.square().mean() + self.shape * curve.square().mean()


@dataclass(frozen=True)
class Lesson:
    """Clips of one batch, and what each length of their blocks really costs."""

    batch: Batch
    encoding: Encoding
    kept: Kept
    scores: Float[Tensor, "B K S"]


class ScorerRecipe:
    """A scorer in training."""

    def __init__(self, settings: ScorerTraining, fabric: Fabric, train: FrameStore, val: FrameStore) -> None:
        self.settings, self.run, self.fabric = settings, settings.run, fabric
        old = open_bundle(folder_of(settings.tokenizer))
        self.config = replace(old.config, scorer=settings.scorer)
        self.geometry = old.config.tokenizer.geometry
        self.tokenizer = old.tokenizer.requires_grad_(False).to(fabric.device)
        size = (self.geometry.height, self.geometry.width)
        self.clips = Clips(train, size, settings.augment, self.run.seed)
        self.stages = (Stage(blocks=self.geometry.blocks, batch=settings.batch),)
        self.steps = self.run.steps or steps_for(self.stages, (self.run.epochs or 0) * len(train))
        torch.manual_seed(self.run.seed)
        self.scorer = Scorer(settings.scorer, self.config.tokenizer)
        if settings.initial:
            if old.scorer is None or old.config.scorer != settings.scorer:
                raise ValueError(f"initial: {settings.tokenizer} has no scorer of the recipe's size to go on from")
            self.scorer.load_state_dict(old.scorer.state_dict())
        self.loss = block_loss(settings.scorer.metric)
        self.lesson_loss = self.loss if settings.score_frames is None else at_frames(self.loss, settings.score_frames)
        save_memory(self.scorer, fabric, self.run)
        self.learner = Learner(
            fabric, ScorerObjective(self.scorer, settings.shape), settings.optimizer, self.steps, self.run
        )
        self.average = Average(self.scorer, self.run.ema)
        self.standard = Standard().to(fabric.device)
        self._lessons: list[Lesson] = []
        self._val = validation_batch(val, settings.data.val_clips, self.geometry.frames, size).video(fabric.device)

    def batches(self, first: int) -> Iterator[Batch]:
        """This process's batches from step `first` on."""
        if first == 0:
            self._calibrate()
        if not self.settings.lessons:
            return self._new_batches(first)
        console, lessons = Console(stderr=True), self.settings.lessons
        shown = track(
            islice(self._new_batches(0), lessons),
            "true scores",
            lessons,
            console=console,
            disable=not (console.is_terminal and self.fabric.is_global_zero),
        )
        self._lessons = [self._lesson(batch, i) for i, batch in enumerate(shown)]
        return (self._lessons[self._place(step)].batch for step in count(first))

    def _new_batches(self, first: int) -> Iterator[Batch]:
        rank, ranks, frames = self.fabric.global_rank, self.fabric.world_size, self.geometry.block_frames
        order = Order(len(self.clips.store), self.stages, frames, self.run.seed, first, rank, ranks)
        return batches(self.clips, order, self.settings.data.workers)

    def _place(self, step: int) -> int:
        """Which lesson a step takes: all of them in one order, then all in another."""
        turn, place = divmod(step, self.settings.lessons)
        return int(
            torch.randperm(self.settings.lessons, generator=generator(self.run.seed, turn, Purpose.START))[place]
        )

    @torch.no_grad()
    def _lesson(self, batch: Batch, number: int) -> Lesson:
        """True scores of all blocks of a batch, after random lengths."""
        video = batch.video(self.fabric.device)
        kept = self._lengths(len(video), generator(self.run.seed, number, Purpose.SHARED))
        rng = generator(self.run.seed, number, Purpose.OWN, self.fabric.global_rank)
        encoding, scores = self._truth(video, kept, None, rng)
        return Lesson(batch, encoding, kept, scores)

    def _calibrate(self) -> None:
        """Measure mean and spread of the scores at all lengths of all blocks."""
        rng = generator(self.run.seed, 0, Purpose.START)
        video = some_clips(self.clips, self.settings.calibration_clips, self.geometry.frames).video(self.fabric.device)
        scores = [
            self._truth(part, self._lengths(len(part), rng), None, rng)[1] for part in video.split(self.settings.batch)
        ]
        self.standard.measure(torch.cat(scores))
        if self.settings.initial:
            self.standard.unfold(self.scorer)
            self.average = Average(self.scorer, self.run.ema)

    def _lengths(self, batch: int, rng: torch.Generator) -> Kept:
        g = self.geometry
        kept = sample_kept(self.config.tokenizer.lengths, batch, g.blocks, g.tokens_per_block, rng)
        return kept.to(self.fabric.device)

    @torch.no_grad()
    def _truth(
        self, video: Video, kept: Kept, block: int | None, rng: torch.Generator
    ) -> tuple[Encoding, Float[Tensor, "B N S"]]:
        """What the tokenizer makes of clips, and the true scores of one block, or of all where None."""
        encoding, lengths = self.tokenizer.encode(video), self.scorer.lengths
        at = lengths if self.settings.true_lengths is None else few_lengths(lengths, self.settings.true_lengths, rng)
        truth = Truth(self.tokenizer, encoding, video, at, self.lesson_loss)
        found = all_true_scores(truth, kept) if block is None else true_scores(truth, kept, block)[:, None]
        return encoding, interpolated(found, at, lengths)

    def learn(self, batch: Batch, step: int) -> dict[str, float]:
        """One step on one block of every clip, or on all blocks of clips whose true scores are known."""
        shared = generator(self.run.seed, step, Purpose.SHARED)
        block = None if self._lessons else int(torch.randint(self.geometry.blocks, (), generator=shared))
        parts, total = batch.parts(self.run.accumulate), 0.0
        for number, part in enumerate(parts):
            if self._lessons:
                lesson = self._lessons[self._place(step)]
                encoding, kept, scores = lesson.encoding, lesson.kept, lesson.scores
            else:
                kept = self._lengths(len(part.names), shared)
                encoding, scores = self._truth(part.video(self.fabric.device), kept, block, shared)
            with self.fabric.no_backward_sync(self.learner.forward, enabled=number < len(parts) - 1):
                loss = self.learner.forward(self.standard(scores), Sealed(encoding), kept, block)
                check_finite(self.fabric, loss, "the loss", part.names, step)
                self.fabric.backward(loss / len(parts))
            total += loss.item() / len(parts)
        values = {"loss": total, "norm": self.learner.clip(step, batch.names)}
        self.learner.update(step)
        self.average.update(step)
        return values

    def validate(self, _step: int, /) -> Validation:
        """Rank correlation, error and regret of the averaged weights."""
        rng = generator(self.run.seed, 0, Purpose.CODEBOOK)
        kept = self._lengths(len(self._val), rng)
        return validate_scorer(self.bundle().to(self.fabric.device), self._val, kept, self.loss)

    def bundle(self) -> Bundle:
        """A copy of tokenizer and scorer, in the metric's own units."""
        copy = build(self.config)
        assert copy.scorer is not None
        copy.tokenizer.load_state_dict(self.tokenizer.state_dict())
        with self.average.in_place():
            copy.scorer.load_state_dict({name: whole(value) for name, value in self.scorer.state_dict().items()})
        self.standard.cpu().fold(copy.scorer)
        self.standard.to(self.fabric.device)
        return copy

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes, and the constants."""
        result = {f"scorer/{name}": value for name, value in self.learner.tensors().items()}
        result |= {f"average/{name}": value for name, value in self.average.tensors().items()}
        return result | {"standard/constants": self.standard.constants}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`."""
        self.learner.restore(below(tensors, "scorer/"))
        self.average.restore(below(tensors, "average/"))
        self.standard.constants.copy_(tensors["standard/constants"])
