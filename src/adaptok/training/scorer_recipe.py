"""How a scorer is trained: a frozen tokenizer shows what each length of a block really costs, the scorer predicts it.

In: `ScorerTraining` settings. Out: a `Recipe`. The target block and the lengths before it are drawn anew at every
step, or all blocks of some clips are judged once and learnt from many times. The scorer learns standardised scores;
when it is saved, mean and spread are folded into its last layer, so that the model on disk speaks the metric's own
units and a checkpoint needs no constants beside its weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import count

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
    several,
    true_scores,
)
from adaptok.bundle import Bundle, build, open_bundle
from adaptok.load import folder_of
from adaptok.shapes import Kept, Video
from adaptok.stream.codec import Codec
from adaptok.tokenizer.model import Encoding
from adaptok.tokenizer.tail_drop import sample_kept
from adaptok.training.clips import Batch, Clips, Order, batches, some_clips, validation_batch
from adaptok.training.curriculum import Stage, steps_for
from adaptok.training.finite import check_finite
from adaptok.training.frames import FrameStore
from adaptok.training.learner import Average, Learner, below, save_memory
from adaptok.training.lessons import Lesson, Shelf
from adaptok.training.loop import Validation
from adaptok.training.objective import Sealed
from adaptok.training.scorer_validation import Exam
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
        self.metrics = tuple(dict.fromkeys((settings.scorer.metric, *settings.judged)))
        judges = several([block_loss(metric) for metric in self.metrics])
        self.judges = judges if settings.score_frames is None else at_frames(judges, settings.score_frames)
        save_memory(self.scorer, fabric, self.run)
        self.learner = Learner(
            fabric, ScorerObjective(self.scorer, settings.shape), settings.optimizer, self.steps, self.run
        )
        self.average = Average(self.scorer, self.run.ema)
        self.standard = Standard().to(fabric.device)
        self._fingerprint = Codec(old).fingerprint
        self._val = validation_batch(val, settings.data.val_clips, self.geometry.frames, size).video(fabric.device)

    def batches(self, first: int) -> Iterator[Batch | Lesson]:
        """This process's batches from step `first` on: new clips, or lessons in another order each time."""
        if first == 0:
            self._calibrate()
        if not self.settings.lessons:
            return self._new_batches(first)
        lessons = self._all_lessons()
        return (lessons[self._place(step)] for step in count(first))

    def _all_lessons(self) -> list[Lesson]:
        """Those on the shelf, and the others judged and put there."""
        shelf, fresh, next_fresh, lessons = Shelf(self.settings.lessons_folder, self._content()), None, 0, []
        console, numbers = Console(stderr=True), range(self.settings.lessons)
        shown = console.is_terminal and self.fabric.is_global_zero
        for number in track(numbers, "true scores", console=console, disable=not shown):
            lesson = shelf.read(number, self.settings.scorer.metric, self.fabric.device)
            if lesson is None:
                if fresh is None or number != next_fresh:
                    fresh = self._new_batches(number)
                shared = generator(self.run.seed, number, Purpose.SHARED)
                own = generator(self.run.seed, number, Purpose.OWN, self.fabric.global_rank)
                lesson, scores = self._judged(next(fresh), None, shared, own)
                shelf.write(number, lesson, dict(zip(self.metrics, scores.unbind(-1), strict=True)))
                next_fresh = number + 1
            lessons.append(lesson)
        return lessons

    def _content(self) -> list[object]:
        """All that lessons depend on but their number and the metric."""
        s = self.settings
        how = [self.scorer.lengths, s.true_lengths, s.score_frames, s.batch, s.run.seed, asdict(s.augment)]
        return [self._fingerprint, how, self.fabric.global_rank, self.fabric.world_size, self.clips.store.identities]

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

    def _judged(
        self, batch: Batch, block: int | None, shared: torch.Generator, own: torch.Generator
    ) -> tuple[Lesson, Float[Tensor, "B N S metrics"]]:
        """A batch after random lengths, with its true scores by the scorer's metric; and those by all metrics."""
        video = batch.video(self.fabric.device)
        kept = self._lengths(len(video), shared)
        encoding, scores = self._truth(video, kept, block, own)
        return Lesson(batch.names, encoding.latents, encoding.codes, kept, scores[..., 0]), scores

    def _calibrate(self) -> None:
        """Measure mean and spread of the scores at all lengths of all blocks."""
        rng = generator(self.run.seed, 0, Purpose.START)
        video = some_clips(self.clips, self.settings.calibration_clips, self.geometry.frames).video(self.fabric.device)
        scores = [
            self._truth(part, self._lengths(len(part), rng), None, rng)[1][..., 0]
            for part in video.split(self.settings.batch)
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
    ) -> tuple[Encoding, Float[Tensor, "B N S metrics"]]:
        """What the tokenizer makes of clips, and the true scores of one block, or of all where None, by all metrics."""
        encoding, lengths = self.tokenizer.encode(video), self.scorer.lengths
        at = lengths if self.settings.true_lengths is None else few_lengths(lengths, self.settings.true_lengths, rng)
        truth = Truth(self.tokenizer, encoding, video, at, self.judges)
        found = all_true_scores(truth, kept) if block is None else true_scores(truth, kept, block)[:, None]
        return encoding, torch.stack([interpolated(one, at, lengths) for one in found.unbind(-1)], dim=-1)

    def learn(self, batch: Batch | Lesson, step: int) -> dict[str, float]:
        """One step: on all blocks of a lesson, or on one block of every clip of a new batch."""
        shared, block = generator(self.run.seed, step, Purpose.SHARED), None
        parts: Sequence[Batch | Lesson] = [batch]
        if not isinstance(batch, Lesson):
            block, parts = (
                int(torch.randint(self.geometry.blocks, (), generator=shared)),
                batch.parts(self.run.accumulate),
            )
        total = 0.0
        for number, part in enumerate(parts):
            lesson = part if isinstance(part, Lesson) else self._judged(part, block, shared, shared)[0]
            encoding = Encoding(lesson.latents, lesson.codes, self.tokenizer.embedded(lesson.codes))
            with self.fabric.no_backward_sync(self.learner.forward, enabled=number < len(parts) - 1):
                loss = self.learner.forward(self.standard(lesson.scores), Sealed(encoding), lesson.kept, block)
                check_finite(self.fabric, loss, "the loss", lesson.names, step)
                self.fabric.backward(loss / len(parts))
            total += loss.item() / len(parts)
        values = {"loss": total, "norm": self.learner.clip(step, batch.names)}
        self.learner.update(step)
        self.average.update(step)
        return values

    def validate(self, _step: int, /) -> Validation:
        """Rank correlation, error and regret of the averaged weights."""
        scorer = self.bundle().scorer
        assert scorer is not None
        return self._exam(scorer.to(self.fabric.device))

    @cached_property
    def _exam(self) -> Exam:
        kept = self._lengths(len(self._val), generator(self.run.seed, 0, Purpose.CODEBOOK))
        return Exam(self.tokenizer, self.scorer.lengths, self._val, kept, self.loss)

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
