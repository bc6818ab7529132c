"""How a generator is trained: next-token prediction over a token corpus, in the loop of loop.py.

In: `GeneratorTraining` settings and both splits of a corpus. Out: a `Recipe`. The loss of a step is the mean over all
predicted tokens of the whole batch, however it is shared among processes and parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from lightning_fabric import Fabric
from torch import Tensor, nn

from adaptok.bundle import open_bundle
from adaptok.generation.bundle import GeneratorBundle
from adaptok.generation.code_rows import settle, share_rows
from adaptok.generation.config import GeneratorConfig
from adaptok.generation.generate import check_match
from adaptok.generation.generator import Generator
from adaptok.generation.sequence import IGNORED, Ids, SequenceBatch, class_ids, context_ids, flatten, make_batch
from adaptok.load import folder_of
from adaptok.stream.codec import Codec
from adaptok.training.clips import Order
from adaptok.training.curriculum import Stage, steps_for
from adaptok.training.finite import check_finite
from adaptok.training.generator_settings import GeneratorTraining
from adaptok.training.generator_validation import unigram_loss, validate_generator
from adaptok.training.learner import Average, Learner, below, save_memory
from adaptok.training.loop import Validation
from adaptok.training.processes import over_all
from adaptok.training.seeds import Purpose, generator
from adaptok.training.sharding import whole
from adaptok.training.token_corpus import TokenCorpus


@dataclass(frozen=True)
class TokenBatch:
    """Sequences and the videos they came from."""

    sequences: SequenceBatch
    names: tuple[str, ...]

    def parts(self, count: int) -> list["TokenBatch"]:
        """The batch cut into `count` pieces of equal size."""
        if len(self.names) % count:
            raise ValueError(f"a batch of {len(self.names)} sequences cannot be computed in {count} equal parts")
        size, s = len(self.names) // count, self.sequences
        cuts = [slice(i * size, (i + 1) * size) for i in range(count)]
        return [TokenBatch(SequenceBatch(s.inputs[c], s.targets[c]), self.names[c]) for c in cuts]


class Sequences:
    """A split of the corpus as a generator reads it."""

    def __init__(self, corpus: TokenCorpus, config: GeneratorConfig) -> None:
        self.corpus, self.config = corpus, config
        numbers = {name: number for number, name in enumerate(config.classes)}
        # A class that training never saw is no class.
        self._labels = [numbers.get(label) for label in corpus.labels]

    def __len__(self) -> int:
        return len(self.corpus)

    def condition(self, clip: int) -> Ids:
        """What a clip's sequence is conditioned on."""
        if self.config.classes:
            return class_ids(self.config, self._labels[clip])
        shape = (self.config.context_blocks, self.config.tokens_per_block)
        return context_ids(self.config, self.corpus.context[clip].reshape(shape))

    def batch(self, clips: list[int]) -> TokenBatch:
        """Some clips side by side."""
        ids = [flatten(self.corpus.blocks(clip), self.config) for clip in clips]
        names = tuple(self.corpus.names[clip] for clip in clips)
        return TokenBatch(make_batch([self.condition(clip) for clip in clips], ids), names)


class GeneratorObjective(nn.Module):
    """The generator and its loss as one forward."""

    def __init__(self, network: Generator) -> None:
        super().__init__()
        self.generator = network

    def forward(
        self, inputs: Int[Tensor, "B N"], targets: Int[Tensor, "B N"], share: Float[Tensor, ""]
    ) -> Float[Tensor, ""]:
        """Cross-entropy summed over the tokens, times `share`."""
        counted = targets != IGNORED  # the head is most of the work, and conditions and padding need none
        return F.cross_entropy(self.generator(inputs, counted), targets[counted], reduction="sum") * share


class GeneratorRecipe:
    """A generator in training."""

    def __init__(self, settings: GeneratorTraining, fabric: Fabric, train: TokenCorpus, val: TokenCorpus) -> None:
        self.settings, self.run, self.fabric = settings, settings.run, fabric
        self.config = config_of(settings, train, val)
        self.train, self.val = Sequences(train, self.config), Sequences(val, self.config)
        self.stages = (Stage(blocks=self.config.blocks, batch=settings.batch),)
        self._shown = balanced(train.labels) if settings.data.balance else list(range(len(train)))
        self.steps = self.run.steps or steps_for(self.stages, (self.run.epochs or 0) * len(self._shown))
        self.codec = None
        if settings.tokenizer is not None:
            self.codec = Codec(open_bundle(folder_of(settings.tokenizer)).to(fabric.device))
            check_match(self.config, self.codec)
        torch.manual_seed(self.run.seed)
        self.generator = self._build().train()
        save_memory(self.generator, fabric, self.run)
        self.learner = Learner(fabric, GeneratorObjective(self.generator), settings.optimizer, self.steps, self.run)
        self.average = Average(self.generator, self.run.ema)
        self._unigram = unigram_loss(train, val, self._val_clips(), self.config)

    def _build(self) -> Generator:
        """A generator of the configuration, its rows of codes computed where the settings say so."""
        built = Generator(self.config)
        if self.settings.code_rows and self.codec is not None:
            share_rows(built, self.codec.bundle.tokenizer.quantizer.entries().cpu())
        return built

    def batches(self, first: int) -> Iterator[TokenBatch]:
        """This process's batches from step `first` on."""
        rank, ranks = self.fabric.global_rank, self.fabric.world_size
        for draws in Order(len(self._shown), self.stages, 1, self.run.seed, first, rank, ranks):
            yield self.train.batch([self._shown[draw.video] for draw in draws])

    def learn(self, batch: TokenBatch, step: int) -> dict[str, float]:
        """One step on whole sequences."""
        own = generator(self.run.seed, step, Purpose.OWN, self.fabric.global_rank)
        device = self.fabric.device
        everywhere = over_all(self.fabric, torch.tensor(float(batch.sequences.tokens), device=device), "sum")
        # Gradients are averaged over processes: a share of the mean over all tokens times their number.
        share = self.fabric.world_size / everywhere
        parts, total = batch.parts(self.run.accumulate), 0.0
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            # Dropout draws from PyTorch's own generators and takes no other; they are set for this step alone.
            torch.manual_seed(int(torch.randint(2**62, (), generator=own)))
            for number, part in enumerate(parts):
                inputs = self._inputs(part.sequences, own).to(device)
                with self.fabric.no_backward_sync(self.learner.forward, enabled=number < len(parts) - 1):
                    loss = self.learner.forward(inputs, part.sequences.targets.to(device), share)
                    check_finite(self.fabric, loss, "the loss", part.names, step)
                    self.fabric.backward(loss)
                total += loss.item()
        # The mean of `total` over processes is the loss of the whole batch.
        values = {"loss": total, "norm": self.learner.clip(step, batch.names), "tokens": float(everywhere)}
        self.learner.update(step)
        self.average.update(step)
        return values

    def _inputs(self, sequences: SequenceBatch, own: torch.Generator) -> Int[Tensor, "B N"]:
        """The inputs, the class hidden in some."""
        inputs = sequences.inputs
        if not self.config.classes:
            return inputs
        hidden = torch.rand(len(inputs), generator=own) < self.settings.class_dropout
        first = inputs[:, :1].masked_fill(hidden[:, None], self.config.outputs + self.config.no_class)
        return torch.cat([first, inputs[:, 1:]], dim=1)

    def _val_clips(self) -> list[int]:
        """Clips that validation looks at, spread evenly."""
        count = min(self.settings.data.val_clips, len(self.val))
        return [i * len(self.val) // count for i in range(count)]

    def validate(self, _step: int, /) -> Validation:
        """Perplexity of the averaged weights, and samples."""
        clips, size = self._val_clips(), self.settings.batch
        batches = [self.val.batch(clips[i : i + size]).sequences for i in range(0, len(clips), size)]
        conditions = [self.val.condition(clip) for clip in clips[:: max(1, len(clips) // self.settings.samples)]]
        network = settle(self.bundle().generator).to(self.fabric.device)
        return validate_generator(network, batches, self._unigram, self.codec, conditions[: self.settings.samples])

    def bundle(self) -> GeneratorBundle:
        """A copy of the generator with averaged weights."""
        copy = self._build().eval()
        with self.average.in_place():
            copy.load_state_dict({name: whole(value) for name, value in self.generator.state_dict().items()})
        return GeneratorBundle(copy)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes."""
        result = {f"generator/{name}": value for name, value in self.learner.tensors().items()}
        return result | {f"average/{name}": value for name, value in self.average.tensors().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`."""
        self.learner.restore(below(tensors, "generator/"))
        self.average.restore(below(tensors, "average/"))


def balanced(labels: Sequence[str]) -> list[int]:
    """Numbers of clips, as many of each class as the largest has: clips of smaller classes come several times."""
    members: dict[str, list[int]] = {}
    for clip, label in enumerate(labels):
        members.setdefault(label, []).append(clip)
    most = max(map(len, members.values()))
    return [clips[i % len(clips)] for clips in members.values() for i in range(most)]


def config_of(settings: GeneratorTraining, train: TokenCorpus, val: TokenCorpus) -> GeneratorConfig:
    """The generator that fits a corpus."""
    facts = train.facts
    if facts.tokenizer != val.facts.tokenizer:
        raise ValueError(
            f"data: the splits are tokens of two models, {facts.tokenizer[:8]} and {val.facts.tokenizer[:8]}"
        )
    if settings.condition == "frames" and not (facts.context_blocks and val.facts.context_blocks):
        raise ValueError("condition: frames needs a corpus with context tokens: adaptok tokenize --context 5")
    classes = tuple(sorted(set(train.labels)))
    lengths = np.asarray(train.lengths)
    return GeneratorConfig(
        name=settings.name,
        transformer=settings.transformer,
        blocks=facts.blocks,
        tokens_per_block=facts.tokens_per_block,
        codebook_size=facts.codebook_size,
        classes=classes if settings.condition == "class" else (),
        context_blocks=facts.context_blocks if settings.condition == "frames" else 0,
        min_tokens=int(lengths.min()),
        max_tokens=int(lengths.max()),
        slots=settings.slots,
        mean_tokens=round(float(lengths.mean()), 3),
        tokenizer=facts.tokenizer,
    )
