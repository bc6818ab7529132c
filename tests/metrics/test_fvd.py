import numpy as np
import pytest
import scipy.linalg
import torch
from real_clips import read_clips

from adaptok.metrics import FVD, I3D, FeatureStatistics, FewSamplesWarning, frechet_distance

RNG = np.random.default_rng(0)


def oracle(a: np.ndarray, b: np.ndarray) -> float:
    """The textbook formula, slowly."""
    root = scipy.linalg.sqrtm(np.cov(a, rowvar=False) @ np.cov(b, rowvar=False)).real
    traces = np.trace(np.cov(a, rowvar=False)) + np.trace(np.cov(b, rowvar=False)) - 2 * np.trace(root)
    return float(((a.mean(0) - b.mean(0)) ** 2).sum() + traces)


def features(count: int, width: int, shift: float = 0.0) -> np.ndarray:
    return shift + RNG.standard_normal((count, width)) @ RNG.standard_normal((width, width))


@pytest.mark.parametrize("width", [2, 16, 64])
def test_agrees_with_sqrtm(width):
    a, b = features(4 * width, width), features(5 * width, width, shift=1.0)
    assert frechet_distance(a, b) == pytest.approx(oracle(a, b), rel=1e-9)


def test_is_symmetric_and_takes_tensors_arrays_and_statistics():
    a, b = features(40, 8), features(50, 8, shift=0.5)
    expected = frechet_distance(a, b)
    assert frechet_distance(b, a) == pytest.approx(expected)
    assert frechet_distance(torch.from_numpy(a), FeatureStatistics.of(b)) == pytest.approx(expected)


def test_one_dimension_has_a_closed_form():
    a, b = features(30, 1), features(40, 1, shift=2.0)
    expected = (a.mean() - b.mean()) ** 2 + (a.std(ddof=1) - b.std(ddof=1)) ** 2
    assert frechet_distance(a, b) == pytest.approx(expected)


@pytest.mark.parametrize("count", [2, 5, 16])
def test_fewer_samples_than_dimensions(count):
    a, b = features(count, 16), features(count, 16, shift=0.3)
    # Exact for low ranks: √ of the nonzero eigenvalues of a small Gram matrix, without any D×D root.
    left, right = ((x - x.mean(0)) / np.sqrt(count - 1) for x in (a, b))
    overlap = np.linalg.svd(left @ right.T, compute_uv=False).sum()
    expected = ((a.mean(0) - b.mean(0)) ** 2).sum() + (left**2).sum() + (right**2).sum() - 2 * overlap
    with pytest.warns(FewSamplesWarning, match=f"{count} samples of 16 dimensions"):
        found = frechet_distance(a, b)
    assert found == pytest.approx(expected, rel=1e-6)
    with pytest.warns(FewSamplesWarning):
        assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)


def test_constant_features():
    assert frechet_distance(np.zeros((5, 3)), np.ones((5, 3))) == pytest.approx(3)


@pytest.mark.parametrize("cuts", [[1], [3, 4], [10, 20, 30], list(range(1, 50))])
def test_merged_statistics_equal_one_pass(cuts):
    # A mean a million times the spread defeats sums of raw products.
    rows = 1e6 + features(50, 6)
    merged = None
    for part in np.split(rows, cuts):
        statistics = FeatureStatistics.of(part)
        merged = statistics if merged is None else statistics.merge(merged)
    whole = FeatureStatistics.of(rows)
    assert merged.count == 50
    torch.testing.assert_close(merged.mean, whole.mean, rtol=1e-14, atol=0)
    torch.testing.assert_close(merged.covariance, torch.from_numpy(np.cov(rows, rowvar=False)), rtol=1e-8, atol=1e-8)


def test_clear_errors():
    with pytest.raises(ValueError, match="at least 2 samples of each kind, got 1"):
        frechet_distance(np.ones((1, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="widths 3 and 4"):
        frechet_distance(np.ones((5, 3)), np.ones((5, 4)))
    with pytest.raises(ValueError, match="widths 3 and 4"):
        FeatureStatistics.of(np.ones((5, 3))).merge(FeatureStatistics.of(np.ones((5, 4))))
    with pytest.raises(ValueError, match=r"non-empty \(N,D\) array, got shape \(5,\)"):
        FeatureStatistics.of(np.ones(5))
    with pytest.raises(ValueError, match="not finite"):
        FeatureStatistics.of(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        _ = FeatureStatistics.of(np.ones((1, 3))).covariance


@pytest.fixture(scope="module")
def i3d() -> I3D:
    return I3D()


@pytest.mark.network
def test_fvd_gathers_and_merges(i3d):
    real, fake = torch.rand(2, 3, 9, 32, 32), torch.rand(3, 3, 9, 32, 32)
    alone, left, right = FVD(i3d), FVD(i3d), FVD(i3d)
    with pytest.raises(ValueError, match="at least 2 real videos, got 0"):
        alone.compute()
    alone.update(real=real, fake=fake[:1])
    with pytest.raises(ValueError, match="at least 2 fake videos, got 1"):
        alone.compute()
    alone.update(fake=fake[1:])
    left.update(real=real[:1])
    right.update(fake=fake, real=real[1:])
    left.merge(right)
    with pytest.warns(FewSamplesWarning):
        expected = alone.compute()
    with pytest.warns(FewSamplesWarning):
        assert left.compute() == pytest.approx(expected, rel=1e-4)
    with pytest.warns(FewSamplesWarning):
        assert frechet_distance(alone.real, alone.real) == pytest.approx(0, abs=1e-6)


def shuffled(clips: torch.Tensor, share: float) -> torch.Tensor:
    """Time order destroyed in a growing share of the frames."""
    order = torch.arange(clips.shape[2])
    moved = order[: round(share * len(order))]
    order[: len(moved)] = moved[torch.randperm(len(moved), generator=torch.Generator().manual_seed(0))]
    return clips[:, :, order]


def noisy(clips: torch.Tensor, strength: float) -> torch.Tensor:
    noise = torch.randn(clips.shape, generator=torch.Generator().manual_seed(0))
    return (clips + strength * noise).clamp(0, 1)


def blurred(clips: torch.Tensor, strength: float) -> torch.Tensor:
    factor = (1.0, 1 / strength, 1 / strength)
    small = torch.nn.functional.interpolate(clips, scale_factor=factor, mode="area")
    return torch.nn.functional.interpolate(small, size=clips.shape[2:], mode="trilinear")


@pytest.mark.network
@pytest.mark.filterwarnings("ignore::adaptok.metrics.FewSamplesWarning")
@pytest.mark.parametrize(
    ("damage", "strengths"),
    [(noisy, (0.02, 0.08, 0.25)), (blurred, (2, 4, 8)), (shuffled, (0.5, 0.75, 1.0))],
)
@torch.inference_mode()
def test_fvd_grows_with_damage(damage, strengths, i3d, real_features):
    clips, real = real_features
    distances = [frechet_distance(real, i3d(damage(clips, strength))) for strength in strengths]
    assert frechet_distance(real, real) == pytest.approx(0, abs=1e-6)
    assert 0 < distances[0] < distances[1] < distances[2], distances


@pytest.fixture(scope="module")
def real_features(i3d, shared) -> tuple[torch.Tensor, torch.Tensor]:
    """A few real clips and their logits."""
    clips = read_clips(shared / "videos" / "val", count=4, frames=9, size=128)
    with torch.inference_mode():
        return clips, i3d(clips)
