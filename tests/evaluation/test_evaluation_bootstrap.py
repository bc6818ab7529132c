"""Intervals: they cover what they should, shrink with more videos, and FVD's fast form is FVD."""

import warnings

import numpy as np
import pytest
import torch

from adaptok.evaluation.bootstrap import draws, interval, resampled_distances, resampled_means, weighted_distance
from adaptok.metrics import FewSamplesWarning, frechet_distance


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewSamplesWarning)
        return frechet_distance(a, b)


def test_clips_of_a_video_are_drawn_together() -> None:
    videos = np.array([0, 0, 1, 2, 2, 2])
    counts = draws(videos, 100, seed=0)
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, [3, 3]] == counts[:, [4, 5]]).all()
    assert (counts[:, [0, 2, 3]].sum(axis=1) == 3).all()
    assert np.array_equal(counts, draws(videos, 100, seed=0))
    assert not np.array_equal(counts, draws(videos, 100, seed=1))


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(300):
        values = rng.normal(size=40)
        low, high = interval(values.mean(), resampled_means(values, draws(np.arange(40), 300, trial)))
        covered += low <= 0 <= high
    assert 0.89 < covered / 300 < 0.98


def test_more_videos_give_a_narrower_interval() -> None:
    rng = np.random.default_rng(0)
    widths = []
    for count in (10, 100, 1000):
        values = rng.normal(size=count)
        low, high = interval(values.mean(), resampled_means(values, draws(np.arange(count), 500, 0)))
        widths.append(high - low)
    assert widths[0] > 2 * widths[1] > 4 * widths[2]


def test_repeated_clips_are_fewer_witnesses() -> None:
    """Ten clips of each of ten videos tell no more than one of each."""
    values = np.random.default_rng(0).normal(size=10)
    once = interval(values.mean(), resampled_means(values, draws(np.arange(10), 500, 0)))
    repeated = np.repeat(values, 10)
    often = interval(repeated.mean(), resampled_means(repeated, draws(np.repeat(np.arange(10), 10), 500, 0)))
    assert often == pytest.approx(once)


@pytest.mark.parametrize("count", [5, 12, 40])
def test_a_distance_by_counts_is_the_distance_of_the_repeated_clips(count: int) -> None:
    real, fake = torch.randn(2, count, 12, dtype=torch.float64)
    assert weighted_distance(real, fake, torch.ones(count, dtype=torch.int64)) == pytest.approx(distance(real, fake))
    counts = torch.randint(0, 3, (count,))
    counts[0] = 2
    repeated = distance(real.repeat_interleave(counts, 0), fake.repeat_interleave(counts, 0))
    assert weighted_distance(real, fake, counts) == pytest.approx(repeated)
    assert weighted_distance(real, real, counts) == pytest.approx(0, abs=1e-9)


def test_the_interval_of_a_distance_holds_the_estimate() -> None:
    """Plain percentiles would not: resamples hold fewer distinct clips and lie above."""
    real = torch.randn(30, 50)
    fake = real + 0.5 * torch.randn(30, 50)
    estimate = distance(real, fake)
    resampled = resampled_distances(real, fake, draws(np.arange(30), 100, 0))
    low, high = interval(estimate, resampled)
    assert low < estimate < high
    assert high - low < estimate


def test_a_single_video_has_no_spread() -> None:
    values = np.array([3.0, 5.0])
    assert interval(4.0, resampled_means(values, draws(np.zeros(2, int), 10, 0))) == (4.0, 4.0)
    assert interval(4.0, np.empty(0)) == (4.0, 4.0)
