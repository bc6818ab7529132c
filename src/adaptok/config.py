"""What a model is, as frozen dataclasses, and strict YAML in and out: an unknown key or a wrong type is an error.

In: a YAML file, a preset's name or Python. Out: a `ModelConfig` whose numbers are known to fit together.
"""

from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError


def _divides(small_name: str, small: int, big_name: str, big: int) -> None:
    if big % small:
        raise ValueError(f"{big_name} {big} is not a multiple of {small_name} {small}")


class Strict:
    """Base of all configurations: keys that no field has are refused."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True)
class Geometry(Strict):
    """A clip of T frames, cut into K blocks, each into P patches and M latent tokens."""

    frames: int = 16
    height: int = 128
    width: int = 128
    patch_frames: int = 4
    patch_size: int = 8
    blocks: int = 4
    tokens_per_block: int = 512

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ValueError(f"geometry: {name} must be at least 1, got {value}")
        _divides("blocks", self.blocks, "frames", self.frames)
        _divides("patch_frames", self.patch_frames, "frames per block", self.block_frames)
        _divides("patch_size", self.patch_size, "height", self.height)
        _divides("patch_size", self.patch_size, "width", self.width)

    @property
    def block_frames(self) -> int:
        """Frames of one block."""
        return self.frames // self.blocks

    @property
    def grid(self) -> tuple[int, int, int]:
        """Patches of one block along time, height and width."""
        return (
            self.block_frames // self.patch_frames,
            self.height // self.patch_size,
            self.width // self.patch_size,
        )

    @property
    def patches_per_block(self) -> int:
        """P."""
        t, h, w = self.grid
        return t * h * w

    @property
    def patch_values(self) -> int:
        """Numbers in one patch, three channels included."""
        return 3 * self.patch_frames * self.patch_size**2

    @property
    def tokens(self) -> int:
        """Latent tokens of a whole clip, K·M."""
        return self.blocks * self.tokens_per_block


@dataclass(frozen=True, kw_only=True)
class StackConfig(Strict):
    """A transformer's size."""

    width: int
    depth: int
    heads: int
    mlp_ratio: int = 4
    qkv_bias: bool = False

    def __post_init__(self) -> None:
        if min(self.width, self.depth, self.heads, self.mlp_ratio) < 1:
            raise ValueError(f"a transformer's width, depth, heads and mlp_ratio must be at least 1: {self}")
        _divides("heads", self.heads, "width", self.width)


@dataclass(frozen=True, kw_only=True)
class QuantizerConfig(Strict):
    """Stochastic vector quantization of unit vectors."""

    codebook_size: int = 8192
    code_width: int = 16
    temperature: float = 0.03
    """Softness of the sampled choice in training; at inference the nearest code is taken."""
    commitment: float = 0.25
    turned: bool = False
    """Every block of a clip but the first turns its vectors before the codebook and back after it, by its own angles:
    what stands still then falls into other cells each time, and the decoder learns more of it with every block."""

    def __post_init__(self) -> None:
        if self.codebook_size < 2 or self.code_width < 1 or self.temperature <= 0:
            raise ValueError(f"codebook_size >= 2, code_width >= 1 and temperature > 0 are needed: {self}")


@dataclass(frozen=True, kw_only=True)
class PriorConfig(Strict):
    """The training-time network whose loss makes the codes predictable."""

    width: int = 384
    depth: int = 12
    heads: int = 6
    temperature: float = 1.0
    rounds: int = 2
    """The second and later rounds read their own sampled predictions mixed in."""

    @property
    def stack(self) -> StackConfig:
        """The transformer inside."""
        return StackConfig(width=self.width, depth=self.depth, heads=self.heads, qkv_bias=True)


@dataclass(frozen=True, kw_only=True)
class LengthConfig(Strict):
    """How many tokens of each block survive in training."""

    law: Literal["full", "uniform", "gaussian"] = "gaussian"
    min: int = 32
    max: int = 512
    mean: float = 256.0
    std: float = 128.0
    shared: bool = False
    """One draw for all samples of a batch: no padding, at the price of less variety per step."""

    def __post_init__(self) -> None:
        if not 0 <= self.min <= self.max:
            raise ValueError(f"lengths: 0 <= min <= max is needed, got min {self.min}, max {self.max}")
        if self.law == "gaussian" and self.std <= 0:
            raise ValueError(f"lengths: std must be positive, got {self.std}")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Strict):
    """Encoder, quantizer, decoder, and the prior that helps to train them."""

    geometry: Geometry
    encoder: StackConfig
    decoder: StackConfig
    quantizer: QuantizerConfig
    lengths: LengthConfig
    prior: PriorConfig | None = None
    relative_latents: bool = False
    """A latent is what the encoder added to its query: the query's fixed direction then cannot dominate the code."""
    learned_slots: bool = False
    """The decoder's slot positions are trained (and stored) instead of fixed sines along the token sequence."""

    def __post_init__(self) -> None:
        for name, width in (("encoder", self.encoder.width), ("decoder", self.decoder.width)):
            _divides("4 (sine-cosine positions)", 4, f"{name} width", width)
        m = self.geometry.tokens_per_block
        if self.lengths.law != "full" and self.lengths.max > m:
            raise ValueError(f"lengths: max {self.lengths.max} is more than tokens_per_block {m}")


@dataclass(frozen=True, kw_only=True)
class ScorerConfig(Strict):
    """Predicts a block's loss at every multiple of `step` tokens."""

    width: int
    depth: int
    heads: int
    step: int = 32
    metric: Literal["perceptual", "mse", "psnr", "ssim"] = "perceptual"
    """What it was taught to predict; the published one predicts perceptual losses, in units of its own."""
    smooth: int | None = None
    """Degree of the polynomial in the logarithm of the length that the scores of a block are fitted by; none if None.
    An allocator picks the bends of a curve, and small errors make bends of their own."""

    @property
    def stack(self) -> StackConfig:
        """The transformer inside."""
        return StackConfig(width=self.width, depth=self.depth, heads=self.heads)


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Strict):
    """A tokenizer and, if it has one, its scorer: what `config.yaml` of a checkpoint holds."""

    name: str
    tokenizer: TokenizerConfig
    scorer: ScorerConfig | None = None

    def __post_init__(self) -> None:
        if self.scorer is not None:
            m = self.tokenizer.geometry.tokens_per_block
            _divides("scorer step", self.scorer.step, "tokens_per_block", m)
            smooth, most = self.scorer.smooth, m // self.scorer.step - 1
            if smooth is not None and not 0 <= smooth <= most:
                raise ValueError(f"scorer smooth must lie in 0..{most}, below the number of scores, got {smooth}")


_MODEL = TypeAdapter(ModelConfig)
T = TypeVar("T")


def parsed(text: str, source: str) -> Any:
    """What a YAML text says; `source` names it in errors, which are one line."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{source} is not valid YAML: {' '.join(str(error).split())}") from None


def checked(kind: type[T], raw: object, source: str) -> T:
    """Plain nested data as a configuration; an error names `source` and every field that is wrong."""
    try:
        return TypeAdapter(kind).validate_python(raw)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'top level'}: {item['msg']}" for item in error.errors()
        )
        raise ValueError(f"{source}: {wrong}") from None


def model_config(raw: object, source: str) -> ModelConfig:
    """Check plain nested data; `source` names it in errors."""
    return checked(ModelConfig, raw, source)


def model_config_from_yaml(text: str, source: str) -> ModelConfig:
    """Parse and check; `source` names the text in errors."""
    return model_config(parsed(text, source), source)


def model_config_to_yaml(config: ModelConfig, defaults: bool = True) -> str:
    """The text that `model_config_from_yaml` reads back to the same value; without what is as by default on request."""
    return yaml.safe_dump(_MODEL.dump_python(config, exclude_defaults=not defaults), sort_keys=False)


def presets() -> tuple[str, ...]:
    """Names that `preset` knows."""
    folder = resources.files("adaptok") / "presets"
    return tuple(sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".yaml")))


def preset(name: str) -> ModelConfig:
    """One of the configurations that ship with the package."""
    if name not in presets():
        raise ValueError(f"no preset {name!r}; there are {', '.join(presets())}")
    text = (resources.files("adaptok") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
    return model_config_from_yaml(text, f"preset {name!r}")
