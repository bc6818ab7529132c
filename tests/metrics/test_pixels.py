import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from adaptok.metrics import image_ssim, mean_over_spans, mse, per_frame, psnr, ssim


@pytest.fixture
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.rand(2, 3, 8, 24, 32)
    return a, (a + 0.1 * torch.randn_like(a)).clamp(0, 1)


def test_psnr_is_that_of_scikit_image(pair):
    a, b = pair
    for video, found in enumerate(psnr(a, b)[:, 0]):
        expected = peak_signal_noise_ratio(a[video].numpy(), b[video].numpy(), data_range=1)
        assert found.item() == pytest.approx(expected, abs=1e-4)


def test_ssim_is_that_of_scikit_image(pair):
    # scikit-image filters the whole frame and averages over the interior, which holds exactly our windows.
    a, b = (x.double() for x in pair)
    found = ssim(a, b, frames=1)
    for video, frame in np.ndindex(2, 8):
        expected = structural_similarity(
            a[video, :, frame].numpy(),
            b[video, :, frame].numpy(),
            channel_axis=0,
            data_range=1,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert found[video, frame].item() == pytest.approx(expected, abs=1e-10)
    torch.testing.assert_close(ssim(*pair, frames=1), found.float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("metric", [mse, ssim])
@pytest.mark.parametrize("frames", [1, 2, 4, 8])
def test_spans_are_means_of_frames(pair, metric, frames):
    each = metric(*pair, frames=1)
    assert each.shape == (2, 8)
    expected = each.reshape(2, 8 // frames, frames).mean(-1)
    torch.testing.assert_close(metric(*pair, frames=frames), expected)
    torch.testing.assert_close(metric(*pair), each.mean(1, keepdim=True))


def test_a_block_scores_alone_as_in_its_clip(pair):
    a, b = pair
    for metric in (mse, psnr, ssim):
        whole = metric(a, b, frames=4)
        torch.testing.assert_close(whole[:, 1:], metric(a[:, :, 4:], b[:, :, 4:], frames=4))


def test_psnr_of_a_span_comes_from_its_mean_squared_error(pair):
    blocks = psnr(*pair, frames=4)
    torch.testing.assert_close(blocks, -10 * mse(*pair, frames=4).log10())
    assert (psnr(*pair, frames=1).reshape(2, 2, 4).mean(-1) >= blocks).all()


def test_identical_videos(pair):
    a, _ = pair
    assert (mse(a, a) == 0).all()
    assert psnr(a, a).isposinf().all()
    torch.testing.assert_close(ssim(a, a), torch.ones(2, 1))


@pytest.mark.parametrize("metric", [mse, psnr, ssim])
def test_differentiable(pair, metric):
    a, b = pair
    b.requires_grad_()
    metric(a, b, frames=4).sum().backward()
    assert b.grad is not None
    assert b.grad.isfinite().all()
    assert b.grad.abs().sum() > 0


def test_ssim_keeps_float32_under_autocast(pair):
    a, b = pair
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ssim(a, b)
    torch.testing.assert_close(found, ssim(a, b))


def test_clear_errors(pair):
    a, b = pair
    with pytest.raises(ValueError, match=r"8 frames cannot be cut into spans of 3 frames"):
        mse(a, b, frames=3)
    with pytest.raises(ValueError, match=r"spans of 0 frames"):
        mean_over_spans(torch.ones(1, 4), 0)
    for metric in (mse, psnr, ssim):
        with pytest.raises(ValueError, match=r"shapes \(2, 3, 8, 24, 32\) and \(2, 3, 7, 24, 32\)"):
            metric(a, b[:, :, :7])
    with pytest.raises(ValueError, match=r"at least 11×11, got 10×32"):
        image_ssim(a[:, :, 0, :10], b[:, :, 0, :10])


def test_per_frame_keeps_order(pair):
    a, b = pair
    found = per_frame(lambda x, y: (x - y).square().mean((1, 2, 3)), a, b)
    torch.testing.assert_close(found, mse(a, b, frames=1))
