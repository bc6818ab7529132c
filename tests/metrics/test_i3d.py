import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from adaptok.metrics import I3D
from adaptok.metrics.i3d import by_twos, prepare, same_padding


@pytest.fixture(scope="module")
def i3d() -> I3D:
    return I3D()


@pytest.mark.network
@torch.inference_mode()
def test_parity(i3d, shared):
    io = load_file(shared / "parity" / "metrics" / "io.safetensors")
    video = io["i3d_video"].permute(0, 4, 1, 2, 3).float() / 255
    torch.testing.assert_close(i3d(video), io["i3d_logits"], rtol=1e-3, atol=0)


@pytest.mark.network
def test_gradients_reach_the_video_only(i3d):
    video = torch.rand(1, 3, 9, 32, 32, requires_grad=True)
    i3d(video).square().sum().backward()
    assert video.grad is not None
    assert video.grad.isfinite().all()
    assert video.grad.abs().sum() > 0
    assert all(p.grad is None for p in i3d.parameters())


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (2, [2]), (3, [3]), (4, [2, 2]), (7, [2, 2, 3])])
def test_videos_go_two_by_two_and_none_alone(count: int, sizes: list[int]) -> None:
    parts = list(by_twos(range(count)))
    assert [len(part) for part in parts] == sizes
    assert [video for part in parts for video in part] == list(range(count))


@pytest.mark.network
@torch.inference_mode()
def test_a_video_among_others_is_the_same_alone(i3d: I3D) -> None:
    videos = torch.rand(3, 3, 9, 48, 48)
    alone = torch.cat([i3d(video) for video in videos.split(1)])
    torch.testing.assert_close(i3d(videos), alone, rtol=1e-3, atol=1e-4)


@pytest.mark.network
@torch.inference_mode()
def test_odd_lengths(i3d):
    assert i3d(torch.rand(1, 3, 17, 64, 64)).shape == (1, 400)
    with pytest.raises(ValueError, match="at least 9 frames, got 8"):
        i3d(torch.rand(1, 3, 8, 64, 64))


def test_prepare_resizes_frame_by_frame():
    video = torch.rand(2, 3, 9, 20, 30)
    found = prepare(video)
    frame = F.interpolate(video[1:, :, 4], (224, 224), mode="bilinear", align_corners=False)
    torch.testing.assert_close(found[1, :, 4], 2 * frame[0] - 1)
    exact = torch.rand(1, 3, 9, 224, 224)
    assert torch.equal(prepare(exact), 2 * exact - 1)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [(224, 7, 2, (2, 3)), (17, 7, 2, (3, 3)), (112, 3, 2, (0, 1)), (9, 3, 2, (1, 1)), (4, 2, 2, (0, 0))],
)
def test_same_padding(size, kernel, stride, padding):
    assert same_padding(size, kernel, stride) == padding
