import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from video_makers import pictures, worst_mean_difference

from adaptok.video import Frame, VideoError, centre_cropped, in_blocks, stretched, to_images, to_video


def test_every_byte_survives_the_trip_to_numbers_and_back():
    images = np.arange(256, dtype=np.uint8).repeat(3).reshape(4, 8, 8, 3)
    video = to_video(images)
    assert video.shape == (1, 3, 4, 8, 8)
    assert (video.min(), video.max()) == (0, 1)
    np.testing.assert_array_equal(to_images(video), images)


def test_numbers_out_of_range_are_clipped():
    assert to_images(torch.tensor([-0.2, 1.3]).reshape(1, 1, 1, 1, 2).expand(1, 3, 1, 1, 2)).tolist() == [
        [[[0] * 3, [255] * 3]]
    ]


@pytest.mark.parametrize("resize", [stretched, centre_cropped])
def test_the_right_size_passes_untouched(resize):
    images = np.stack(pictures(2))
    assert resize(images, 48, 64) is images


def test_stretching_back_keeps_smooth_pictures():
    images = np.stack(pictures(2, 47, 63))
    there = stretched(images, 96, 80)
    assert there.shape == (2, 96, 80, 3)
    assert worst_mean_difference(list(stretched(there, 47, 63)), list(images)) < 2


def test_reducing_does_not_alias():
    stripes = np.zeros((1, 64, 64, 3), np.uint8)
    stripes[:, :, ::2] = 255
    inner = stretched(stripes, 16, 16)[:, 2:-2, 2:-2]
    assert np.abs(inner.astype(int) - 127).max() < 16


def test_cropping_keeps_the_centre_and_the_shape():
    images = np.zeros((1, 40, 100, 3), np.uint8)
    images[:, :, 30:70] = 200
    assert (centre_cropped(images, 20, 20) == 200).all()
    assert (centre_cropped(images.swapaxes(1, 2).copy(), 20, 20) == 200).all()
    assert (centre_cropped(images, 80, 80) == 200).all()


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_any_size_to_any_size(h1, w1, h2, w2):
    images = np.full((1, h1, w1, 3), 77, np.uint8)
    for resize in (stretched, centre_cropped):
        found = resize(images, h2, w2)
        assert found.shape == (1, h2, w2, 3)
        assert (found == 77).all()


@given(st.integers(0, 20), st.integers(1, 6))
def test_blocks_hold_all_frames_and_only_repeat_the_last(count, size):
    frames = [Frame(np.full((2, 2, 3), i, np.uint8), 10 * i) for i in range(count)]
    blocks = list(in_blocks(iter(frames), size))
    assert [block.index for block in blocks] == list(range(-(-count // size)))
    assert [stamp for block in blocks for stamp in block.timestamps] == [10 * i for i in range(count)]
    assert all(len(block.images) == size for block in blocks)
    assert all(block.frames == size for block in blocks[:-1])
    shown = [int(image[0, 0, 0]) for block in blocks for image in block.images]
    assert shown == [min(i, count - 1) for i in range(len(shown))]


def test_a_block_comes_as_soon_as_its_last_frame_is_in():
    taken = []

    def frames():
        for i in range(9):
            taken.append(i)
            yield Frame(np.zeros((2, 2, 3), np.uint8), i)

    next(in_blocks(frames(), 4))
    assert taken == [0, 1, 2, 3]


def test_blocks_of_no_frames_are_refused():
    with pytest.raises(VideoError, match="at least 1"):
        list(in_blocks([], 0))
