"""Video to codes and back (start at patches.py; model.py wires the parts)."""

from adaptok.tokenizer.model import Encoding, Reconstruction, Tokenizer

__all__ = ["Encoding", "Reconstruction", "Tokenizer"]
