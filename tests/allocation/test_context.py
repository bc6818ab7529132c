"""Scores in context, and the truth they are trained on."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from adaptok.allocation import SCOPES, Budget, strategy_named
from adaptok.allocation.context import Prediction, judge
from adaptok.allocation.oracle import oracle
from adaptok.allocation.scorer import Scorer, polynomial_fit
from adaptok.allocation.truth import (
    Truth,
    all_true_scores,
    at_frames,
    block_loss,
    few_lengths,
    interpolated,
    true_scores,
)
from adaptok.bundle import Bundle
from adaptok.interop import load_official
from adaptok.metrics import mse
from adaptok.tokenizer.model import Encoding
from tiny_models import GEOMETRY, random_kept, random_video, tiny_bundle

FRAMES = GEOMETRY.block_frames


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return tiny_bundle()


@pytest.fixture(scope="module")
def video() -> torch.Tensor:
    return random_video(GEOMETRY, batch=3)


@pytest.fixture(scope="module")
def encoding(bundle: Bundle, video: torch.Tensor) -> Encoding:
    with torch.no_grad():
        return bundle.tokenizer.encode(video)


@torch.no_grad()
def test_one_pass_equals_every_block_after_whole_blocks(bundle: Bundle, encoding: Encoding) -> None:
    whole = torch.full((3, GEOMETRY.blocks), GEOMETRY.tokens_per_block)
    scores = bundle.scorer.score_once(encoding)
    for k in range(GEOMETRY.blocks):
        assert (scores[:, k] - bundle.scorer.score(encoding, whole, block=k)).abs().max() < 1e-9


def test_smooth_scores_are_the_nearest_polynomial_in_the_logarithm_of_the_length() -> None:
    lengths, noise = (4, 8, 12, 16, 20, 24), torch.randn(3, 6, dtype=torch.float64)
    places = np.log(lengths)
    fitted = noise @ polynomial_fit(lengths, 2).double()
    for curve, smooth in zip(noise.numpy(), fitted.numpy(), strict=True):
        np.testing.assert_allclose(smooth, np.polyval(np.polyfit(places, curve, 2), places), atol=1e-5)


def test_a_scorer_may_be_smooth(bundle: Bundle, encoding: Encoding) -> None:
    assert bundle.scorer is not None
    assert bundle.config.scorer is not None
    config = replace(bundle.config.scorer, smooth=1)
    smooth = Scorer(config, bundle.config.tokenizer).eval().to(encoding.latents.dtype)
    smooth.load_state_dict(bundle.scorer.state_dict())
    scores, places = smooth.score_once(encoding), np.log(smooth.lengths)
    fit = polynomial_fit(smooth.lengths, 1).to(scores.dtype)
    torch.testing.assert_close(scores, bundle.scorer.score_once(encoding) @ fit)
    flat = scores.detach().reshape(-1, len(places)).T.numpy()
    np.testing.assert_allclose(np.polyval(np.polyfit(places, flat, 1), places[:, None]), flat, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("scope", list(SCOPES))
def test_every_block_is_judged_after_the_cuts_before_it(bundle: Bundle, encoding: Encoding, scope: str) -> None:
    out = judge(Prediction(bundle.scorer, encoding), Budget(per_block=4), scope=SCOPES[scope])
    kept = torch.as_tensor(out.kept)
    loss = out.table.loss.reshape(3, GEOMETRY.blocks, -1)
    for k in range(GEOMETRY.blocks):
        assert np.abs(loss[:, k] - bundle.scorer.score(encoding, kept, block=k).numpy()).max() < 1e-9
    groups = SCOPES[scope](out.table)
    for number in np.unique(groups):
        rows = groups == number
        assert out.kept.reshape(-1)[rows].sum() == 4 * rows.sum()
    assert out.allocation.met


@pytest.mark.parametrize("name", ["fixed", "bithr", "bidelta", "ilp", "ipal", "motion"])
@pytest.mark.parametrize("in_context", [True, False])
def test_every_strategy_stays_within_budget(bundle: Bundle, encoding: Encoding, name: str, in_context: bool) -> None:
    motion = np.arange(9.0).reshape(3, 3)
    out = judge(
        Prediction(bundle.scorer, encoding),
        Budget(total=13, max_per_block=6),
        strategy=strategy_named(name),
        in_context=in_context,
        motion=motion,
    )
    assert (out.kept.sum(axis=1) <= 13).all()
    assert out.allocation.shortfall == 39 - out.kept.sum() >= 0


def test_quality_is_met_by_the_clip_as_a_whole(bundle: Bundle, encoding: Encoding) -> None:
    by = Prediction(bundle.scorer, encoding)
    best = judge(by, Budget(per_block=6)).table.loss.min(axis=1).mean()
    out = judge(by, Budget(quality=float(best) + 1.0), in_context=False)
    assert out.table.loss_of(out.allocation.kept) <= (best + 1.0) * out.table.rows
    generous = judge(by, Budget(quality=100.0))
    assert (generous.kept == 2).all()
    assert generous.allocation.met


def test_monotone_scores_never_rise(bundle: Bundle, encoding: Encoding) -> None:
    out = judge(Prediction(bundle.scorer, encoding), Budget(per_block=4), monotone=True)
    assert (np.diff(out.table.loss, axis=1) <= 1e-12).all()


@torch.no_grad()
def test_truth_is_the_loss_of_the_decoded_block(bundle: Bundle, encoding: Encoding, video: torch.Tensor) -> None:
    truth = Truth(bundle.tokenizer, encoding, video, bundle.scorer.lengths, block_loss("mse"))
    kept, q = random_kept(GEOMETRY, batch=3), 1
    scores = true_scores(truth, kept, q)
    for column, length in enumerate(bundle.scorer.lengths):
        lengths = kept.clone()
        lengths[:, q] = length
        shown = bundle.tokenizer.decode(encoding.codes, lengths).clamp(0, 1)
        part = slice(q * FRAMES, (q + 1) * FRAMES)
        assert (mse(shown[:, :, part], video[:, :, part])[:, 0] - scores[:, column]).abs().max() < 1e-9
    blocks = range(encoding.codes.shape[1])
    one_by_one = torch.stack([true_scores(truth, kept, k) for k in blocks], dim=1)
    torch.testing.assert_close(all_true_scores(truth, kept), one_by_one)
    predicted = torch.stack([bundle.scorer.score(encoding, kept, k) for k in blocks], dim=1)
    torch.testing.assert_close(bundle.scorer.score_all(encoding, kept), predicted)


@torch.no_grad()
def test_the_oracle_is_truer_than_the_scorer(bundle: Bundle, encoding: Encoding, video: torch.Tensor) -> None:
    truth = Truth(bundle.tokenizer, encoding, video, bundle.scorer.lengths, block_loss("mse"))
    budget = Budget(per_block=4)
    best = oracle(truth, budget)
    assert best.kept.sum() == 3 * GEOMETRY.blocks * 4

    def real(kept: np.ndarray) -> float:
        shown = bundle.tokenizer.decode(encoding.codes, torch.as_tensor(kept)).clamp(0, 1)
        return mse(shown, video).mean().item()

    assert abs(real(best.kept) - best.allocation.loss / best.table.rows) < 1e-9
    assert real(best.kept) <= real(judge(truth, budget, strategy=strategy_named("fixed")).kept)


@pytest.mark.parametrize("metric", ["mse", "psnr", "ssim"])
def test_every_metric_is_zero_or_least_for_equal_frames(metric: str) -> None:
    a = torch.rand(2, 3, 2, 16, 16)
    loss = block_loss(metric)
    assert (loss(a, a) < loss((a + 0.1).clamp(0, 1), a)).all()
    assert (loss((a + 0.1).clamp(0, 1), a) < loss(1 - a, a)).all()


def test_a_loss_can_look_at_some_frames_only() -> None:
    a, b = torch.rand(2, 2, 3, 4, 16, 16)
    loss = block_loss("mse")
    assert torch.equal(at_frames(loss, 2)(a, b), loss(a[:, :, [1, 3]], b[:, :, [1, 3]]))
    assert torch.equal(at_frames(loss, 4)(a, b), loss(a, b))
    assert torch.equal(at_frames(loss, 9)(a, b), loss(a, b))


def test_scores_between_known_lengths_lie_on_a_line() -> None:
    lengths = tuple(range(4, 65, 4))
    rng = torch.Generator().manual_seed(0)
    drawn = {few_lengths(lengths, 6, rng) for _ in range(20)}
    assert len(drawn) > 10
    assert all(len(few) == 6 and (few[0], few[-1]) == (4, 64) and sorted(few) == list(few) for few in drawn)
    assert few_lengths(lengths, 99, rng) == lengths
    line = torch.tensor([[2.0 - 0.1 * math.log(n) for n in lengths], [0.5] * len(lengths)])
    at = few_lengths(lengths, 3, rng)
    known = line[:, [lengths.index(n) for n in at]]
    torch.testing.assert_close(interpolated(known[:, None], at, lengths), line[:, None])


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown scoring metric 'vibes'; known are perceptual"):
        block_loss("vibes")


@torch.no_grad()
def test_the_published_block_by_block_allocation(shared: Path) -> None:
    io = load_file(shared / "parity" / "tiny" / "io.safetensors")
    bundle = load_official(shared / "parity" / "tiny")
    encoding = bundle.tokenizer.encode(io["video"])
    budget = Budget(per_block=int(io["ilp_budget_tokens"]))
    out = judge(Prediction(bundle.scorer, encoding), budget, scope=SCOPES["index"])
    assert out.kept.tolist() == io["ilp_token_counts"].tolist()
