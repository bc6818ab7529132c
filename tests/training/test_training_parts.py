"""The pieces of a run, each alone: start, codebook, optimizers, averages, checkpoints."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from training_makers import small_model

from adaptok.bundle import Bundle, build, open_bundle
from adaptok.config import Geometry
from adaptok.metrics import psnr
from adaptok.tokenizer.model import Encoding, Tokenizer
from adaptok.training.checkpoint import Progress, RunFolder
from adaptok.training.codebook import CodebookUse, cosine_kmeans, vector_sums
from adaptok.training.learner import Average
from adaptok.training.objective import Sealed, log_error
from adaptok.training.optimizers import Muon, make_optimizers, orthogonal, rate_factor
from adaptok.training.scorer_recipe import ScorerObjective
from adaptok.training.seeds import Purpose, generator
from adaptok.training.settings import OptimizerConfig, StartConfig
from adaptok.training.start import (
    align,
    coarse_to_fine,
    patch_rows,
    principal_components,
    slot_patches,
    spread_first_block,
)
from tiny_models import GEOMETRY, random_video, tiny_bundle


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def smooth_clips(geometry: Geometry, count: int, seed: int = 0) -> torch.Tensor:
    """Random but smooth, as pictures are."""
    small = torch.rand(count, 3, 3, 5, 5, generator=rng(seed))
    return F.interpolate(small, (geometry.block_frames, geometry.height, geometry.width), mode="trilinear")


@pytest.fixture
def tokenizer(corpus: Path, tmp_path: Path) -> Tokenizer:
    return build(small_model(tmp_path, corpus)).tokenizer


@pytest.fixture
def bundle() -> Bundle:
    return tiny_bundle()


@pytest.fixture
def encoding(bundle: Bundle) -> Encoding:
    with torch.no_grad():
        return bundle.tokenizer.encode(random_video(GEOMETRY))


@pytest.mark.parametrize("grid", [(1, 8, 8), (2, 4, 4), (1, 6, 10), (3, 5, 7), (1, 1, 1)])
def test_every_prefix_covers_the_frame(grid: tuple[int, int, int]) -> None:
    t, h, w = grid
    g = Geometry(frames=t, height=h, width=w, patch_frames=1, patch_size=1, blocks=1, tokens_per_block=4)
    order = coarse_to_fine(g)
    assert sorted(order.tolist()) == list(range(t * h * w))
    if h > 1 and w > 1 and t == 1:
        rows, columns = order[:4] // w, order[:4] % w
        assert {(int(r) >= h / 2, int(c) >= w / 2) for r, c in zip(rows, columns, strict=True)} == {
            (a, b) for a in (False, True) for b in (False, True)
        }


def test_patch_rows_match_the_embedding(tokenizer: Tokenizer) -> None:
    g = tokenizer.config.geometry
    clips = smooth_clips(g, 2)
    proj = tokenizer.encoder.patches.proj
    rows = patch_rows(clips, g) @ proj.weight.flatten(1).T + proj.bias
    assert torch.allclose(rows, tokenizer.encoder.patches(clips).flatten(0, 1), atol=1e-5)


def test_principal_components_are_orthonormal_and_ordered(tokenizer: Tokenizer) -> None:
    g = tokenizer.config.geometry
    clips = smooth_clips(g, 8)
    mean, components = principal_components(clips, g)
    assert torch.allclose(components @ components.T, torch.eye(len(components)), atol=1e-4)
    spread = ((patch_rows(clips, g) - mean) @ components.T).square().mean(dim=0)
    assert (spread.diff() <= 1e-4).all()


def test_aligned_start_reconstructs_before_any_step(tokenizer: Tokenizer) -> None:
    g = tokenizer.config.geometry
    clips, others = smooth_clips(g, 32), smooth_clips(g, 8, seed=1)

    def quality() -> float:
        with torch.no_grad():
            latents, _ = tokenizer.encoder(others)
            kept = torch.full(latents.shape[:2], g.tokens_per_block)
            decoded, _ = tokenizer.decoder(tokenizer.quantizer.embed(tokenizer.quantizer.direction(latents)), kept)
            return psnr(decoded, others).mean().item()

    before = quality()
    align(tokenizer, clips, StartConfig(aligned=True), rng())
    mean_colour = psnr(others.mean(dim=(2, 3, 4), keepdim=True).expand_as(others), others).mean().item()
    assert quality() > before + 10
    assert quality() > mean_colour + 3


def test_aligned_start_needs_learned_slots(corpus: Path, tmp_path: Path) -> None:
    config = small_model(tmp_path, corpus).tokenizer
    plain = Tokenizer(replace(config, learned_slots=False))
    with pytest.raises(ValueError, match="learned_slots"):
        align(plain, smooth_clips(config.geometry, 4), StartConfig(aligned=True), rng())


def test_later_blocks_inherit_what_the_first_learnt(tokenizer: Tokenizer) -> None:
    g = tokenizer.config.geometry
    align(tokenizer, smooth_clips(g, 4), StartConfig(aligned=True), rng())
    queries = tokenizer.encoder.queries
    m = g.tokens_per_block
    start = queries.detach().clone()
    with torch.no_grad():
        queries[:m] += 1.0
    spread_first_block(tokenizer, 1, "coarse")
    assert torch.allclose(queries[m:], start[m:] + 1.0, atol=1e-5)


def test_first_slots_of_successive_blocks_cover_the_frame_together(tokenizer: Tokenizer) -> None:
    g = tokenizer.config.geometry
    p, m = g.patches_per_block, g.tokens_per_block
    blocks = (slot_patches(g, "coarse") - torch.arange(g.blocks).repeat_interleave(m) * p).unflatten(0, (g.blocks, m))
    for block in blocks:
        assert sorted(block.tolist()) == list(range(p))
    assert sorted(blocks[:, : p // g.blocks].flatten().tolist()) == list(range(p))


def test_slots_in_raster_order_go_down_the_frame() -> None:
    g = Geometry(frames=2, height=4, width=4, patch_frames=1, patch_size=1, blocks=2, tokens_per_block=8)
    assert slot_patches(g, "raster").tolist() == [*range(0, 16, 2), *range(16, 32, 2)]


def test_kmeans_finds_separate_directions() -> None:
    centres = F.normalize(torch.randn(6, 8, generator=rng()), dim=1)
    points = F.normalize(centres.repeat(50, 1) + 0.02 * torch.randn(300, 8, generator=rng(1)), dim=1)
    found = cosine_kmeans(points, 12, rng(2))
    assert torch.allclose(found.norm(dim=1), torch.ones(12), atol=1e-5)
    assert (centres @ found.T).amax(dim=1).min() > 0.99


def test_kmeans_with_fewer_points_than_codes() -> None:
    points = F.normalize(torch.randn(5, 4, generator=rng()), dim=1)
    assert cosine_kmeans(points, 12, rng()).isfinite().all()


def test_dead_codes_are_revived_and_living_ones_left(tokenizer: Tokenizer) -> None:
    quantizer = tokenizer.quantizer
    before = quantizer.codebook.detach().clone()
    use = CodebookUse(64, 8, decay=0.5)
    counts = torch.zeros(64)
    counts[:10] = 5
    for _ in range(10):
        use.update(counts)
    vectors = F.normalize(torch.randn(30, 8, generator=rng()), dim=1)
    assert use.revive(quantizer, vectors, 0.1, rng()).tolist() == list(range(10, 64))
    assert torch.equal(quantizer.codebook[:10], before[:10])
    assert all(any(torch.equal(code, v) for v in vectors) for code in quantizer.codebook[10:])
    assert len(use.revive(quantizer, vectors, 0.1, rng())) == 0


def test_codes_follow_their_vectors_and_the_others_stay(tokenizer: Tokenizer) -> None:
    quantizer = tokenizer.quantizer
    before = quantizer.entries().detach().clone()
    drifting = F.normalize(before[:10] + 0.2 * torch.randn(10, 8, generator=rng()), dim=1)
    own = (drifting @ before.T).argmax(dim=1)
    use = CodebookUse(64, 8, decay=0.5)
    for _ in range(60):
        use.follow(quantizer, vector_sums(quantizer, drifting))
    for code in own.unique():
        mean = F.normalize(drifting[own == code].sum(dim=0), dim=0)
        torch.testing.assert_close(quantizer.codebook[code], mean)
    others = [code for code in range(64) if code not in own]
    torch.testing.assert_close(quantizer.codebook[others], before[others])


def test_muon_matches_pytorchs() -> None:
    start, gradient = torch.randn(24, 40, generator=rng()), torch.randn(24, 40, generator=rng(1))
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    a = Muon([ours], lr=1e-2, weight_decay=0.1)
    b = torch.optim.Muon([theirs], lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        a.step()
        b.step()
    # PyTorch's computes in bfloat16.
    assert (ours - theirs).norm() < 0.03 * (theirs - start).norm()


@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (8, 8)])
def test_orthogonal(shape: tuple[int, int]) -> None:
    sizes = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=rng())))
    assert sizes.min() > 0.5
    assert sizes.max() < 1.3


def test_muon_takes_only_matrices() -> None:
    with pytest.raises(ValueError, match="matrices"):
        Muon([torch.nn.Parameter(torch.zeros(3))], lr=1.0, weight_decay=0.0)


def test_every_weight_has_one_optimizer(tokenizer: Tokenizer) -> None:
    for kind, count in (("adam", 1), ("muon", 2)):
        optimizers = make_optimizers(tokenizer, OptimizerConfig(kind=kind))
        taken = [p for o in optimizers for group in o.param_groups for p in group["params"]]
        assert len(optimizers) == count
        assert {id(p) for p in taken} == {id(p) for p in tokenizer.parameters()}
        assert len(taken) == len(list(tokenizer.parameters()))


def test_rates_warm_up_and_end_at_the_final_one() -> None:
    config = OptimizerConfig(rate=1e-3, final_rate=1e-5, warmup=4)
    factors = [rate_factor(config, step, 20) for step in range(20)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[4:] == sorted(factors[4:], reverse=True)
    assert math.isclose(factors[-1], 1e-2)


def test_average_follows_and_swaps_back(tokenizer: Tokenizer) -> None:
    average = Average(tokenizer, 0.5)
    weight = tokenizer.decoder.patch_type
    first = weight.detach().clone()
    with torch.no_grad():
        weight += 1.0
    average.update(1000)
    now = weight.detach().clone()
    with average.in_place():
        assert torch.allclose(weight, first + 0.5)
    assert torch.equal(weight, now)
    average.jump("decoder.patch_type")
    with average.in_place():
        assert torch.equal(weight, now)


def test_seeds_differ_by_each_part() -> None:
    draws = {
        torch.rand((), generator=generator(*args)).item()
        for args in [(0, 0, Purpose.OWN), (1, 0, Purpose.OWN), (0, 1, Purpose.OWN), (0, 0, Purpose.SHARED)]
    }
    draws.add(torch.rand((), generator=generator(0, 0, Purpose.OWN, rank=1)).item())
    assert len(draws) == 5


def test_checkpoint_round_trip(corpus: Path, tmp_path: Path) -> None:
    bundle = build(small_model(tmp_path, corpus))
    folder = RunFolder(tmp_path / "run")
    tensors = {"a/b": torch.randn(3), "n": torch.tensor(7)}
    folder.save(bundle, tensors, Progress(step=5, seconds=1.5, best_level=1, best=2.25))
    found, progress = folder.load()
    assert progress == Progress(step=5, seconds=1.5, best_level=1, best=2.25)
    assert all(torch.equal(found[name], value) for name, value in tensors.items())
    again = open_bundle(tmp_path / "run" / "last")
    assert again.config == bundle.config
    weights = bundle.modules.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in again.modules.state_dict().items())
    assert sorted(f.name for f in (tmp_path / "run" / "last").iterdir()) == [
        "config.yaml",
        "model.safetensors",
        "state.safetensors",
    ]


def test_damaged_or_foreign_states_are_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(ValueError, match="nothing to resume"):
        folder.load()
    folder.state.parent.mkdir()
    folder.state.write_bytes(b"rubbish")
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        folder.load()
    safetensors.torch.save_file({"a": torch.zeros(1)}, folder.state, metadata={"format": "other"})
    with pytest.raises(ValueError, match="format 'other'"):
        folder.load()


def test_the_logarithmic_error_is_a_mean_psnr() -> None:
    video = torch.rand(3, 3, 4, 8, 8, generator=rng())
    noise = torch.tensor([0.1, 0.2, 0.4]).view(3, 1, 1, 1, 1) * torch.randn(3, 3, 4, 8, 8, generator=rng(1))
    assert log_error(video + noise, video, least=0.0).item() == pytest.approx(
        -psnr(video + noise, video).mean().item() / 10, abs=1e-5
    )
    assert log_error(video, video).item() == pytest.approx(-4)


def test_the_shape_of_a_curve_is_judged_without_its_height(bundle: Bundle, encoding: Encoding) -> None:
    """Scores that are all wrong by the same cost nothing more; a slope that is wrong does."""
    assert bundle.scorer is not None
    kept = torch.full(encoding.codes.shape[:2], 4)
    found = bundle.scorer.score_all(encoding, kept).detach()
    slope = torch.linspace(-1, 1, found.shape[-1])
    for wrong, more in ((torch.ones_like(slope), 0.0), (slope, slope.square().mean().item())):
        plain, shaped = (
            ScorerObjective(bundle.scorer, s)(found + wrong, Sealed(encoding), kept, None) for s in (0.0, 3.0)
        )
        assert (shaped - plain).item() == pytest.approx(3 * more, abs=1e-6)
    one = ScorerObjective(bundle.scorer, 0.0)(found[:, 1:2] + 1, Sealed(encoding), kept, 1)
    assert one.item() == pytest.approx(1, abs=1e-6)
