"""How a tokenizer is trained: curriculum, losses, codebook and adversary, over the loop of loop.py.

In: `TokenizerTraining` settings. Out: a `Recipe`. Each step asks the settings what holds at that step (clip length,
share of dropped tails, share of quantized samples), so that a step is the same whenever it is run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import torch
from jaxtyping import Int
from lightning_fabric import Fabric
from torch import Tensor

from adaptok.allocation.budget import Budget
from adaptok.allocation.context import Prediction, judge
from adaptok.allocation.scope import batch as share_batch
from adaptok.bundle import Bundle, build, open_bundle
from adaptok.config import PriorConfig
from adaptok.load import folder_of
from adaptok.metrics import LPIPS
from adaptok.shapes import Kept, Video
from adaptok.tokenizer.tail_drop import sample_kept
from adaptok.training.adversary import Adversary
from adaptok.training.clips import Batch, Clips, Order, batches, some_clips, validation_batch
from adaptok.training.codebook import CodebookUse, cosine_kmeans, vector_sums
from adaptok.training.curriculum import Stage, stage_at, steps_for
from adaptok.training.finite import check_finite
from adaptok.training.frames import FrameStore
from adaptok.training.learner import Average, Learner, below, save_memory
from adaptok.training.loop import Validation
from adaptok.training.objective import Conditions, Losses, Sealed, TokenizerObjective
from adaptok.training.processes import over_all, rows_of_all
from adaptok.training.seeds import Purpose, generator
from adaptok.training.settings import TokenizerTraining
from adaptok.training.sharding import whole
from adaptok.training.start import align, spread_first_block
from adaptok.training.validation import validate_tokenizer


class TokenizerRecipe:
    """A tokenizer in training."""

    def __init__(self, settings: TokenizerTraining, fabric: Fabric, train: FrameStore, val: FrameStore) -> None:
        self.settings, self.run, self.fabric = settings, settings.run, fabric
        self.geometry = settings.model.tokenizer.geometry
        size = (self.geometry.height, self.geometry.width)
        self.clips = Clips(train, size, settings.augment, self.run.seed)
        self.val_store = val
        self.steps = self.run.steps or steps_for(settings.stages, (self.run.epochs or 0) * len(train))
        self._bundle = self._first_bundle()
        self.tokenizer = self._bundle.tokenizer.train()
        for name, weight in self.tokenizer.named_parameters():
            weight.requires_grad_(not settings.learn or name.split(".")[0] in settings.learn)
        self.objective = TokenizerObjective(self.tokenizer, settings.losses)
        save_memory(self.tokenizer, fabric, self.run)
        self.learner = Learner(fabric, self.objective, settings.optimizer, self.steps, self.run)
        self.average = Average(self.tokenizer, self.run.ema)
        quantizer = settings.model.tokenizer.quantizer
        self.use = CodebookUse(quantizer.codebook_size, quantizer.code_width, settings.codebook.follow or 0.99)
        self.adversary = None
        if settings.adversary is not None:
            self.adversary = Adversary(fabric, self.geometry, settings.adversary, settings, self.steps)
        self._lpips = LPIPS("alex").to(fabric.device) if self.run.validate_lpips else None
        self._val_video: dict[int, Video] = {}

    def _first_bundle(self) -> Bundle:
        settings = self.settings
        torch.manual_seed(self.run.seed)
        if settings.initial is not None:
            bundle = open_bundle(folder_of(settings.initial))
            if settings.model.tokenizer.prior is not None and bundle.tokenizer.prior is None:
                bundle = with_prior(bundle, settings.model.tokenizer.prior)
            if bundle.config.tokenizer != settings.model.tokenizer:
                raise ValueError(f"initial: the tokenizer in {settings.initial} is not the one of the recipe's model")
            if settings.allocated.share > 0 and bundle.scorer is None:
                raise ValueError(f"initial: {settings.initial} has no scorer, which allocated needs")
            return bundle
        # A scorer is trained later, for the tokenizer as it is then.
        bundle = build(replace(settings.model, scorer=None))
        if settings.start.aligned:
            frames = self.geometry.block_frames * settings.stages[0].blocks
            some = some_clips(self.clips, settings.start.clips, frames).video(torch.device("cpu"))
            align(bundle.tokenizer, some, settings.start, generator(self.run.seed, 0, Purpose.START))
        return bundle

    def batches(self, first: int) -> Iterator[Batch]:
        """This process's batches from step `first` on."""
        stages, frames = self.settings.stages, self.geometry.block_frames
        rank, ranks = self.fabric.global_rank, self.fabric.world_size
        order = Order(len(self.clips.store), stages, frames, self.run.seed, first, rank, ranks)
        return batches(self.clips, order, self.settings.data.workers)

    def learn(self, batch: Batch, step: int) -> dict[str, float]:
        """One step of the tokenizer and, in its turn, of the adversary."""
        self._turn_pages(step)
        shared = generator(self.run.seed, step, Purpose.SHARED)
        own = generator(self.run.seed, step, Purpose.OWN, self.fabric.global_rank)
        parts = batch.parts(self.run.accumulate)
        done: list[tuple[Video, Losses]] = []
        total = 0.0
        lengths = self._lengths(stage_at(self.settings.stages, step), step, shared)
        allocated = torch.rand((), generator=shared).item() < self.settings.allocated.at(step)
        for number, part in enumerate(parts):
            video = part.video(self.fabric.device)
            kept = self._allocated(video, lengths) if allocated else lengths.expand(len(video), -1)
            conditions = self._conditions(kept, step, own)
            unfinished = number < len(parts) - 1
            with self.fabric.no_backward_sync(self.learner.forward, enabled=unfinished):
                loss, losses = self.learner.forward(video, Sealed(conditions))
                check_finite(self.fabric, loss, "the loss", part.names, step)
                self.fabric.backward(loss / len(parts))
            done.append((video, losses.value))
            total += loss.item() / len(parts)
        values = {"loss": total, "norm": self.learner.clip(step, batch.names)}
        if self.adversary is not None and self.adversary.plays(step):
            pairs = [(video, losses.reconstruction.video.detach()) for video, losses in done]
            values |= self.adversary.learn(pairs, batch.names, step)
        # Last, so that a step whose numbers fail leaves the tokenizer as it was.
        self.learner.update(step)
        self.average.update(step)
        self._watch_codes(done, step)
        names = done[0][1].terms
        values |= {name: sum(losses.terms[name].item() for _, losses in done) / len(done) for name in names}
        return values | {"kept": lengths.float().mean().item(), "usage": (self.use.share > 0.1).float().mean().item()}

    def _turn_pages(self, step: int) -> None:
        """What happens once, when a new stage begins or quantization starts."""
        stages, codebook = self.settings.stages, self.settings.codebook
        for before, stage in pairwise(stages):
            if step == stage.start and stage.blocks > before.blocks:
                spread_first_block(self.tokenizer, before.blocks, self.settings.start.order)
                self.average.jump("encoder.queries")
                if self.settings.model.tokenizer.learned_slots:
                    self.average.jump("decoder.slot_positions")
        if codebook.kmeans_clips and step == codebook.quantize.start:
            self._start_codebook(stage_at(stages, step), step)

    @torch.no_grad()
    def _start_codebook(self, stage: Stage, step: int) -> None:
        """k-means over vectors of clips, the same in all processes."""
        frames = stage.blocks * self.geometry.block_frames
        some = some_clips(self.clips, self.settings.codebook.kmeans_clips, frames).video(self.fabric.device)
        quantizer = self.tokenizer.quantizer
        vectors = [quantizer.direction(self.tokenizer.encoder(part)[0]).flatten(0, -2) for part in some.split(16)]
        rng = generator(self.run.seed, step, Purpose.CODEBOOK)
        quantizer.codebook.copy_(cosine_kmeans(torch.cat(vectors).cpu(), quantizer.config.codebook_size, rng))
        self.average.jump("quantizer.codebook")

    def _lengths(self, stage: Stage, step: int, shared: torch.Generator) -> Int[Tensor, "1 K"]:
        """One vector of lengths (1,K) for all samples of the step: no padding, no masks."""
        m, law = self.geometry.tokens_per_block, self.settings.model.tokenizer.lengths
        if torch.rand((), generator=shared).item() >= self.settings.tail_drop.at(step):
            return torch.full((1, stage.blocks), m, device=self.fabric.device)
        return sample_kept(law, 1, stage.blocks, m, shared).to(self.fabric.device)

    def _allocated(self, video: Video, lengths: Int[Tensor, "1 K"]) -> Kept:
        """Second stage: the lengths that the scorer and the allocator would choose, as many tokens as drawn."""
        scorer = self._bundle.scorer
        assert scorer is not None
        with torch.no_grad():
            prediction = Prediction(scorer, self.tokenizer.encode(video))
            budget = Budget(per_block=max(lengths.float().mean().item(), float(scorer.lengths[0])))
            return torch.from_numpy(judge(prediction, budget, scope=share_batch).kept).to(video.device)

    def _conditions(self, kept: Kept, step: int, own: torch.Generator) -> Conditions:
        """What holds at this step for one part of the batch."""
        share = self.settings.codebook.quantize.at(step)
        strength = None
        if share < 1:
            strength = (torch.rand(len(kept), generator=own) < share).float().to(self.fabric.device)
        return Conditions(
            kept=kept,
            strength=strength,
            quantizer_weight=float(share > 0),
            mix=self.settings.losses.prior_mix.at(step),
            adversary=self.adversary.network if self.adversary is not None and self.adversary.plays(step) else None,
            generator=own,
        )

    def _watch_codes(self, done: list[tuple[Video, Losses]], step: int) -> None:
        """Count the kept codes; let them follow their vectors; move those that nobody uses."""
        codebook, quantizer = self.settings.codebook, self.tokenizer.quantizer
        codes, vectors = [], []
        for _, losses in done:
            result = losses.reconstruction
            m = result.quantized.codes.shape[-1]
            kept = torch.arange(m, device=result.kept.device) < result.kept[..., None]
            codes.append(result.quantized.codes[kept])
            vectors.append(result.quantized.directions[kept].detach())
        counts = torch.bincount(torch.cat(codes), minlength=quantizer.config.codebook_size).float().cpu()
        self.use.update(over_all(self.fabric, counts, "sum"))
        quantizing = codebook.quantize.at(step) > 0
        everywhere = torch.cat(vectors)
        if quantizing and codebook.follow:
            self.use.follow(quantizer, over_all(self.fabric, vector_sums(quantizer, everywhere), "sum"))
        ended = codebook.revive_until is not None and step >= codebook.revive_until
        if codebook.revive_every and quantizing and not ended and (step + 1) % codebook.revive_every == 0:
            if self.fabric.world_size > 1:
                everywhere = self.fabric.broadcast(everywhere, src=0)
            rng = generator(self.run.seed, step, Purpose.CODEBOOK)
            self.average.jump("quantizer.codebook", self.use.revive(quantizer, everywhere, codebook.revive_below, rng))

    def validate(self, step: int) -> Validation:
        """PSNR, LPIPS and codebook use of the averaged weights on clips as long as the stage's."""
        stage = stage_at(self.settings.stages, step - 1)
        blocks = stage.blocks
        if blocks not in self._val_video:
            size = (self.geometry.height, self.geometry.width)
            frames = blocks * self.geometry.block_frames
            rank, ranks = self.fabric.global_rank, self.fabric.world_size
            batch = validation_batch(self.val_store, self.settings.data.val_clips, frames, size, rank, ranks)
            self._val_video = {blocks: batch.video(self.fabric.device)}
        quantized = self.settings.codebook.quantize.at(step - 1) > 0
        with self.average.in_place():
            found = validate_tokenizer(
                self.tokenizer, self._val_video[blocks], self._lpips, quantized, self._all_val_clips
            )
        return replace(found, level=2 * self.settings.stages.index(stage) + quantized)

    def _all_val_clips(self, rows: Tensor) -> Tensor:
        """Rows of all validation clips, without those that were repeated to give every process as many."""
        return rows_of_all(self.fabric, rows)[: min(self.settings.data.val_clips, len(self.val_store))]

    def bundle(self) -> Bundle:
        """A copy of the model with averaged weights."""
        copy = build(self._bundle.config)
        with self.average.in_place():
            copy.modules.load_state_dict({k: whole(v) for k, v in self._bundle.modules.state_dict().items()})
        return copy

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes."""
        result = {f"tokenizer/{name}": value for name, value in self.learner.tensors().items()}
        result |= {f"average/{name}": value for name, value in self.average.tensors().items()}
        result |= {"codebook/share": self.use.share, "codebook/sums": self.use.sums}
        if self.adversary is not None:
            result |= {f"adversary/{name}": value for name, value in self.adversary.tensors().items()}
        return result

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`."""
        self.learner.restore(below(tensors, "tokenizer/"))
        self.average.restore(below(tensors, "average/"))
        self.use.share.copy_(tensors["codebook/share"])
        self.use.sums.copy_(tensors["codebook/sums"])
        if self.adversary is not None:
            self.adversary.restore(below(tensors, "adversary/"))


def with_prior(bundle: Bundle, prior: PriorConfig) -> Bundle:
    """The same model with a prior that has yet to learn."""
    tokenizer = replace(bundle.config.tokenizer, prior=prior)
    grown = build(replace(bundle.config, tokenizer=tokenizer))
    grown.modules.load_state_dict(bundle.modules.state_dict(), strict=False)
    return grown
