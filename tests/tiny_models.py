"""Small random models that the tests share."""

import torch

from adaptok.bundle import Bundle, build
from adaptok.config import (
    Geometry,
    LengthConfig,
    ModelConfig,
    PriorConfig,
    QuantizerConfig,
    ScorerConfig,
    StackConfig,
    TokenizerConfig,
)

GEOMETRY = Geometry(frames=6, height=8, width=12, patch_frames=1, patch_size=4, blocks=3, tokens_per_block=6)


def tiny_config(
    geometry: Geometry = GEOMETRY,
    depth: int = 2,
    lengths: LengthConfig | None = None,
    step: int | None = None,
) -> ModelConfig:
    """Non-square frames, two time steps per block, widths that differ between the networks."""
    m = geometry.tokens_per_block
    lengths = lengths or LengthConfig(law="uniform", min=min(1, m), max=m)
    return ModelConfig(
        name="test",
        tokenizer=TokenizerConfig(
            geometry=geometry,
            encoder=StackConfig(width=16, depth=depth, heads=2),
            decoder=StackConfig(width=24, depth=depth, heads=3),
            quantizer=QuantizerConfig(codebook_size=32, code_width=6, turned=True),
            lengths=lengths,
            prior=PriorConfig(width=12, depth=2, heads=2),
        ),
        scorer=ScorerConfig(width=20, depth=depth, heads=2, step=step or (2 if m % 2 == 0 else 1)),
    )


def tiny_bundle(config: ModelConfig | None = None, seed: int = 0, dtype: torch.dtype = torch.float64) -> Bundle:
    """Weights large enough that every part matters to the output."""
    torch.manual_seed(seed)
    bundle = build(config or tiny_config())
    for name, parameter in bundle.modules.named_parameters():
        if "norm" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
    bundle.modules.to(dtype)
    return bundle


def random_video(geometry: Geometry, batch: int = 2, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, 3, geometry.frames, geometry.height, geometry.width)
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def random_kept(geometry: Geometry, batch: int = 2, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, geometry.tokens_per_block + 1, (batch, geometry.blocks), generator=generator)


def random_codes(config: ModelConfig, batch: int = 2, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    g = config.tokenizer.geometry
    shape = (batch, g.blocks, g.tokens_per_block)
    return torch.randint(0, config.tokenizer.quantizer.codebook_size, shape, generator=generator)
