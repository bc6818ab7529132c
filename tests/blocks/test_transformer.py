"""The tables and what derives from them."""

import torch

from adaptok.blocks.dense import dense_forward, dense_mask
from adaptok.blocks.layout import Chunk, Segment, rows_where, take
from adaptok.blocks.transformer import Stack
from adaptok.blocks.visibility import DECODER, ENCODER, SCORER, TOKENS, Role
from adaptok.config import StackConfig
from tiny_models import tiny_bundle

P, L = Role.PATCH, Role.LATENT


def test_what_is_remembered() -> None:
    assert ENCODER.remembered == {P, L}
    assert DECODER.remembered == {L}
    assert SCORER.remembered == {L}
    assert TOKENS.remembered == {Role.TOKEN}


def test_the_decoder_mask_written_out() -> None:
    segments = tuple(Segment(role, block, 1) for block in (0, 1) for role in (L, P))
    wanted = [
        [1, 0, 0, 0],  # latent of block 0
        [1, 1, 0, 0],  # patch of block 0
        [1, 0, 1, 0],  # latent of block 1
        [1, 0, 1, 1],  # patch of block 1: not the patches of block 0
    ]
    assert dense_mask(DECODER, segments).int().tolist() == wanted


def test_rows_merge_neighbours_and_skip_empty() -> None:
    segments = [Segment(L, 0, 2), Segment(P, 0, 3), Segment(L, 1, 0), Segment(P, 1, 1)]
    assert rows_where(segments, lambda s: s.role is P) == (slice(2, 6),)
    assert rows_where(segments, lambda s: s.block == 1) == (slice(5, 6),)
    x = torch.arange(6)[None]
    assert take(x, (slice(0, 1), slice(3, 5)), dim=1).tolist() == [[0, 3, 4]]
    assert take(x, (), dim=1).shape == (1, 0)


def test_tokens_in_pieces_equal_tokens_at_once() -> None:
    """The prior's table: any chunking with memory, padding included, equals the dense mask."""
    torch.manual_seed(0)
    stack = Stack(StackConfig(width=8, depth=2, heads=2, qkv_bias=True), TOKENS).double()
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    present = torch.ones(2, 7, dtype=torch.bool)
    present[1, 3] = False
    read = frozenset({Role.TOKEN})
    with torch.no_grad():
        for mask in (None, present):
            whole = dense_forward(stack, Chunk(x, (Segment(Role.TOKEN, 0, 7),), 1, mask)).tokens
            memory, parts, start = None, [], 0
            for size in (3, 1, 3):
                rows = slice(start, start + size)
                piece = None if mask is None else mask[:, rows]
                chunk = Chunk(x[:, rows], (Segment(Role.TOKEN, start, size),), 1, piece)
                out, memory = stack(chunk, memory, read=read)
                parts.append(out.tokens)
                start += size
            error = (torch.cat(parts, dim=1) - whole).abs()
            assert error[0].max() < 1e-12
            assert (error[1] if mask is None else error[1][mask[1]]).max() < 1e-12


def test_unread_roles_cost_nothing_in_the_last_layer() -> None:
    bundle = tiny_bundle()
    rows: list[int] = []
    layer = bundle.tokenizer.encoder.stack.layers[-1]
    layer.mlp.register_forward_hook(lambda module, inputs, output: rows.append(inputs[0].shape[1]))
    g = bundle.config.tokenizer.geometry
    with torch.no_grad():
        bundle.tokenizer.encode(torch.rand(1, 3, g.frames, g.height, g.width, dtype=torch.float64))
    assert rows == [g.tokens]


def test_no_mask_is_built_where_samples_keep_the_same(monkeypatch) -> None:
    masks: list[object] = []
    original = torch.nn.functional.scaled_dot_product_attention

    def spy(q, k, v, attn_mask=None, is_causal=False):
        masks.append(attn_mask)
        return original(q, k, v, attn_mask=attn_mask, is_causal=is_causal)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    bundle = tiny_bundle()
    g = bundle.config.tokenizer.geometry
    codes = torch.zeros(2, g.blocks, g.tokens_per_block, dtype=torch.long)
    with torch.no_grad():
        bundle.tokenizer.decode(codes, torch.tensor([[2, 5, 1]] * 2))
        assert all(mask is None for mask in masks)
        bundle.tokenizer.decode(codes, torch.tensor([[2, 5, 1], [3, 0, 6]]))
    shapes = {tuple(mask.shape) for mask in masks if mask is not None}
    assert shapes
    assert all(shape[:3] == (2, 1, 1) for shape in shapes), "a mask over keys only, never (B,N,N)"
