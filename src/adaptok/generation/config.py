"""What a generator is: the transformer's size, the token blocks it speaks, and what it is conditioned on.

In: a checkpoint's `config.yaml`, a preset's name, or Python. Out: a `GeneratorConfig` whose numbers fit together, and
the one numbering of everything that can stand in a sequence. Next on the walk: sequence.py.
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from adaptok.config import Strict, checked, parsed


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Strict):
    """A Llama-style transformer: RMSNorm, SwiGLU, no biases. Dropout as published."""

    width: int
    depth: int
    heads: int
    multiple_of: int = 256
    """The feed-forward width, two thirds of four times `width`, is rounded up to a multiple of this."""
    token_dropout: float = 0.1
    residual_dropout: float = 0.1
    """Of what attention and feed-forward add."""
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        if min(self.width, self.depth, self.heads, self.multiple_of) < 1:
            raise ValueError(f"a transformer's width, depth, heads and multiple_of must be at least 1: {self}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if not all(0 <= p < 1 for p in (self.token_dropout, self.residual_dropout, self.attention_dropout)):
            raise ValueError(f"dropout must lie in 0..1, below 1: {self}")

    @property
    def hidden(self) -> int:
        """Width inside the feed-forward."""
        return -(-(8 * self.width // 3) // self.multiple_of) * self.multiple_of


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig(Strict):
    """What `config.yaml` of a generator's checkpoint holds.

    Everything that can stand in a sequence has a number: codes 0..V−1, `end` of a block, then either the separator
    after context tokens or the classes, the last of which is "no class".
    """

    name: str
    transformer: LlamaConfig
    blocks: int
    """K: blocks of a clip, and of the sequences it was trained on."""
    tokens_per_block: int
    """M: tokens a block of the tokenizer has at most."""
    codebook_size: int
    """V."""
    classes: tuple[str, ...] = ()
    """Names of the classes it is conditioned on; none where it continues given frames."""
    context_blocks: int = 0
    """Blocks of given frames it is conditioned on, all tokens of each; 0 where it is conditioned on a class."""
    separator: bool = True
    """Whether a separator follows the context tokens."""
    slots: bool = False
    """Whether places are slots: token s of block b has a place of its own, and so has a block's end, however long the
    blocks before it are. Else ids are counted, as published."""
    min_tokens: int = 1
    max_tokens: int | None = None
    """Fewest and most tokens of any block in training; M where null."""
    mean_tokens: float | None = None
    """Average tokens of a block in training."""
    tokenizer: str = ""
    """Fingerprint of the tokenizer whose codes it speaks; empty where it is not known."""

    def __post_init__(self) -> None:
        if min(self.blocks, self.tokens_per_block) < 1 or self.codebook_size < 2:
            raise ValueError(f"blocks and tokens_per_block >= 1 and codebook_size >= 2 are needed: {self}")
        if bool(self.classes) == bool(self.context_blocks):
            raise ValueError("a generator is conditioned either on classes or on context_blocks, one of the two")
        if not 0 <= self.context_blocks <= self.blocks:
            raise ValueError(f"context_blocks must lie in 0..{self.blocks}, got {self.context_blocks}")
        if not 1 <= self.min_tokens <= self.longest <= self.tokens_per_block:
            raise ValueError(
                f"1 <= min_tokens <= max_tokens <= tokens_per_block is needed, got "
                f"{self.min_tokens}, {self.longest}, {self.tokens_per_block}"
            )

    @property
    def longest(self) -> int:
        """Most tokens of any block in training."""
        return self.tokens_per_block if self.max_tokens is None else self.max_tokens

    @property
    def end(self) -> int:
        """The id that closes a block."""
        return self.codebook_size

    @property
    def outputs(self) -> int:
        """Ids that can be predicted: codes and the end of a block."""
        return self.codebook_size + 1

    @property
    def ids(self) -> int:
        """All ids: what can be predicted, and what only conditions."""
        return self.outputs + (len(self.classes) + 1 if self.classes else 1)

    @property
    def separator_id(self) -> int:
        """The id between context tokens and the sequence."""
        return self.outputs

    @property
    def no_class(self) -> int:
        """The class number that stands for any class."""
        return len(self.classes)

    @property
    def condition_rows(self) -> int:
        """Ids in front of the sequence."""
        return 1 if self.classes else self.context_blocks * self.tokens_per_block + self.separator

    @property
    def positions(self) -> int:
        """Places in the longest input; the last end of a block is predicted but never read."""
        return self.place(self.blocks, -1)

    def place(self, block: int, slot: int) -> int:
        """Where a token stands if all blocks before it are whole; a block's end stands at slot M."""
        return self.condition_rows + block * (self.tokens_per_block + 1) + slot


_GENERATOR = TypeAdapter(GeneratorConfig)


def generator_config(raw: object, source: str) -> GeneratorConfig:
    """Check plain nested data; `source` names it in errors."""
    return checked(GeneratorConfig, raw, source)


def generator_config_from_yaml(text: str, source: str) -> GeneratorConfig:
    """Parse and check; `source` names the text in errors."""
    return generator_config(parsed(text, source), source)


def generator_config_to_yaml(config: GeneratorConfig) -> str:
    """The text that `generator_config_from_yaml` reads back to the same value."""
    return yaml.safe_dump(_GENERATOR.dump_python(config, mode="json"), sort_keys=False, allow_unicode=True)


def generator_presets() -> tuple[str, ...]:
    """Names that `generator_preset` knows."""
    folder = resources.files("adaptok") / "presets" / "generators"
    return tuple(sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".yaml")))


def generator_preset(name: str, classes: int = 101) -> GeneratorConfig:
    """A published size, for the tokens of the tokenizer named in the preset and so many classes (UCF-101's)."""
    if name not in generator_presets():
        raise ValueError(f"no generator preset {name!r}; there are {', '.join(generator_presets())}")
    path = resources.files("adaptok") / "presets" / "generators" / f"{name}.yaml"
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    raw["classes"] = [str(number) for number in range(classes)]
    return generator_config(raw, f"generator preset {name!r}")
