"""Sequences, sampled: prompts in, finished blocks out, one after the other, as an iterator.

Each step feeds one id per row through the generator and its cache. Rows are at different places of different blocks;
a row that is finished makes room for the next prompt; a row whose window is full slides: it starts anew from its last
blocks. slow.py does the same without cache and batch, and tests compare the two token for token. Next: generate.py.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from adaptok.generation.cache import Cache
from adaptok.generation.choice import Draws, choose, guide
from adaptok.generation.config import GeneratorConfig
from adaptok.generation.generator import Generator
from adaptok.generation.packed import packed
from adaptok.generation.sequence import Codes, Ids, Prompt, class_ids, flatten
from adaptok.generation.settings import Rules, Sampling

Slide = Callable[[int, tuple[Codes, ...]], Prompt]
"""What a sample's next window starts from, given the sample's number and the blocks of the window that is full."""


@dataclass(frozen=True, eq=False)
class GeneratedBlock:
    """A finished block."""

    sample: int
    """Which prompt it belongs to."""
    index: int
    """Place in the sample, counted from 0; given blocks are counted."""
    window: int
    """How often the sample's window has slid."""
    place: int
    """Place in the window: where in a clip the tokenizer decodes it."""
    codes: Codes


@dataclass
class Row:
    """One sample under way; changed by its engine as it grows."""

    sample: int
    prompt: Prompt
    draws: Draws
    index: int
    blocks: list[Codes]
    """Whole blocks of the window."""
    next_id: int = 0
    window: int = 0
    tokens: int = 0
    """Tokens drawn so far, over all windows."""
    codes: list[int] = field(default_factory=list)
    """Of the block at hand."""


def sample_blocks(
    generator: Generator,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    batch: int = 8,
    slide: Slide | None = None,
) -> Iterator[GeneratedBlock]:
    """Generate all prompts, `batch` of them at a time; blocks come out as they are finished."""
    rules = sampling.rules(generator.config)
    check_prompts(prompts, generator.config, rules, slide)
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    if generator.training:
        raise ValueError("the generator is in training mode, in which dropout is random: call eval() first")
    engine = Engine(generator, prompts, rules, batch, slide)
    while engine.rows:
        yield from engine.step()


def check_prompts(prompts: Sequence[Prompt], config: GeneratorConfig, rules: Rules, slide: Slide | None) -> None:
    """Refuse what cannot be generated."""
    for prompt in prompts:
        if len(prompt.condition) != config.condition_rows:
            raise ValueError(
                f"a condition has {len(prompt.condition)} ids, generator {config.name!r} takes {config.condition_rows}"
            )
        if len(prompt.prefix) >= min(rules.blocks, config.blocks):
            most = min(rules.blocks, config.blocks) - 1
            raise ValueError(f"{len(prompt.prefix)} blocks are given, at most {most} leave something to generate")
    if rules.blocks > config.blocks and slide is None and not config.classes:
        raise ValueError(
            f"{rules.blocks} blocks are asked for, a clip has {config.blocks}; to slide, a generator of given frames "
            "needs the tokenizer"
        )


def keep_last(prompt: Prompt, blocks: tuple[Codes, ...], overlap: int) -> Prompt:
    """The plainest way to slide: the last blocks become the first, tokens as they are."""
    return replace(prompt, prefix=blocks[len(blocks) - overlap :])


class Engine:
    """The rows, their cache, and the prompts that wait."""

    def __init__(
        self, generator: Generator, prompts: Sequence[Prompt], rules: Rules, batch: int, slide: Slide | None
    ) -> None:
        self.generator, self.config, self.rules, self.slide = generator, generator.config, rules, slide
        self.waiting = deque(
            Row(i, prompt, Draws(prompt.seed), len(prompt.prefix), list(prompt.prefix))
            for i, prompt in enumerate(prompts)
        )
        self.rows: list[Row] = []
        self.pair = 1 if rules.sampling.guidance == 1 else 2
        """A guided sample has two rows of the cache, one after the other: its own and that of "no class"."""
        self.batch = min(batch, len(prompts))
        self._free = class_ids(self.config, None) if self.pair == 2 else np.zeros(0, np.int64)
        with torch.inference_mode():
            self._packed = packed(generator)
            self.cache = self._cache(prompts)
            self._admit()

    def _cache(self, prompts: Sequence[Prompt]) -> Cache:
        """Columns for the longest window, and as many again where rows begin at different times."""
        rules, config = self.rules, self.config
        lengths = [len(ids_of(prompt, config)) for prompt in prompts] or [1]
        longest = max([rules.high, *(len(block) for prompt in prompts for block in prompt.prefix)])
        window = config.condition_rows + min(rules.blocks, config.blocks) * (longest + 1) - 1
        renewed = len(prompts) > self.batch or rules.blocks > config.blocks
        columns = 2 * window if renewed else window + max(lengths) - min(lengths)
        like = self.generator.head.weight
        cache = Cache(config.transformer, max(1, self.batch * self.pair), columns, like)
        cache.column = max(lengths) - 1
        return cache

    def _admit(self) -> None:
        """Let waiting samples take the free rows."""
        new: list[int] = []
        while self.waiting and len(self.rows) < self.batch:
            new.append(len(self.rows))
            self.rows.append(self.waiting.popleft())
        self.cache.count = self.pair * len(self.rows)
        self._start(new)

    def _start(self, numbers: list[int]) -> None:
        """Read the prompts of some rows, up to their last id, which the next step feeds like any other."""
        lengths: dict[int, list[tuple[int, Ids]]] = {}
        for number in numbers:
            prompt = self.rows[number].prompt
            ids = ids_of(prompt, self.config)
            self.rows[number].next_id = int(ids[-1])
            lengths.setdefault(len(ids), []).append((self.pair * number, ids))
            if self.pair == 2:
                lengths[len(ids)].append((self.pair * number + 1, ids_of(prompt, self.config, self._free)))
        for length, group in lengths.items():
            filler = self.cache.filler([row for row, _ in group], length - 1)
            if length > 1:
                rows = torch.from_numpy(np.stack([ids[:-1] for _, ids in group])).to(self._device)
                x = self.generator.embedding(rows) + self.generator.positions[self.generator.places(rows)]
                self.generator.llama(x, filler)

    @property
    def _device(self) -> torch.device:
        return self.generator.head.weight.device

    @torch.inference_mode()
    def step(self) -> list[GeneratedBlock]:
        """One more id for every row; the blocks that it finished."""
        # Only now, when whoever shows the blocks has seen the last one of the window.
        self._start([number for number, row in enumerate(self.rows) if self._slid(row)])
        self.cache.begin()
        logits = self._logits()
        rules, rows, end = self.rules, self.rows, self.config.end
        chosen = choose(
            logits,
            torch.tensor([row.draws.next() for row in rows], dtype=torch.float64),
            torch.tensor([len(row.codes) >= rules.low for row in rows]),
            torch.tensor([len(row.codes) >= rules.high for row in rows]),
            rules.sampling,
        ).tolist()
        self.cache.column += 1
        done: list[GeneratedBlock] = []
        finished: list[int] = []
        for number, (row, chosen_id) in enumerate(zip(rows, chosen, strict=True)):
            row.next_id = chosen_id
            row.tokens += 1
            if chosen_id != end:
                row.codes.append(chosen_id)
                continue
            done.append(self._finish_block(row))
            if row.index == rules.blocks:
                finished.append(number)
        self._retire(finished)
        return done

    def _logits(self) -> torch.Tensor:
        """Scores of the next ids, guided where they are to be."""
        rows, pair, cache, generator = self.rows, self.pair, self.cache, self._packed
        # At its first step a free row reads its own condition, later both read the same id.
        ids = [i for row in rows for i in ((row.next_id, self._free_id(row)) if pair == 2 else (row.next_id,))]
        device = self._device
        x = generator.embedding(torch.tensor(ids, device=device)) + generator.positions[torch.tensor(self._places())]
        logits = generator.head(generator.llama(x[:, None], cache.step)[:, 0])
        if pair == 1:
            return logits
        guided = torch.tensor([self.rules.guided(row.tokens) for row in rows])
        return guide(logits[::2], logits[1::2], guided, self.rules.sampling.guidance)

    def _places(self) -> list[int]:
        """Where the ids that are fed stand, as `Generator.places` says of whole sequences."""
        if not self.config.slots:
            return [self.cache.column - offset for offset in self.cache.offsets[: self.cache.count]]
        fed = [self.config.place(len(row.blocks), len(row.codes) - 1) for row in self.rows]
        return [place for place in fed for _ in range(self.pair)]

    def _free_id(self, row: Row) -> int:
        own = row.prompt.condition
        return int(self._free[-1]) if row.next_id == own[-1] else row.next_id

    def _finish_block(self, row: Row) -> GeneratedBlock:
        codes = np.array(row.codes, np.int64)
        block = GeneratedBlock(row.sample, row.index, row.window, len(row.blocks), codes)
        row.blocks.append(codes)
        row.codes = []
        row.index += 1
        return block

    def _slid(self, row: Row) -> bool:
        """Where a window is full, begin the next from its end."""
        if len(row.blocks) < self.config.blocks:
            return False
        blocks = tuple(row.blocks)
        if self.slide is None:
            row.prompt = keep_last(row.prompt, blocks, self.rules.overlap)
        else:
            row.prompt = self.slide(row.sample, blocks)
        row.blocks = list(row.prompt.prefix)
        row.window += 1
        return True

    def _retire(self, finished: list[int]) -> None:
        """Close the gaps that finished rows leave, let others in, and stop computing what guides nobody any more."""
        for number in reversed(finished):
            last = len(self.rows) - 1
            for i in range(self.pair):
                self.cache.move(self.pair * last + i, self.pair * number + i)
            self.rows[number] = self.rows[last]
            self.rows.pop()
        if finished:
            self._admit()
        if self.pair == 2 and not self.waiting and not any(self.rules.guided_later(row.tokens) for row in self.rows):
            for number in range(len(self.rows)):
                self.cache.move(2 * number, number)
            self.pair = 1
            self.cache.count = len(self.rows)


def ids_of(prompt: Prompt, config: GeneratorConfig, condition: Ids | None = None) -> Ids:
    """A prompt as ids, under another condition if one is given."""
    front = prompt.condition if condition is None else condition
    return np.concatenate([front, flatten(prompt.prefix, config)])
