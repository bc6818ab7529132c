"""First weights that already route: each latent looks at one patch, each decoder patch at the latent of its place.

In: a fresh tokenizer and some clips. Out: the same tokenizer, its weights set so that it begins as a rough linear code
of its patches. From a random start a tokenizer of this kind sits at the mean colour for hundreds of steps, because no
latent knows yet where to look and no patch which latent to ask.

Four things are set, all by plain values that training is free to change:

- latent queries and decoder slots start from the positions of patches, in coarse-to-fine order unless told otherwise,
  so that every prefix of a block's tokens covers the frame; patches and latents carry a type component of opposite
  sign;
- in the first layer of both stacks, queries and keys compare places, and prefer the other type;
- values carry content only (what is neither position nor type), and the patch embedding, the code projection and its
  inverse keep the principal components of patches;
- the output layer is fitted to the clips by least squares.

Next on the walk: objective.py.
"""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from adaptok.blocks.transformer import Layer, Stack
from adaptok.config import Geometry
from adaptok.shapes import Video
from adaptok.tokenizer.model import Tokenizer
from adaptok.training.settings import StartConfig


def coarse_to_fine(geometry: Geometry) -> Int[Tensor, " P"]:
    """Patches of a block in an order whose every prefix is spread evenly: bit-reversed, rows and columns in turn."""
    steps, rows, columns = geometry.grid
    bits = max(max(geometry.grid) - 1, 1).bit_length()

    def rank(step: int, row: int, column: int) -> int:
        # The lowest bit of the reversed number is the highest of the coordinate: halves first, then quarters.
        digits = [(axis >> (bits - 1 - level)) & 1 for level in range(bits) for axis in (row, column, step)]
        return sum(digit << place for place, digit in enumerate(digits))

    places = [(t, r, c) for t in range(steps) for r in range(rows) for c in range(columns)]
    # Axes shorter than a power of two are stretched to it, so that their halves are halves of the frame.
    stretched = [
        rank(*((at << bits) // size for at, size in zip(place, geometry.grid, strict=True))) for place in places
    ]
    return torch.tensor(stretched).argsort(stable=True)


def slot_patches(geometry: Geometry, order: str) -> Int[Tensor, " N"]:
    """For each of the clip's K·M slots the patch it starts at.

    `coarse`: slots beyond P go round again, and every block begins an n-th of the way further, so that where little
    changes the first tokens of successive blocks cover different places instead of the same ones again. `raster`: the
    M slots of each block are spread over its patches row after row.
    """
    m, p = geometry.tokens_per_block, geometry.patches_per_block
    if order == "raster":
        return torch.cat([torch.arange(m) * p // m + k * p for k in range(geometry.blocks)])
    patches = coarse_to_fine(geometry)
    starts = [k * p // geometry.blocks for k in range(geometry.blocks)]
    return torch.cat([patches[(torch.arange(m) + start) % p] + k * p for k, start in enumerate(starts)])


@torch.no_grad()
def align(tokenizer: Tokenizer, clips: Video, config: StartConfig, generator: Generator) -> None:
    """Set the first weights of `tokenizer`; see the module's text."""
    g = tokenizer.config.geometry
    encoder, decoder, quantizer = tokenizer.encoder, tokenizer.decoder, tokenizer.quantizer
    if not isinstance(decoder.slot_positions, torch.nn.Parameter):
        raise ValueError("an aligned start needs learned_slots: true in the tokenizer's configuration")
    mean, components = principal_components(clips, g)
    slots = slot_patches(g, config.order)
    inside = _Directions(encoder.patch_positions, generator)
    outside = _Directions(decoder.patch_positions, generator)

    width = min(inside.content.shape[1], len(components))
    embedding = config.patch_gain * inside.content[:, :width] @ components[:width]
    encoder.patches.proj.weight.copy_(embedding.view_as(encoder.patches.proj.weight))
    assert encoder.patches.proj.bias is not None
    encoder.patches.proj.bias.copy_(config.type_size * inside.kind - embedding @ mean)
    encoder.queries.copy_(encoder.patch_positions[slots] - config.type_size * inside.kind)
    decoder.slot_positions.copy_(decoder.patch_positions[slots] - config.type_size * outside.kind)
    decoder.patch_type.copy_(config.type_size * outside.kind)
    for stack, directions in ((encoder.stack, inside), (decoder.stack, outside)):
        _route(stack, directions, config, generator)

    # One number of the code is a constant, against which the others keep their size when the code is scaled to one.
    kept = min(quantizer.config.code_width - 1, width)
    quantizer.project_in.weight.zero_()
    quantizer.project_in.weight[:kept] = config.code_gain * inside.content[:, :kept].T
    quantizer.project_in.bias.zero_()
    quantizer.project_in.bias[kept:] = config.code_gain * _spread(tokenizer, clips, inside.content[:, :kept])
    quantizer.project_out.weight.zero_()
    quantizer.project_out.weight[:, :kept] = config.embed_gain * outside.content[:, :kept]
    quantizer.project_out.bias.zero_()
    _fit_output(tokenizer, clips)


@torch.no_grad()
def spread_first_block(tokenizer: Tokenizer, trained: int, order: str) -> None:
    """Give blocks `trained`, ... the queries and slots of the block before, moved on in time.

    A stage of shorter clips trains the first blocks only; the others then start from what was learnt.
    """
    g = tokenizer.config.geometry
    m = g.tokens_per_block
    tables = [(tokenizer.encoder.queries, tokenizer.encoder.patch_positions)]
    if isinstance(tokenizer.decoder.slot_positions, torch.nn.Parameter):
        tables.append((tokenizer.decoder.slot_positions, tokenizer.decoder.patch_positions))
    for table, positions in tables:
        places = positions[slot_patches(g, order).to(positions.device)]
        for k in range(trained, g.blocks):
            here, before = slice(k * m, (k + 1) * m), slice((trained - 1) * m, trained * m)
            table[here] = table[before] + places[here] - places[before]


def patch_rows(clips: Video, geometry: Geometry) -> Float[Tensor, "N values"]:
    """Every patch as a row in the order of the embedding's kernel: channel, time, row, column."""
    t, p = geometry.patch_frames, geometry.patch_size
    x = clips.unflatten(4, (-1, p)).unflatten(3, (-1, p)).unflatten(2, (-1, t))
    # B C T' t H' p W' p  ->  B T' H' W' C t p p
    return x.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4).flatten(0, 3)


def principal_components(
    clips: Video, geometry: Geometry
) -> tuple[Float[Tensor, " values"], Float[Tensor, "C values"]]:
    """Mean patch, and orthonormal directions of largest variance, largest first."""
    rows = patch_rows(clips, geometry).double()
    mean = rows.mean(dim=0)
    _, vectors = torch.linalg.eigh((rows - mean).T @ (rows - mean))
    return mean.float(), vectors.T.flip(0).float()


class _Directions:
    """The model's width divided among place, type and content, all at right angles."""

    def __init__(self, positions: Float[Tensor, "N D"], generator: Generator) -> None:
        width = positions.shape[1]
        # Layer norm takes the mean away, so nothing may lie along it.
        centred = positions.double() - positions.double().mean(dim=1, keepdim=True)
        average = torch.nn.functional.normalize(centred.mean(dim=0), dim=0)
        # All places share their average: along it they cannot be told apart, whatever the scale.
        _, sizes, places = torch.linalg.svd(centred - centred @ average[:, None] * average, full_matrices=False)
        rank = int((sizes > 1e-2 * sizes[0]).sum())
        taken = torch.cat([torch.ones(1, width, dtype=torch.float64), average[None], places[:rank]])
        random = torch.randn(width, width, generator=generator, dtype=torch.float64)
        basis, _ = torch.linalg.qr(torch.cat([taken.T, random], dim=1)[:, :width])
        free = basis[:, len(taken) :]
        self.place = places[:rank].float()
        """(r,D) directions in which places differ ..."""
        self.place_sizes = (sizes[:rank] / len(positions) ** 0.5).float()
        """... and how much."""
        self.kind = free[:, 0].float()
        self.content = free[:, 1:].float()


def _route(stack: Stack, directions: _Directions, config: StartConfig, generator: Generator) -> None:
    """First layer: compare places, prefer the other type, copy content. Further layers: small."""
    for number, layer in enumerate(stack.layers):
        assert isinstance(layer, Layer)
        last = layer.mlp[2]
        assert isinstance(last, torch.nn.Linear)
        last.weight.mul_(config.branch_gain)
        if number:
            layer.attention.proj.weight.mul_(config.branch_gain)
        layer.attention.proj.bias.zero_()
    layer = stack.layers[0]
    assert isinstance(layer, Layer)
    width, heads = stack.config.width, stack.config.heads
    each = width // heads
    q, k, v = layer.attention.qkv.weight.view(3, heads, each, width)
    count = min(len(directions.place), each - 1)
    # Directions in which places differ little count more: a place then differs clearly from its neighbours.
    weights = config.sharpness * each**0.5 / (directions.place_sizes[:count].square() + 0.01)
    place = (weights / count).sqrt()[:, None] * directions.place[:count]
    kind = (config.sharpness * each**0.5) ** 0.5 / config.type_size * directions.kind
    for part, sign in ((q, 1.0), (k, -1.0)):
        part.mul_(0.1)
        part[:, :count] += place
        part[:, count] += sign * kind
    root = config.value_gain**0.5
    projection = directions.content @ directions.content.T
    v.view(width, width).mul_(0.1).add_(root * projection)
    noise = torch.randn(width, width, generator=generator) * (0.1 / width**0.5)
    layer.attention.proj.weight.copy_(root * torch.eye(width) + noise)


def _spread(tokenizer: Tokenizer, clips: Video, content: Float[Tensor, "D C"]) -> Float[Tensor, ""]:
    """Root mean square size of the content that reaches the latents."""
    latents, _ = tokenizer.encoder(clips)
    return (latents @ content).square().sum(dim=-1).mean().sqrt()


def _fit_output(tokenizer: Tokenizer, clips: Video) -> None:
    """Least squares from the decoder's normed rows to pixels, with a little damping."""
    decoder, quantizer, g = tokenizer.decoder, tokenizer.quantizer, tokenizer.config.geometry
    rows: list[Tensor] = []
    hook = decoder.output.norm.register_forward_hook(lambda _, __, out: rows.append(out.flatten(0, 1)))
    latents, _ = tokenizer.encoder(clips)
    kept = torch.full(latents.shape[:2], g.tokens_per_block)
    decoder(quantizer.embed(quantizer.direction(latents)), kept)
    hook.remove()
    x = torch.cat([rows[0], torch.ones(len(rows[0]), 1)], dim=1).double()
    # The output layer lays a patch out as time, row, column, channel.
    kernel = (3, g.patch_frames, g.patch_size, g.patch_size)
    y = patch_rows(clips, g).unflatten(1, kernel).permute(0, 2, 3, 4, 1).flatten(1).double()
    damping = 1e-3 * len(x) * torch.eye(x.shape[1], dtype=torch.float64)
    solved = torch.linalg.solve(x.T @ x + damping, x.T @ y).float()
    decoder.output.linear.weight.copy_(solved[:-1].T)
    decoder.output.linear.bias.copy_(solved[-1])
