"""Tokens to pictures while they are made: a generator and the tokenizer whose codes it speaks.

In: prompts. Out: the frames of each block as soon as its last token is drawn, while the next is generated; or whole
takes, frames and tokens. Beyond a clip the window slides: its last frames are encoded anew as the beginning of the next
clip, since a token of block 3 means something else in block 0. Next on the walk: predict.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from jaxtyping import Int, UInt8

from adaptok.generation.config import GeneratorConfig
from adaptok.generation.generator import Generator
from adaptok.generation.sampling import GeneratedBlock, sample_blocks
from adaptok.generation.sequence import Codes, Prompt, class_ids, context_ids
from adaptok.generation.settings import Sampling
from adaptok.stream.block import TokenBlock
from adaptok.stream.codec import DEFAULT_FPS, Codec, Tokens
from adaptok.video.clips import to_video

Images = UInt8[np.ndarray, "T H W 3"]


@dataclass(frozen=True, eq=False)
class Shown:
    """A block that can be looked at."""

    block: GeneratedBlock
    frames: Images


@dataclass(frozen=True, eq=False)
class Take:
    """A finished sample."""

    sample: int
    frames: Images
    """All frames at the model's size, decoded given blocks included."""
    tokens: tuple[Tokens, ...]
    """A stream per window; one unless the window slid. Each begins with the blocks its window started from."""


class Director:
    """A generator together with its tokenizer."""

    def __init__(self, generator: Generator, codec: Codec) -> None:
        check_match(generator.config, codec)
        self.generator, self.codec = generator, codec

    @property
    def config(self) -> GeneratorConfig:
        """The generator's."""
        return self.generator.config

    def prompts(self, labels: Sequence[int | None], seed: int) -> list[Prompt]:
        """A prompt per class number (None is no class); sample i has seed `seed` + i."""
        return [Prompt(class_ids(self.config, label), seed + i) for i, label in enumerate(labels)]

    def show(self, prompts: Sequence[Prompt], sampling: Sampling, batch: int = 8) -> Iterator[Shown]:
        """Frames of each block as soon as it is finished."""
        for shown, _ in self._show(prompts, sampling, batch):
            yield shown

    def takes(
        self, prompts: Sequence[Prompt], sampling: Sampling, batch: int = 8, fps: Fraction = DEFAULT_FPS
    ) -> Iterator[Take]:
        """Whole samples, each as soon as its last block is finished."""
        last = sampling.rules(self.config).blocks - 1
        for shown, screen in self._show(prompts, sampling, batch):
            if shown.block.index == last:
                tokens = tuple(self._tokens(blocks, fps) for blocks in screen.windows)
                yield Take(shown.block.sample, np.concatenate(screen.frames), tokens)

    def _show(self, prompts: Sequence[Prompt], sampling: Sampling, batch: int) -> Iterator[tuple[Shown, "_Screen"]]:
        overlap = sampling.rules(self.config).overlap
        screens = [_Screen(self.codec, self.config, prompt) for prompt in prompts]

        def slide(sample: int, _: tuple[Codes, ...]) -> Prompt:
            return screens[sample].slide(overlap)

        for block in sample_blocks(self.generator, prompts, sampling, batch, slide):
            screen = screens[block.sample]
            yield Shown(block, screen.push(block.codes)), screen

    def _tokens(self, blocks: Sequence[Codes], fps: Fraction) -> Tokens:
        """Blocks of one clip as a stream of the tokenizer."""
        g = self.codec.geometry
        stored = tuple(TokenBlock(index=i, frames=g.block_frames, codes=codes) for i, codes in enumerate(blocks))
        header = self.codec.header(g.height, g.width, fps, frame_count=len(blocks) * g.block_frames, with_scores=False)
        return Tokens(header, stored)


class _Screen:
    """What one sample looks like so far."""

    def __init__(self, codec: Codec, config: GeneratorConfig, prompt: Prompt) -> None:
        self._codec, self._config, self._prompt = codec, config, prompt
        self.frames: list[Images] = []
        """Of every block, given ones included."""
        self.windows: list[list[Codes]] = []
        self._open(prompt.prefix)
        self.frames += self._given

    def _open(self, prefix: tuple[Codes, ...]) -> None:
        """Start a clip with blocks that are there already."""
        g = self._codec.geometry
        self._session = self._codec.decoder(self._codec.header(g.height, g.width, with_scores=False))
        self.windows.append([])
        self._given = [self._decode(codes) for codes in prefix]

    def _decode(self, codes: Codes) -> Images:
        window = self.windows[-1]
        frames = self._codec.geometry.block_frames
        images = self._session.push(TokenBlock(index=len(window), frames=frames, codes=codes))
        window.append(codes)
        return images

    def push(self, codes: Codes) -> Images:
        """The frames of the next block."""
        self.frames.append(self._decode(codes))
        return self.frames[-1]

    def slide(self, overlap: int) -> Prompt:
        """Encode the last blocks as the first of a new clip, each with as many tokens as it had."""
        prefix: tuple[Codes, ...] = ()
        condition = self._prompt.condition
        kept = [len(codes) for codes in self.windows[-1]]
        if overlap:
            seen = np.concatenate(self.frames[-overlap:])
            codes = encode_all(self._codec, seen)
            prefix = tuple(row[:n] for row, n in zip(codes, kept[-overlap:], strict=True))
            if self._config.context_blocks:
                condition = frames_condition(self._codec, self._config, seen)
        self._open(prefix)
        return Prompt(condition, self._prompt.seed, prefix)


@torch.inference_mode()
def encode_all(codec: Codec, images: Images) -> Int[np.ndarray, "K M"]:
    """All tokens of whole blocks at the model's size, from a clip's beginning."""
    tokenizer = codec.bundle.tokenizer
    encoding, _ = tokenizer.encode_blocks(to_video(images).to(tokenizer.quantizer.codebook.device), None)
    return encoding.codes[0].cpu().numpy()


def frames_condition(codec: Codec, config: GeneratorConfig, images: Images) -> Int[np.ndarray, " N"]:
    """Given frames as a condition: filled up with the last one, or cut, to as many blocks as the generator reads."""
    wanted = config.context_blocks * codec.geometry.block_frames
    numbers = np.minimum(np.arange(wanted), len(images) - 1)
    return context_ids(config, encode_all(codec, images[numbers]))


def check_match(config: GeneratorConfig, codec: Codec) -> None:
    """Refuse a tokenizer that does not speak the generator's codes."""
    g, v = codec.geometry, codec.bundle.config.tokenizer.quantizer.codebook_size
    name = codec.bundle.config.name
    if config.tokenizer and config.tokenizer != codec.fingerprint:
        raise ValueError(
            f"generator {config.name!r} was trained on tokens of tokenizer {config.tokenizer[:8]}, "
            f"{name!r} is {codec.fingerprint[:8]}"
        )
    if (config.blocks, config.tokens_per_block, config.codebook_size) != (g.blocks, g.tokens_per_block, v):
        raise ValueError(
            f"generator {config.name!r} speaks {config.blocks} blocks of up to {config.tokens_per_block} tokens out of "
            f"{config.codebook_size} codes, tokenizer {name!r} {g.blocks} of up to {g.tokens_per_block} out of {v}"
        )
