"""Checkpoints that others published, read into our models."""

from adaptok.interop.official import load_official
from adaptok.interop.official_generator import load_official_generator

__all__ = ["load_official", "load_official_generator"]
