import os
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from video_makers import make_video, pictures, worst_mean_difference

from adaptok.video import ComparisonWriter, OutputError, create_video, open_video, side_by_side, token_bars, whole_file

RATES = [Fraction(25), Fraction(30000, 1001), Fraction(24000, 1001), Fraction(60), Fraction(15, 2)]


def write(path, images, *, fps=Fraction(25), times=None, time_base=None, overwrite=False):
    height, width = images[0].shape[:2]
    base = time_base or 1 / fps
    with create_video(path, height=height, width=width, fps=fps, time_base=base, overwrite=overwrite) as writer:
        for i, image in enumerate(images):
            writer.write(image, times[i] if times else i)


def read(path):
    with open_video(path) as reader:
        frames = list(reader)
    return reader, [frame.image for frame in frames], [frame.pts * reader.info.time_base for frame in frames]


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.mkv", "a.webm", "a.gif", "folder"])
@pytest.mark.parametrize("size", [(48, 64), (47, 63), (46, 63), (2, 2), (1, 1)])
def test_what_is_written_returns(tmp_path, name, size):
    images = pictures(9, *size)
    write(tmp_path / name, images)
    reader, found, times = read(tmp_path / name)
    assert len(found) == 9
    assert (reader.info.height, reader.info.width) == size
    assert reader.info.fps == 25
    assert times == [Fraction(i, 25) for i in range(9)]
    limit = {"folder": 1e-9, "a.gif": 8}.get(name, 6)
    # Two by two pixels share one colour in 4:2:0, so there only the shape can be asked for.
    assert worst_mean_difference(found, images) < (limit if size != (2, 2) else 30)
    assert reader.notes == ()
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("suffix", ["mp4", "mov"])
def test_frame_rate_and_times_return_exactly(tmp_path, fps, suffix):
    write(tmp_path / f"a.{suffix}", pictures(9), fps=fps)
    reader, _, times = read(tmp_path / f"a.{suffix}")
    assert reader.info.fps == fps
    assert times == [i / fps for i in range(9)]


@pytest.mark.parametrize("start", [0, 777])
@pytest.mark.parametrize("base", [Fraction(1, 90000), Fraction(1, 1000), Fraction(1001, 30000)])
def test_variable_frame_rate_returns_exactly(tmp_path, base, start):
    times = [start + t for t in (0, 1, 2, 40, 90, 91, 200)]
    write(tmp_path / "a.mp4", pictures(7), times=times, time_base=base)
    assert read(tmp_path / "a.mp4")[2] == [t * base for t in times]


@pytest.mark.parametrize(("name", "clock"), [("a.mkv", 1000), ("a.webm", 1000), ("a.gif", 100)])
def test_coarse_clocks_keep_times_within_their_tick(tmp_path, name, clock):
    base, times = Fraction(1, 30000), [0, 1001, 2002, 9000, 9001, 15015]
    write(tmp_path / name, pictures(6), times=times, time_base=base)
    found = read(tmp_path / name)[2]
    assert found == sorted(set(found))
    assert max(abs(t * base - f) for t, f in zip(times, found, strict=True)) <= Fraction(1, clock)


def test_colours_return(tmp_path):
    patches = [np.full((64, 64, 3), c, np.uint8) for c in ((255, 0, 0), (0, 255, 0), (0, 0, 255), (128, 128, 128))]
    for name in ("a.mp4", "a.webm", "a.gif"):
        write(tmp_path / name, patches)
        assert worst_mean_difference(read(tmp_path / name)[1], patches) < 4


def test_even_mp4_is_what_every_player_takes(tmp_path):
    write(tmp_path / "a.mp4", pictures(3))
    with av.open(str(tmp_path / "a.mp4")) as container:
        track = container.streams.video[0]
        assert (track.codec_context.name, track.codec_context.pix_fmt) == ("h264", "yuv420p")


@pytest.mark.parametrize("name", ["a.mp4", "a.gif", "folder"])
def test_an_error_or_interrupt_leaves_nothing(tmp_path, name):
    def interrupted():
        with create_video(tmp_path / name, height=48, width=64, fps=Fraction(25), time_base=Fraction(1, 25)) as writer:
            writer.write(pictures(1)[0], 0)
            assert not (tmp_path / name).exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.mp4", "a.gif", "folder"])
def test_nothing_is_overwritten_unless_told(tmp_path, name):
    write(tmp_path / name, pictures(2))
    with pytest.raises(OutputError, match="exists; it is replaced only when asked for"):
        write(tmp_path / name, pictures(3))
    assert len(read(tmp_path / name)[1]) == 2
    write(tmp_path / name, pictures(3), overwrite=True)
    assert len(read(tmp_path / name)[1]) == 3
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_a_failed_overwrite_keeps_the_old_file(tmp_path):
    write(tmp_path / "a.mp4", pictures(2))
    with pytest.raises(OutputError, match="has size"):
        write(tmp_path / "a.mp4", [*pictures(2), np.zeros((4, 4, 3), np.uint8)], overwrite=True)
    assert len(read(tmp_path / "a.mp4")[1]) == 2


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_text("precious")
    with pytest.raises(OutputError, match=r"holds holiday\.jpg"):
        write(tmp_path / "photos", pictures(2), overwrite=True)
    assert (tmp_path / "photos" / "holiday.jpg").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.xyz", r"\.mp4, \.mov, \.mkv, \.webm, \.gif or a name without suffix"),
        ("nowhere/a.mp4", "cannot write .*nowhere/a.mp4: No such file or directory"),
        ("nowhere/folder", "cannot write .*nowhere/folder: No such file or directory"),
        ("file/a.mp4", "cannot write .*: Not a directory"),
        ("taken.mp4", "it is a folder"),
        ("file", "it is not a folder"),
        ("x" * 300 + ".mp4", "cannot write .*: File name too long"),
    ],
)
def test_paths_that_cannot_be_written_give_one_line(tmp_path, name, reason):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "taken.mp4").mkdir()
    with pytest.raises(OutputError, match=reason) as caught:
        write(tmp_path / name, pictures(1), overwrite=True)
    assert "\n" not in str(caught.value)


def test_devices_are_not_replaced():
    with pytest.raises(OutputError, match="cannot write"):
        write("/dev/null.mp4/x.mp4", pictures(1))
    with pytest.raises(OutputError, match="not a regular file"), whole_file(Path("/dev/null"), overwrite=True):
        pass


@pytest.mark.parametrize("name", ["a.mp4", "folder"])
def test_a_full_disk_leaves_nothing(tmp_path, name):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    noise = [np.random.default_rng(i).integers(0, 255, (128, 128, 3), dtype=np.uint8) for i in range(40)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
    try:
        with pytest.raises(OutputError, match=f"cannot write .*{name}: File too large") as caught:
            write(tmp_path / name, noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_frames_must_fit_and_follow(tmp_path):
    with pytest.raises(OutputError, match="there are no frames"):
        create_video(tmp_path / "a.mp4", height=8, width=8, fps=Fraction(1), time_base=Fraction(1)).close()
    with pytest.raises(OutputError, match="frame 1 is shown at 0, not after"):
        write(tmp_path / "a.mp4", pictures(2), times=[0, 0])
    assert list(tmp_path.iterdir()) == []
    writer = create_video(tmp_path / "a.mp4", height=48, width=64, fps=Fraction(1), time_base=Fraction(1))
    writer.write(pictures(1)[0], 0)
    writer.close()
    writer.close()
    with pytest.raises(OutputError, match="already finished"):
        writer.write(pictures(1)[0], 1)


def test_a_photograph_becomes_a_video_of_one_frame(tmp_path):
    write(tmp_path / "stills", pictures(1, 31, 45))
    write(tmp_path / "a.mp4", read(tmp_path / "stills")[1])
    assert len(read(tmp_path / "a.mp4")[1]) == 1


def test_reading_and_writing_a_real_clip(shared, tmp_path):
    path = sorted((shared / "videos" / "val" / "face").glob("*.mp4"))[0]
    reader, images, times = read(path)
    base = reader.info.time_base
    write(tmp_path / "a.mp4", images, fps=reader.info.fps, times=[int(t / base) for t in times], time_base=base)
    again, found, found_times = read(tmp_path / "a.mp4")
    assert found_times == times
    assert again.info.fps == reader.info.fps
    assert worst_mean_difference(found, images) < 4


def test_bars_have_the_height_of_their_share():
    panel = token_bars([64, 0, 32], 64, 80)
    assert panel.shape == (80, 160, 3)
    blue = panel[:, :, 0] < 200
    assert blue[16:, 0].all()
    assert not blue[16:, 10].any()
    assert blue[:, 20][16:].sum() == 32
    assert (panel[-1, 20] != panel[-1, 0]).any()


def test_the_panel_keeps_the_latest_bars():
    np.testing.assert_array_equal(token_bars(list(range(40)), 64, 80), token_bars(list(range(24, 40)), 64, 80))


def test_side_by_side_shows_both_pictures_enlarged():
    left, right = pictures(2, 47, 63)
    canvas = side_by_side(left, right, [3, 7], 8, enlarge=2)
    assert canvas.shape == (94, 2 * (126 + 8) + 160, 3)
    np.testing.assert_array_equal(canvas[:94:2, :126:2], left)
    np.testing.assert_array_equal(canvas[:94:2, 134:260:2], right)


def test_the_comparison_video(tmp_path):
    images = pictures(12)
    with ComparisonWriter(
        tmp_path / "a.mp4", height=48, width=64, fps=Fraction(25), time_base=Fraction(1, 25), most=64
    ) as writer:
        for i, image in enumerate(images):
            writer.write(image, 255 - image, i, block=i // 4, kept=(20, 64, 5)[i // 4])
    reader, found, _ = read(tmp_path / "a.mp4")
    assert len(found) == 12
    assert reader.info.height == 192
    assert worst_mean_difference([found[0][::4, : 4 * 64 : 4]], images[:1]) < 6
    dark = [[(frame[-4, 2 * (256 + 8) + 10 * bar + 4] < 120).any() for bar in range(4)] for frame in found[::4]]
    assert dark == [[True, False, False, False], [False, True, False, False], [False, False, True, False]]
    with pytest.raises(OutputError, match="at most 0 tokens"):
        ComparisonWriter(tmp_path / "b.mp4", height=4, width=4, fps=Fraction(1), time_base=Fraction(1), most=0)


def test_a_written_video_can_be_read_by_the_maker_of_this_test(tmp_path):
    """The other way round: what PyAV alone writes, we read and write again."""
    make_video(tmp_path / "a.mkv", pictures(5))
    _, images, _ = read(tmp_path / "a.mkv")
    write(tmp_path / "b.mp4", images)
    with av.open(str(tmp_path / "b.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == 5


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is writable for root")
def test_a_folder_without_permission_gives_one_line(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        write(tmp_path / "closed" / "a.mp4", pictures(1))
