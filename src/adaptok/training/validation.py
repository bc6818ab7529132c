"""How good a tokenizer is on clips it never saw: a table over budgets and a picture.

In: a tokenizer and fixed clips. Out: PSNR and LPIPS at 1/8, 1/4, 1/2 and all of the tokens, the share of the codebook
in use, and a PNG with a row per clip: the original, then each budget.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from adaptok.metrics import LPIPS, psnr
from adaptok.shapes import CodeBlocks, Video
from adaptok.tokenizer.model import Tokenizer
from adaptok.tokenizer.quantizer import codebook_use
from adaptok.training.loop import Validation

SHARES = (8, 4, 2, 1)
"""One n-th of the tokens each."""
ROWS = 8
"""Clips in the picture."""


@torch.no_grad()
def validate_tokenizer(
    tokenizer: Tokenizer,
    video: Video,
    lpips: LPIPS | None,
    quantized: bool,
    gather: Callable[[Tensor], Tensor] = lambda rows: rows,
    batch: int = 16,
) -> Validation:
    """Measure whole videos of any number of blocks; without `quantized` the codebook is passed by.

    Where processes share the clips, `gather` makes the rows of all out of this one's; the picture shows its own.
    """
    measured = [_measure(tokenizer, part, lpips, quantized) for part in video.split(batch)]
    means = gather(torch.cat([m.table for m in measured])).mean(dim=0)
    codes = gather(torch.cat([m.codes for m in measured]))
    values = {f"psnr_1_{share}": means[0, i].item() for i, share in enumerate(SHARES)}
    if lpips is not None:
        values |= {f"lpips_1_{share}": means[1, i].item() for i, share in enumerate(SHARES)}
    everything = torch.ones_like(codes, dtype=torch.bool)
    usage, perplexity = codebook_use(codes, everything, tokenizer.config.quantizer.codebook_size)
    values |= {"codebook_usage": usage.item(), "codebook_perplexity": perplexity.item(), "quantized": float(quantized)}
    # Over the range that matters a tenth of LPIPS weighs about as much as a decibel.
    quality = means[0].mean().item() - 10 * means[1].mean().item()
    return Validation(values, quality, picture=picture([video[:batch], *measured[0].decoded]))


@dataclass(frozen=True)
class _Measured:
    """PSNR and LPIPS of some clips at each budget, their codes, and what was decoded."""

    table: Float[Tensor, "B 2 S"]
    codes: CodeBlocks
    decoded: list[Video]


def _measure(tokenizer: Tokenizer, video: Video, lpips: LPIPS | None, quantized: bool) -> _Measured:
    g, quantizer = tokenizer.config.geometry, tokenizer.quantizer
    encoding, _ = tokenizer.encode_blocks(video, None)
    embedded = encoding.embedded if quantized else quantizer.embed(quantizer.direction(encoding.latents))
    columns, decoded = [], []
    for share in SHARES:
        kept = torch.full(encoding.codes.shape[:2], max(1, g.tokens_per_block // share), device=video.device)
        seen = tokenizer.decoder(embedded, kept)[0].clamp(0, 1)
        distance = torch.zeros(len(video), 1, device=video.device) if lpips is None else lpips.video(seen, video)
        columns.append(torch.cat([psnr(seen, video), distance], dim=1))
        decoded.append(seen)
    return _Measured(torch.stack(columns, dim=2), encoding.codes, decoded)


def picture(videos: Sequence[Video]) -> bytes:
    """The first and last frame of a few clips, side by side in all versions, as a PNG."""
    columns = [torch.cat([v[:ROWS, :, 0], v[:ROWS, :, -1]], dim=3) for v in videos]
    rows = torch.cat(columns, dim=3)
    image = torch.cat(list(rows), dim=1).clamp(0, 1).mul(255).round().to(torch.uint8)
    return png(image.permute(1, 2, 0).cpu())


def png(image: UInt8[Tensor, "H W 3"]) -> bytes:
    """An image as a PNG file, exactly."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.contiguous().numpy().tobytes() for row in image)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
