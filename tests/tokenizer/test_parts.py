"""Patches, positions, lengths, quantizer and prior, each on its own."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from adaptok.config import LengthConfig, PriorConfig, QuantizerConfig
from adaptok.tokenizer.patches import unpatchify
from adaptok.tokenizer.positions import patch_positions
from adaptok.tokenizer.prior import Prior, prior_loss
from adaptok.tokenizer.quantizer import Quantizer, codebook_use, largest, nearest_rows, sample_codes, sample_rows
from adaptok.tokenizer.tail_drop import sample_kept
from tiny_models import GEOMETRY, random_video, tiny_bundle


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_unpatchify_inverts_patches() -> None:
    g = GEOMETRY
    video = random_video(g)
    t, p = g.patch_frames, g.patch_size
    pieces = video.unfold(2, t, t).unfold(3, p, p).unfold(4, p, p)  # B C T' H' W' t p p
    rows = pieces.permute(0, 2, 3, 4, 5, 6, 7, 1).flatten(4).flatten(1, 3)
    assert torch.equal(unpatchify(rows, g), video)


def test_every_patch_has_its_own_position() -> None:
    table = patch_positions(GEOMETRY, 16)
    assert table.shape == (GEOMETRY.blocks * GEOMETRY.patches_per_block, 16)
    assert len(table.unique(dim=0)) == len(table)


def test_gaussian_lengths_follow_the_law() -> None:
    law = LengthConfig(law="gaussian", min=32, max=512, mean=256.0, std=128.0)
    kept = sample_kept(law, 20_000, 4, 512, seeded()).double()
    assert kept.min() >= 32
    assert kept.max() <= 512
    low, high = (31.5 - 256) / 128, (512.5 - 256) / 128
    density = lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    mass = 0.5 * (math.erf(high / 2**0.5) - math.erf(low / 2**0.5))
    mean = 256 + 128 * (density(low) - density(high)) / mass
    assert abs(kept.mean() - mean) < 1.5
    assert len(kept.unique()) > 450


def test_uniform_lengths_reach_both_ends_equally() -> None:
    kept = sample_kept(LengthConfig(law="uniform", min=2, max=5), 40_000, 1, 8, seeded()).flatten()
    counts = torch.bincount(kept, minlength=6)
    assert counts[:2].sum() == 0
    assert (counts[2:].double() / len(kept) - 0.25).abs().max() < 0.01


def test_shared_lengths_are_one_draw_for_the_batch() -> None:
    kept = sample_kept(LengthConfig(law="uniform", min=1, max=64, shared=True), 8, 4, 64, seeded())
    assert kept.shape == (8, 4)
    assert (kept == kept[:1]).all()


@pytest.mark.parametrize(("low", "high"), [(-1, 4), (5, 4)])
def test_impossible_lengths_are_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match=f"min {low}, max {high}"):
        LengthConfig(law="uniform", min=low, max=high)


def quantizer(temperature: float = 0.03) -> Quantizer:
    return Quantizer(QuantizerConfig(codebook_size=16, code_width=4, temperature=temperature), 4, 8, 8)


def test_cold_sampling_is_the_nearest_code() -> None:
    q = quantizer(temperature=1e-4)
    latents = torch.randn(2, 3, 5, 8)
    out = q(latents, torch.ones(2, 3, 5, dtype=torch.bool), seeded())
    assert torch.equal(out.codes, q.nearest(latents))


def test_blocks_are_turned_before_the_codebook_and_back_after_it() -> None:
    config = QuantizerConfig(codebook_size=16, code_width=4, turned=True)
    q = Quantizer(config, 3, 8, 8)
    plain = Quantizer(replace(config, turned=False), 3, 8, 8)
    plain.load_state_dict({name: value for name, value in q.state_dict().items() if name != "turns"})
    latents = torch.randn(2, 3, 5, 8)
    vectors = q.direction(latents)
    assert torch.allclose(vectors[:, 0], plain.direction(latents[:, 0]), atol=1e-6)
    assert all((vectors[:, k] - plain.direction(latents[:, k])).norm(dim=-1).max() > 0.05 for k in (1, 2))
    assert torch.allclose(q.embed(vectors), plain.embed(plain.direction(latents)), atol=1e-5)
    for k in range(3):
        assert torch.equal(q.direction(latents[:, k : k + 1], first=k), vectors[:, k : k + 1])
        assert torch.equal(q.embed(vectors[:, k : k + 1], first=k), q.embed(vectors)[:, k : k + 1])


def test_codes_are_the_same_however_many_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, entries = torch.randn(2, 7, 4), torch.randn(16, 4)
    whole = nearest_rows(vectors, entries), sample_codes(vectors, entries, seeded())
    monkeypatch.setattr("adaptok.tokenizer.quantizer.PRODUCTS", 48)
    parts = nearest_rows(vectors, entries), sample_codes(vectors, entries, seeded())
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.parametrize("size", [1, 100, 128, 640, 32768])
def test_the_largest_is_the_first_of_all_that_are(size: int) -> None:
    rows = torch.randint(0, 40, (50, size), generator=torch.Generator().manual_seed(size)).float()
    rows[0] = 7.0
    rows[1] = -torch.inf
    for row, found in zip(rows, largest(rows), strict=True):
        assert int(found) == int((row == row.max()).nonzero()[0])


def test_sharp_logits_are_drawn_from_as_from_their_softmax_in_double_precision() -> None:
    logits = 200 * torch.randn(300, 1000)
    height = torch.rand(300, 1, generator=seeded()).double()
    ladder = logits.double().softmax(dim=1).cumsum(dim=1)
    wanted = torch.searchsorted(ladder, height * ladder[:, -1:], right=True)[:, 0]
    before = logits.clone()
    assert torch.equal(sample_rows(logits, seeded()), wanted)
    assert torch.equal(logits, before)


def test_half_precision_around_the_quantizer_does_not_reach_its_codes() -> None:
    q = Quantizer(QuantizerConfig(codebook_size=512, code_width=8, temperature=0.005, turned=True), 3, 8, 8)
    latents, kept = torch.randn(2, 3, 50, 8), torch.ones(2, 3, 50, dtype=torch.bool)
    nearest, sampled = q.nearest(latents), q(latents, kept, seeded()).codes
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(q.nearest(latents), nearest)
        found = q(latents, kept, seeded())
    assert torch.equal(found.codes, sampled)
    assert found.directions.dtype == torch.float32


def test_warm_sampling_follows_the_softmax() -> None:
    q = quantizer(temperature=0.5)
    latents = torch.randn(1, 8).expand(40_000, 8)
    out = q(latents, torch.ones(40_000, dtype=torch.bool), seeded())
    wanted = (q.direction(latents[:1]) @ q.entries().T / 0.5).softmax(-1)[0]
    assert (torch.bincount(out.codes, minlength=16) / 40_000 - wanted).abs().max() < 0.01


def test_quantizer_losses_count_kept_tokens_only() -> None:
    q = quantizer(temperature=1e-4)
    latents = torch.randn(2, 5, 8)
    kept = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], dtype=torch.bool)
    out = q(latents, kept, seeded())
    z = q.direction(latents)[kept]
    distance = F.mse_loss(z, q.lookup(out.codes)[kept])
    assert torch.isclose(out.loss, 1.25 * distance)
    other = latents.masked_fill(~kept[..., None], 7.0)
    assert torch.isclose(q(other, kept, seeded()).loss, out.loss)


def test_codebook_use() -> None:
    codes = torch.tensor([0, 0, 1, 1, 2])
    usage, perplexity = codebook_use(codes, torch.tensor([1, 1, 1, 1, 0], dtype=torch.bool), 8)
    assert usage == 2 / 8
    assert abs(perplexity.item() - 2) < 1e-9


def make_prior(rounds: int = 1) -> Prior:
    torch.manual_seed(1)
    return Prior(PriorConfig(width=16, depth=2, heads=2, rounds=rounds), slots=12, code_width=4).double()


def test_prior_loss_skips_dropped_tokens_exactly() -> None:
    """Equal to the plain loss over the kept tokens alone, sample by sample."""
    prior = make_prior()
    entries = F.normalize(torch.randn(9, 4, dtype=torch.float64), dim=-1)
    codes = torch.randint(0, 9, (3, 12))
    kept = torch.rand(3, 12, generator=seeded(3)) < 0.6
    loss = prior_loss(prior, entries[codes], codes, kept, entries, 0.0, seeded())
    total, count = 0.0, 0
    for i in range(3):
        slots = kept[i].nonzero()[:, 0]
        logits = prior.logits(entries[codes[i, slots]][None, :-1], slots[None, :-1], entries)
        total += F.cross_entropy(logits[0], codes[i, slots][1:], reduction="sum").item()
        count += len(slots) - 1
    assert abs(loss.item() - total / count) < 1e-9


def test_second_round_reads_sampled_tokens() -> None:
    entries = F.normalize(torch.randn(9, 4, dtype=torch.float64), dim=-1)
    codes = torch.randint(0, 9, (2, 12))
    kept = torch.ones(2, 12, dtype=torch.bool)
    prior = make_prior(rounds=2)
    plain = prior_loss(prior, entries[codes], codes, kept, entries, 0.0, seeded())
    mixed = prior_loss(prior, entries[codes], codes, kept, entries, 1.0, seeded())
    one = prior_loss(make_prior(rounds=1), entries[codes], codes, kept, entries, 1.0, seeded())
    assert torch.isclose(plain, one)
    assert not torch.isclose(mixed, one)


def test_prior_does_not_see_the_future() -> None:
    bundle = tiny_bundle()
    codes = torch.zeros(1, 3, 6, dtype=torch.long)
    other = codes.clone()
    other[0, 1, 2:] = 5
    with torch.no_grad():
        same = bundle.tokenizer.prior_logits(codes) == bundle.tokenizer.prior_logits(other)
    assert same[0, : 6 + 2].all()
    assert not same[0, 6 + 2 :].all()
