"""AdapTok: an adaptive, temporally causal video tokenizer in a 1D latent space."""

from adaptok._version import __version__
from adaptok.allocation import Budget
from adaptok.bundle import Bundle, build, open_bundle
from adaptok.config import ModelConfig, preset, presets
from adaptok.demo import sample_clip
from adaptok.load import UntrainedWarning, load
from adaptok.stream.codec import Codec, Tokens
from adaptok.stream.compare import psnr
from adaptok.stream.session import DecoderSession, EncoderSession
from adaptok.stream.spending import Spending

__all__ = [
    "Budget",
    "Bundle",
    "Codec",
    "DecoderSession",
    "EncoderSession",
    "ModelConfig",
    "Spending",
    "Tokens",
    "UntrainedWarning",
    "__version__",
    "build",
    "load",
    "open_bundle",
    "preset",
    "presets",
    "psnr",
    "sample_clip",
]
