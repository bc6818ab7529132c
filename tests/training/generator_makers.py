"""A small token corpus and a small generator recipe that tests share; pyarrow is needed."""

from pathlib import Path

import torch

from adaptok.stream.codec import Codec
from adaptok.training import GeneratorTraining, TokenizeConfig, load_recipe, tokenize
from tiny_models import tiny_bundle

RECIPE = """
name: test
transformer: {width: 16, depth: 2, heads: 2, multiple_of: 8}
data: {corpus: CORPUS}
batch: 4
optimizer: {kind: adam, rate: 1.0e-2, betas: [0.9, 0.95], weight_decay: 0.05, decay: linear, warmup: 2}
run: {steps: 8, ema: 0.5, save_every: 2, validate_every: 4, log_every: 1}
"""


def make_tokens(folder: Path, videos: Path, context: int = 3) -> tuple[Path, Path]:
    """A tokenizer's folder and the corpus it made of some videos."""
    model, tokens = folder / "tokenizer", folder / "tokens"
    tiny_bundle(dtype=torch.float32).save(model)
    tokenize(codec_of(model), videos, tokens, TokenizeConfig(context=context, videos_per_part=2, mirror=True))
    return model, tokens


def codec_of(model: Path) -> Codec:
    from adaptok.load import load

    return load(model)


def generator_settings(folder: Path, tokens: Path, overrides: tuple[str, ...] = ()) -> GeneratorTraining:
    """Checked settings of the small recipe."""
    (folder / "generator.yaml").write_text(RECIPE.replace("CORPUS", str(tokens)))
    return load_recipe(GeneratorTraining, folder / "generator.yaml", overrides)
