"""Which windows are looked at: by content and seed alone, inside the video, whatever its header says."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from evaluation_makers import GEOMETRY, make_videos

from adaptok.evaluation.clips import ABSENT, content_of, read_windows, spread
from adaptok.training.listing import Entry, list_videos
from adaptok.video import VideoError, VideoInfo, centre_cropped, open_video
from adaptok.video.container import ContainerReader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_videos(tmp_path_factory.mktemp("clips") / "videos", 2, frames=40)


def entry_of(path: Path) -> Entry:
    return Entry(path, path.name, "")


def frames_of(path: Path) -> np.ndarray:
    with open_video(path) as video:
        return np.stack([frame.image for frame in video])


def test_windows_are_cut_and_cropped(folder: Path) -> None:
    entry = entry_of(folder / "v0.mp4")
    windows = read_windows(entry, content_of(entry), GEOMETRY, 3, seed=0)
    starts = [window.start for window in windows]
    assert starts == sorted(set(starts))
    assert len(starts) == 3
    frames = frames_of(entry.path)
    for window in windows:
        expected = centre_cropped(frames[window.start : window.start + 12], 32, 32)
        assert np.array_equal(window.images, expected)
        assert window.fps == 24


def test_places_depend_on_content_and_seed_not_on_names(folder: Path, tmp_path: Path) -> None:
    entry = entry_of(folder / "v0.mp4")
    copy = tmp_path / "renamed.mp4"
    copy.write_bytes(entry.path.read_bytes())
    assert content_of(entry) == content_of(entry_of(copy))

    def starts(path: Path, seed: int) -> list[int]:
        found = entry_of(path)
        return [window.start for window in read_windows(found, content_of(found), GEOMETRY, 4, seed)]

    assert starts(copy, 0) == starts(entry.path, 0)
    assert starts(entry.path, 0) != starts(entry.path, 1)
    assert starts(entry.path, 0) != starts(folder / "v1.mp4", 0)


def test_no_more_windows_than_places(tmp_path: Path) -> None:
    entry = entry_of(make_videos(tmp_path, 1, frames=13) / "v0.mp4")
    assert [w.start for w in read_windows(entry, content_of(entry), GEOMETRY, 5, seed=0)] == [0, 1]


@pytest.mark.parametrize("announced", [None, 4000, 3])
def test_a_wrong_frame_count_does_no_harm(folder: Path, announced: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(folder / "v0.mp4")
    honest = [w.start for w in read_windows(entry, content_of(entry), GEOMETRY, 2, seed=0)]
    opened = ContainerReader._open_track

    def lie(self: ContainerReader) -> None:
        opened(self)
        i = self.info
        self.info = VideoInfo(height=i.height, width=i.width, fps=i.fps, time_base=i.time_base, frame_count=announced)

    monkeypatch.setattr(ContainerReader, "_open_track", lie)
    assert [w.start for w in read_windows(entry, content_of(entry), GEOMETRY, 2, seed=0)] == honest


def test_a_short_video_is_refused(tmp_path: Path) -> None:
    entry = entry_of(make_videos(tmp_path, 1, frames=11) / "v0.mp4")
    with pytest.raises(VideoError, match="v0.mp4 has 11 frames, a clip has 12"):
        read_windows(entry, content_of(entry), GEOMETRY, 1, seed=0)


def test_an_absent_file_has_no_content(tmp_path: Path) -> None:
    entry = entry_of(tmp_path / "gone.mp4")
    assert content_of(entry) == ABSENT
    with pytest.raises(VideoError, match="does not exist"):
        read_windows(entry, ABSENT, GEOMETRY, 1, seed=0)


def test_a_video_inside_a_shard_is_the_same_video(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for name in ("v0.mp4", "v1.mp4"):
            tar.add(folder / name, name)
    (first, _) = list_videos(tmp_path / "shard.tar", "val")
    plain = entry_of(folder / "v0.mp4")
    assert content_of(first) == content_of(plain)
    (inside,), (outside,) = (read_windows(e, content_of(e), GEOMETRY, 1, 0) for e in (first, plain))
    assert np.array_equal(inside.images, outside.images)


def test_a_few_videos_are_spread_over_the_list() -> None:
    entries = [Entry(Path(str(i)), str(i), "") for i in range(10)]
    assert [e.name for e in spread(entries, 3)] == ["0", "3", "6"]
    assert spread(entries, None) == spread(entries, 20) == tuple(entries)
