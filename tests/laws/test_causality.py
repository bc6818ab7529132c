"""Laws of the block-causal networks, in float64 on tiny random models of many shapes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptok.allocation.dense import dense_score
from adaptok.bundle import Bundle
from adaptok.config import Geometry
from adaptok.tokenizer.dense import dense_decode, dense_latents
from tiny_models import random_codes, random_kept, random_video, tiny_bundle, tiny_config

laws = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**16)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    patch_frames, steps = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    blocks, size = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    return Geometry(
        frames=blocks * steps * patch_frames,
        height=size * draw(st.integers(1, 3)),
        width=size * draw(st.integers(1, 3)),
        patch_frames=patch_frames,
        patch_size=size,
        blocks=blocks,
        tokens_per_block=draw(st.integers(1, 7)),
    )


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    return tiny_bundle(tiny_config(draw(geometries()), depth=draw(st.integers(1, 3))), seed=draw(seeds))


def split(total: int, seed: int) -> list[int]:
    """Random positive chunk sizes that sum to `total`."""
    generator = torch.Generator().manual_seed(seed)
    sizes = []
    while sum(sizes) < total:
        sizes.append(int(torch.randint(1, total - sum(sizes) + 1, (), generator=generator)))
    return sizes


@laws
@given(bundles(), seeds)
@torch.no_grad()
def test_block_by_block_equals_the_dense_mask(bundle: Bundle, seed: int) -> None:
    g = bundle.config.tokenizer.geometry
    tokenizer = bundle.tokenizer
    video, kept = random_video(g, seed=seed), random_kept(g, seed=seed)
    encoding = tokenizer.encode(video)
    assert (encoding.latents - dense_latents(tokenizer, video)).abs().max() < 1e-9
    decoded = tokenizer.decode(encoding.codes, kept)
    assert (decoded - dense_decode(tokenizer, encoding.codes, kept)).abs().max() < 1e-9
    for q in range(g.blocks):
        fast = bundle.scorer.score(encoding, kept, block=q)
        assert (fast - dense_score(bundle.scorer, encoding, kept, q)).abs().max() < 1e-9


@laws
@given(bundles(), seeds)
@torch.no_grad()
def test_any_chunking_gives_the_same(bundle: Bundle, seed: int) -> None:
    g = bundle.config.tokenizer.geometry
    tokenizer = bundle.tokenizer
    video, kept = random_video(g, seed=seed), random_kept(g, seed=seed)
    whole = tokenizer.encode(video)
    picture = tokenizer.decode(whole.codes, kept)
    encoder_memory = decoder_memory = None
    first = 0
    for count in split(g.blocks, seed):
        part = slice(first, first + count)
        frames = slice(first * g.block_frames, (first + count) * g.block_frames)
        encoding, encoder_memory = tokenizer.encode_blocks(video[:, :, frames], encoder_memory)
        assert (encoding.latents - whole.latents[:, part]).abs().max() < 1e-9
        assert torch.equal(encoding.codes, whole.codes[:, part])
        decoded, decoder_memory = tokenizer.decode_blocks(encoding.codes, kept[:, part], decoder_memory)
        assert (decoded - picture[:, :, frames]).abs().max() < 1e-9
        first += count
    assert encoder_memory.blocks == decoder_memory.blocks == g.blocks


def test_patches_are_forgotten_by_the_decoder_and_all_at_the_end_of_a_clip() -> None:
    bundle = tiny_bundle()
    g = bundle.config.tokenizer.geometry
    codes, kept = random_codes(bundle.config), torch.tensor([[2, 5, 1], [3, 0, 6]])
    with torch.no_grad():
        _, memory = bundle.tokenizer.decode_blocks(codes[:, :2], kept[:, :2], None)
        assert memory.tokens == 3 + 5  # the longest of each block
        _, memory = bundle.tokenizer.decode_blocks(codes[:, 2:], kept[:, 2:], memory)
        assert (memory.tokens, memory.layers) == (0, ())
        _, memory = bundle.tokenizer.encode_blocks(random_video(g)[:, :, : g.block_frames], None)
        assert memory.tokens == g.patches_per_block + g.tokens_per_block


@laws
@given(bundles(), seeds)
@torch.no_grad()
def test_the_future_does_not_change_the_past(bundle: Bundle, seed: int) -> None:
    g = bundle.config.tokenizer.geometry
    tokenizer = bundle.tokenizer
    video, kept = random_video(g, seed=seed), random_kept(g, seed=seed)
    encoding = tokenizer.encode(video)
    picture = tokenizer.decode(encoding.codes, kept)
    for q in range(1, g.blocks):
        other = video.clone()
        other[:, :, q * g.block_frames :] = random_video(g, seed=seed + 1)[:, :, q * g.block_frames :]
        changed = tokenizer.encode(other)
        assert torch.equal(changed.latents[:, :q], encoding.latents[:, :q])
        codes = encoding.codes.clone()
        codes[:, q:] = random_codes(bundle.config, seed=seed + 1)[:, q:]
        redone = tokenizer.decode(codes, kept)
        assert torch.equal(redone[:, :, : q * g.block_frames], picture[:, :, : q * g.block_frames])
        before = bundle.scorer.score(encoding, kept, block=q - 1)
        assert torch.equal(bundle.scorer.score(changed, kept, block=q - 1), before)


@laws
@given(bundles(), seeds)
def test_no_gradient_from_the_past_to_the_future(bundle: Bundle, seed: int) -> None:
    g = bundle.config.tokenizer.geometry
    video = random_video(g, seed=seed).requires_grad_()
    latents, _ = bundle.tokenizer.encoder(video)
    embedded = torch.randn(2, g.blocks, g.tokens_per_block, 24, dtype=torch.float64, requires_grad=True)
    pixels, _ = bundle.tokenizer.decoder(embedded, torch.full((2, g.blocks), g.tokens_per_block))
    for q in range(g.blocks):
        (to_video,) = torch.autograd.grad(latents[:, q].square().sum(), video, retain_graph=True)
        later = (q + 1) * g.block_frames
        assert to_video[:, :, later:].abs().sum() == 0
        assert to_video[:, :, :later].abs().sum() > 0
        shown = pixels[:, :, q * g.block_frames : later]
        (to_tokens,) = torch.autograd.grad(shown.square().sum(), embedded, retain_graph=True)
        assert to_tokens[:, q + 1 :].abs().sum() == 0
        assert to_tokens[:, : q + 1].abs().sum() > 0


@laws
@given(bundles(), seeds)
@torch.no_grad()
def test_dropped_tokens_are_absent(bundle: Bundle, seed: int) -> None:
    """Whatever stands in a dropped tail, the output is the same to the last bit."""
    g = bundle.config.tokenizer.geometry
    kept = random_kept(g, seed=seed)
    codes = random_codes(bundle.config, seed=seed)
    tail = torch.arange(g.tokens_per_block) >= kept[..., None]
    other = torch.where(tail, random_codes(bundle.config, seed=seed + 1), codes)
    assert torch.equal(bundle.tokenizer.decode(codes, kept), bundle.tokenizer.decode(other, kept))


@laws
@given(bundles(), seeds)
@torch.no_grad()
def test_alone_equals_in_a_batch(bundle: Bundle, seed: int) -> None:
    g = bundle.config.tokenizer.geometry
    tokenizer = bundle.tokenizer
    video, kept = random_video(g, batch=3, seed=seed), random_kept(g, batch=3, seed=seed)
    encoding = tokenizer.encode(video)
    picture = tokenizer.decode(encoding.codes, kept)
    q = g.blocks - 1
    scores = bundle.scorer.score(encoding, kept, block=q)
    for i in range(3):
        one = slice(i, i + 1)
        alone = tokenizer.encode(video[one])
        assert (alone.latents - encoding.latents[one]).abs().max() < 1e-9
        assert (tokenizer.decode(alone.codes, kept[one]) - picture[one]).abs().max() < 1e-9
        assert (bundle.scorer.score(alone, kept[one], block=q) - scores[one]).abs().max() < 1e-9


@torch.no_grad()
@pytest.mark.parametrize("kept", [[[0, 0, 0], [0, 6, 0]], [[0, 0, 0], [0, 0, 0]], [[6, 0, 1], [0, 0, 5]]])
def test_blocks_without_tokens(kept: list[list[int]]) -> None:
    bundle = tiny_bundle()
    codes, lengths = random_codes(bundle.config), torch.tensor(kept)
    decoded = bundle.tokenizer.decode(codes, lengths)
    assert decoded.isfinite().all()
    assert (decoded - dense_decode(bundle.tokenizer, codes, lengths)).abs().max() < 1e-9


def test_a_memory_can_be_forked() -> None:
    bundle = tiny_bundle()
    g = bundle.config.tokenizer.geometry
    video = random_video(g)
    with torch.no_grad():
        _, memory = bundle.tokenizer.encode_blocks(video[:, :, : g.block_frames], None)
        nexts = video[:, :, g.block_frames : 2 * g.block_frames]
        first, _ = bundle.tokenizer.encode_blocks(nexts, memory)
        bundle.tokenizer.encode_blocks(1 - nexts, memory)
        again, _ = bundle.tokenizer.encode_blocks(nexts, memory)
    assert torch.equal(first.latents, again.latents)
