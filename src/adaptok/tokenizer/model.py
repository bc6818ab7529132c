"""The tokenizer: wiring only.

In: video (B,3,T,H,W) in [0,1]. Out: codes (B,K,M), and video again from any prefix of each block's codes.
`encode` and `decode` take whole clips; `encode_blocks` and `decode_blocks` take the next few blocks of a clip and
the memory of those before, and give exactly the same numbers.
"""

from dataclasses import dataclass
from typing import no_type_check

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from adaptok.blocks.memory import Memory
from adaptok.config import TokenizerConfig
from adaptok.shapes import CodeBlocks, Kept, LatentBlocks, Video
from adaptok.tokenizer.checks import check_codes, check_kept, check_room, check_video
from adaptok.tokenizer.decoder import Decoder
from adaptok.tokenizer.encoder import Encoder
from adaptok.tokenizer.prior import Prior, prior_loss
from adaptok.tokenizer.quantizer import Quantized, Quantizer
from adaptok.tokenizer.tail_drop import sample_kept


@dataclass(frozen=True)
class Encoding:
    """What the encoder knows of some blocks."""

    latents: LatentBlocks
    """Continuous, as the encoder made them."""
    codes: CodeBlocks
    """One integer per latent, nearest in the codebook."""
    embedded: Float[Tensor, "B K M Dd"]
    """The codes as the decoder and the scorer read them."""

    def blocks(self, start: int, stop: int) -> "Encoding":
        """Some consecutive blocks."""
        part = slice(start, stop)
        return Encoding(self.latents[:, part], self.codes[:, part], self.embedded[:, part])


@dataclass(frozen=True)
class Reconstruction:
    """One training pass."""

    video: Video
    kept: Kept
    quantized: Quantized
    prior_loss: Float[Tensor, ""] | None


class Tokenizer(nn.Module):
    """Encoder, quantizer, decoder and prior."""

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config.geometry, config.encoder, config.relative_latents)
        self.quantizer = Quantizer(config.quantizer, config.geometry.blocks, config.encoder.width, config.decoder.width)
        self.decoder = Decoder(config.geometry, config.decoder, config.learned_slots)
        self.prior = None
        if config.prior is not None:
            self.prior = Prior(config.prior, config.geometry.tokens, config.quantizer.code_width)

    @no_type_check
    def encode(self, video: Video) -> Encoding:
        """Encode whole clips."""
        check_video(video, self.config.geometry, blocks=self.config.geometry.blocks)
        return self._encode(video, None)[0]

    @no_type_check
    def encode_blocks(self, video: Video, memory: Memory | None) -> tuple[Encoding, Memory]:
        """Encode the next blocks of a clip after those in `memory`."""
        g = self.config.geometry
        check_video(video, g)
        check_room(0 if memory is None else memory.blocks, video.shape[2] // g.block_frames, g)
        return self._encode(video, memory)

    def _encode(self, video: Video, memory: Memory | None) -> tuple[Encoding, Memory]:
        first = 0 if memory is None else memory.blocks
        latents, memory = self.encoder(video.to(self.quantizer.codebook.dtype), memory)
        codes = self.quantizer.nearest(latents, first)
        return Encoding(latents, codes, self.embedded(codes, first)), memory

    @no_type_check
    def embedded(self, codes: CodeBlocks, first: int = 0) -> Float[Tensor, "B K M Dd"]:
        """Codes of consecutive blocks as the decoder and the scorer read them."""
        return self.quantizer.embed(self.quantizer.lookup(codes.long()), first)

    @no_type_check
    def decode(self, codes: CodeBlocks, kept: Kept | None = None) -> Video:
        """Decode whole clips from the first `kept` tokens of each block (from all where None); not clamped."""
        g = self.config.geometry
        check_codes(codes, g, self.config.quantizer.codebook_size, blocks=g.blocks)
        return self._decode(codes, self._lengths(codes, kept), None)[0]

    @no_type_check
    def decode_blocks(self, codes: CodeBlocks, kept: Kept | None, memory: Memory | None) -> tuple[Video, Memory]:
        """Decode the next blocks of a clip after those in `memory`."""
        g = self.config.geometry
        check_codes(codes, g, self.config.quantizer.codebook_size)
        check_room(0 if memory is None else memory.blocks, codes.shape[1], g)
        return self._decode(codes, self._lengths(codes, kept), memory)

    def _decode(self, codes: CodeBlocks, kept: Kept, memory: Memory | None) -> tuple[Video, Memory]:
        first = 0 if memory is None else memory.blocks
        return self.decoder(self.embedded(codes, first), kept, memory)

    @no_type_check
    def _lengths(self, codes: CodeBlocks, kept: Kept | None) -> Kept:
        batch, blocks, m = codes.shape
        if kept is None:
            return torch.full((batch, blocks), m, device=codes.device)
        check_kept(kept, batch, blocks, self.config.geometry)
        return kept.to(codes.device)

    @no_type_check
    def prior_logits(self, codes: CodeBlocks) -> Float[Tensor, "B N V"]:
        """Teacher-forced prediction of tokens 1, 2, ... of whole clips, all tokens kept."""
        g = self.config.geometry
        check_codes(codes, g, self.config.quantizer.codebook_size, blocks=g.blocks)
        if self.prior is None:
            raise ValueError("this tokenizer has no prior: its configuration says prior: null")
        flat = codes.flatten(1)[:, :-1]
        slots = torch.arange(flat.shape[1], device=flat.device).expand_as(flat)
        return self.prior.logits(self.quantizer.lookup(flat), slots, self.quantizer.entries())

    def forward(
        self,
        video: Video,
        generator: Generator,
        kept: Kept | None = None,
        mix: float = 0.0,
        strength: Float[Tensor, " B"] | None = None,
    ) -> Reconstruction:
        """One training pass: encode, drop tails, sample codes, decode, and ask the prior.

        The video may have fewer than K blocks. `kept` overrides the configured law of lengths; `mix` is the share of
        sampled tokens in the prior's later rounds; `strength` is how far each sample is quantized (fully where None).
        Input is trusted here, as it comes from the data pipeline.
        """
        g = self.config.geometry
        latents, _ = self.encoder(video)
        if kept is None:
            kept = sample_kept(self.config.lengths, len(video), latents.shape[1], g.tokens_per_block, generator)
            kept = kept.to(video.device)
        present = torch.arange(g.tokens_per_block, device=kept.device) < kept[..., None]
        pull = None if strength is None else strength[:, None, None].expand(latents.shape[:-1])
        quantized = self.quantizer(latents, present, generator, pull)
        decoded, _ = self.decoder(self.quantizer.embed(quantized.vectors), kept)
        loss = None
        if self.prior is not None:
            loss = prior_loss(
                self.prior,
                quantized.vectors.flatten(1, 2),
                quantized.codes.flatten(1),
                present.flatten(1),
                self.quantizer.entries(),
                mix,
                generator,
            )
        return Reconstruction(decoded, kept, quantized, loss)
