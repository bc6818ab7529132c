import pytest
import torch
from safetensors.torch import load_file

from adaptok.metrics import LPIPS

NETWORKS = {"alex": "lpips_alexnet", "vgg": "lpips_vgg16"}


@pytest.fixture(scope="module", params=NETWORKS)
def lpips(request) -> LPIPS:
    return LPIPS(request.param)


@pytest.mark.network
def test_parity(lpips, shared):
    io = load_file(shared / "parity" / "metrics" / "io.safetensors")
    a, b = (io[name].permute(0, 3, 1, 2) for name in ("lpips_a", "lpips_b"))
    torch.testing.assert_close(lpips(a, b), io[NETWORKS[lpips.net]], rtol=0, atol=1e-5)


@pytest.mark.network
def test_gradients_reach_images_and_no_weight(lpips):
    a = torch.rand(2, 3, 32, 40)
    b = torch.rand(2, 3, 32, 40, requires_grad=True)
    lpips(a, b).sum().backward()
    assert b.grad is not None
    assert b.grad.isfinite().all()
    assert (b.grad.abs().sum(dim=(1, 2, 3)) > 0).all()
    assert all(not p.requires_grad and p.grad is None for p in lpips.parameters())


@pytest.mark.network
def test_gradient_is_finite_where_features_vanish(lpips):
    flat = torch.zeros(1, 3, 32, 32, requires_grad=True)
    lpips(flat, torch.zeros(1, 3, 32, 32)).sum().backward()
    assert flat.grad is not None
    assert flat.grad.isfinite().all()


@pytest.mark.network
def test_an_image_alone_is_the_image_in_a_batch(lpips):
    a, b = torch.rand(3, 3, 48, 48), torch.rand(3, 3, 48, 48)
    torch.testing.assert_close(torch.cat([lpips(a[i : i + 1], b[i : i + 1]) for i in range(3)]), lpips(a, b))
    assert (lpips(a, a) == 0).all()


@pytest.mark.network
def test_video_spans(lpips):
    a, b = torch.rand(2, 3, 4, 32, 32), torch.rand(2, 3, 4, 32, 32)
    frames = lpips.video(a, b, frames=1)
    torch.testing.assert_close(frames[1, 2], lpips(a[1:, :, 2], b[1:, :, 2])[0])
    torch.testing.assert_close(lpips.video(a, b, frames=2), frames.reshape(2, 2, 2).mean(-1))
    torch.testing.assert_close(lpips.video(a, b), frames.mean(1, keepdim=True))


@pytest.mark.network
def test_smallest_image(lpips):
    size = {"alex": 31, "vgg": 16}[lpips.net]
    assert lpips(torch.rand(1, 3, size, size), torch.rand(1, 3, size, size)).isfinite().all()
    small = torch.rand(1, 3, size - 1, 64)
    with pytest.raises(ValueError, match=f"at least {size}×{size}, got {size - 1}×64"):
        lpips(small, small)
    with pytest.raises(ValueError, match="cannot compare tensors"):
        lpips(torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 33))


def test_unknown_network():
    with pytest.raises(ValueError, match="no network 'squeeze'; there are alex, vgg"):
        LPIPS("squeeze")
