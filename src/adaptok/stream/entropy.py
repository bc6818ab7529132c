"""Lossless entropy coding of codes under the trained prior: fewer bytes for the same tokens. Off by default.

In: token blocks of a stream in order. Out: coded blocks whose payload is a range coder's bytes, and exactly the same
codes back. The prior predicts each token from those before it in the clip; what it expected costs few bits.

Both directions step through the prior one token at a time, because the coder needs the very same floating-point numbers
on both sides and only the same computation gives them. Another machine or PyTorch build may round otherwise: two bytes
of check per block find that out, and the block is refused instead of misread.
"""

import zlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from adaptok.blocks.memory import Memory
from adaptok.stream.block import CodedBlock, TokenBlock
from adaptok.stream.errors import StreamError
from adaptok.tokenizer.model import Tokenizer
from adaptok.tokenizer.prior import Prior

_CHECK_BYTES = 2
_TEMPERATURE_FLOOR = 1e-9
"""No code gets probability zero: the coder must be able to write what was least expected."""


@dataclass(frozen=True)
class _Context:
    """What the prior has read of the clip so far."""

    memory: Memory | None = None
    expected: Float[np.ndarray, " V"] | None = None


class EntropyCoder:
    """Codes or decodes the blocks of one stream, in order, from the start of any clip on."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.prior is None:
            raise ValueError("entropy coding needs the model's prior, and this model has none")
        try:
            import constriction
        except ImportError:
            raise ValueError("entropy coding needs the range coder: pip install 'adaptok[entropy]'") from None
        self._coder = constriction.stream
        self._tokenizer = tokenizer
        self._prior: Prior = tokenizer.prior
        self._entries = tokenizer.quantizer.entries().detach()
        self._context = _Context()
        self._next: int | None = None

    @torch.inference_mode()
    def encode(self, block: TokenBlock) -> CodedBlock:
        """The block with its codes as a range coder's bytes."""
        first = self._begin(block.index)
        coder = self._coder.queue.RangeEncoder()
        for place, code in enumerate(block.codes.tolist()):
            coder.encode(code, self._expectation())
            self._read(code, first + place)
        payload = coder.get_compressed().astype("<u4").tobytes() + _check(block.codes)
        return CodedBlock(
            index=block.index,
            frames=block.frames,
            timestamps=block.timestamps,
            scores=block.scores,
            kept=block.kept,
            payload=payload,
        )

    @torch.inference_mode()
    def decode(self, block: CodedBlock) -> TokenBlock:
        """The block as it was before `encode`.

        Raises:
            StreamError: the bytes do not decode to what was coded; the prior computes differently here.
        """
        first = self._begin(block.index)
        words, check = block.payload[:-_CHECK_BYTES], block.payload[-_CHECK_BYTES:]
        if len(words) % 4:
            raise StreamError(f"block {block.index}: a payload of {len(words)} bytes is no range coder's")
        coder = self._coder.queue.RangeDecoder(np.frombuffer(words, "<u4").astype(np.uint32))
        codes = np.empty(block.kept, np.int64)
        for place in range(block.kept):
            codes[place] = coder.decode(self._expectation())
            self._read(int(codes[place]), first + place)
        if _check(codes) != check:
            raise StreamError(
                f"block {block.index} does not decode to what was coded: the prior must run as it did when coding "
                "(same model, device, PyTorch build and number of threads)"
            )
        return TokenBlock(
            index=block.index,
            frames=block.frames,
            timestamps=block.timestamps,
            scores=block.scores,
            codes=codes,
        )

    def _begin(self, index: int) -> int:
        """The slot of the block's first token; a clip starts with nothing known."""
        g = self._tokenizer.config.geometry
        k = index % g.blocks
        if k and index != self._next:
            raise StreamError(
                f"entropy coding goes block by block from the start of a clip; block {index} is out of turn"
            )
        if k == 0:
            self._context = _Context()
        self._next = index + 1
        return k * g.tokens_per_block

    def _expectation(self) -> object:
        size = len(self._entries)
        expected = self._context.expected
        if expected is None:
            return self._coder.model.Uniform(size)
        return self._coder.model.Categorical(expected, perfect=False)

    def _read(self, code: int, slot: int) -> None:
        """Let the prior see one more token."""
        vector = self._entries[code][None, None]
        place = torch.tensor([[slot]], device=vector.device)
        predicted, memory = self._prior.step(vector, place, self._context.memory)
        logits = (predicted[0, 0] @ self._entries.T / self._prior.config.temperature).double()
        weights = logits.softmax(-1).cpu().numpy() + _TEMPERATURE_FLOOR
        self._context = replace(self._context, memory=memory, expected=weights / weights.sum())


def _check(codes: np.ndarray) -> bytes:
    return (zlib.crc32(codes.astype("<i8").tobytes()) & 0xFFFF).to_bytes(_CHECK_BYTES, "little")
