"""Video over adaptive tokens, block by block: start at `config.py`, then `sequence.py`, `generator.py`, `sampling.py`.

`sampling.py` stands on `settings.py`, `choice.py` and `cache.py`, and beside its slow oracle, `slow.py`; `generate.py`
and `predict.py` make pictures of tokens, `produce.py` makes files.
"""

from adaptok.generation.bundle import GeneratorBundle, build_generator, embedded_generators, open_generator
from adaptok.generation.config import GeneratorConfig, LlamaConfig, generator_preset, generator_presets
from adaptok.generation.generate import Director, Shown, Take
from adaptok.generation.generator import Generator
from adaptok.generation.predict import Prediction, predict
from adaptok.generation.sampling import GeneratedBlock, sample_blocks
from adaptok.generation.sequence import Prompt
from adaptok.generation.settings import Sampling

__all__ = [
    "Director",
    "GeneratedBlock",
    "Generator",
    "GeneratorBundle",
    "GeneratorConfig",
    "LlamaConfig",
    "Prediction",
    "Prompt",
    "Sampling",
    "Shown",
    "Take",
    "build_generator",
    "embedded_generators",
    "generator_preset",
    "generator_presets",
    "open_generator",
    "predict",
    "sample_blocks",
]
