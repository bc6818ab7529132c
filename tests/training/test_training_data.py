"""What comes out of the data pipeline, and that it depends on nothing but seed, epoch and index."""

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from training_makers import moving_pictures, write_video

from adaptok.training.augment import training_clip, validation_clip
from adaptok.training.clips import Clips, Draw, Order, batches, some_clips, validation_batch
from adaptok.training.curriculum import Stage, samples_before
from adaptok.training.data_settings import AugmentConfig
from adaptok.training.frames import Film, FrameStore, decode, open_store
from adaptok.training.listing import Entry, labels, list_videos
from adaptok.video import Marks, VideoError
from adaptok.video.container import ContainerReader

ALL = AugmentConfig(
    crop=(0.4, 1.0), flip=0.5, transpose=0.5, reverse=0.5, strides=(1, 2, 3), colour=0.3, gamma=0.3, stills=0.4
)
STAGES = (Stage(start=0, blocks=1, batch=4), Stage(start=3, blocks=2, batch=2))


def test_folder_gives_splits_and_labels(corpus: Path) -> None:
    entries = list_videos(corpus, "train")
    assert len(entries) == 6
    assert labels(entries) == ("class0", "class1")
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    assert not {e.path for e in entries} & {e.path for e in list_videos(corpus, "val")}


def test_folder_without_splits_is_taken_whole(corpus: Path) -> None:
    assert len(list_videos(corpus / "train", "train")) == 6


def test_manifest(corpus: Path, tmp_path: Path) -> None:
    rows = ["file,split,label"] + [f"{e.path},train,x" for e in list_videos(corpus, "train")]
    manifest = tmp_path / "manifest.csv"
    manifest.write_text("\n".join([*rows, "gone.mp4,val,y"]))
    assert len(list_videos(manifest, "train")) == 6
    assert [e.label for e in list_videos(manifest, "val")] == ["y"]


def test_manifest_without_files_names_the_column(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("path,split\na.mp4,train\n")
    with pytest.raises(ValueError, match="no column 'file'"):
        list_videos(tmp_path / "m.csv", "train")


def test_parquet_manifest(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "file": ["b.mp4", "a.mp4", "sub/c.mp4", "d.mp4"],
        "split": ["train", "train", "val", "train"],
        "label": ["x", "y", "x", None],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "m.parquet")
    train, val = (list_videos(tmp_path / "m.parquet", split) for split in ("train", "val"))
    assert [(e.name, e.label) for e in train] == [("a.mp4", "y"), ("b.mp4", "x"), ("d.mp4", "")]
    assert labels(train) == ("", "x", "y")
    assert [(e.path, e.label) for e in val] == [(tmp_path / "sub" / "c.mp4", "x")]
    parquet.write_table(pyarrow.table({"path": ["a.mp4"]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="no column 'file'; it has path"):
        list_videos(tmp_path / "other.parquet", "train")


@pytest.mark.parametrize("name", ["m.parquet", "m.csv"])
@pytest.mark.parametrize("content", [b"PAR1\xff\xfe\x00 rubbish", b"\xff\x00"])
def test_broken_manifests_are_one_clear_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} is not a readable (Parquet|CSV) file: ") as caught:
        list_videos(tmp_path / name, "train")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [lambda p: p / "absent", lambda p: p])
def test_no_videos_is_one_clear_line(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="no data at|no videos"):
        list_videos(make(tmp_path), "train")


def test_shards_give_the_same_frames_as_files(corpus: Path, tmp_path: Path) -> None:
    files = list_videos(corpus / "train", "train")
    with tarfile.open(tmp_path / "train-000.tar", "w") as tar:
        for i, entry in enumerate(files):
            tar.add(entry.path, f"{i:03d}.mp4")
            label = tarfile.TarInfo(f"{i:03d}.cls")
            label.size = len(entry.label)
            tar.addfile(label, io.BytesIO(entry.label.encode()))
    shards = list_videos(tmp_path, "train")
    assert [e.label for e in shards] == [e.label for e in files]
    for a, b in zip(open_none(files).entries, open_none(shards).entries, strict=True):
        assert a.label == b.label
    assert np.array_equal(open_none(files).frames(3)[:], open_none(shards).frames(3)[:])


def open_none(entries) -> FrameStore:  # type: ignore[no-untyped-def]
    return open_store(entries, "none", None, 40)


def test_all_caches_give_the_same_frames(corpus: Path, tmp_path: Path) -> None:
    entries = list_videos(corpus, "val")
    stores = [open_store(entries, kind, tmp_path, 40) for kind in ("none", "memory", "disk")]
    for number in range(len(entries)):
        first, *others = [store.frames(number)[:] for store in stores]
        assert first.shape == (20, 40, 53, 3)
        assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {"g": "7", "bf": "2"}),
        ("a.mkv", "libx264", {"g": "7", "bf": "2", "x264-params": "open-gop=1"}),
        ("a.avi", "mpeg4", {"g": "6", "bf": "2"}),
        ("a.mpg", "mpeg2video", {"g": "6"}),
        ("a.webm", "libvpx", {"g": "6"}),
    ],
)
def test_uncached_frames_are_those_of_a_full_pass(
    tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    write_video(tmp_path / name, seed=4, count=40, codec=codec, options=options)
    entry = Entry(tmp_path / name, name, "")
    every = decode(entry, 24)
    film = open_store([entry], "none", None, 24).frames(0)
    assert len(film) == len(every) == 40
    for start in range(0, 37, 3):
        assert np.array_equal(film[start : start + 9 : 2], every[start : start + 9 : 2]), start
    assert np.array_equal(film[np.array([30, 12, 30])], every[[30, 12, 30]])
    assert np.array_equal(film[39], every[39])


def test_only_what_is_asked_for_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(tmp_path / "a.mp4", seed=4, count=200, options={"g": "10"})
    film = open_store([Entry(path, "a", "")], "none", None, 24).frames(0)
    decoded, packets = ContainerReader._decoded, []

    def counted(self: ContainerReader) -> Iterator[av.VideoFrame]:
        for frame in decoded(self):
            packets.append(frame.pts)
            yield frame

    monkeypatch.setattr(ContainerReader, "_decoded", counted)
    assert film[154:158].shape == (4, 24, 32, 3)
    # The very first frame, which tells the size, then from the key frame on.
    assert len(packets) == 1 + 8


def test_a_video_that_cannot_be_entered_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", seed=4, count=30, options={"g": "10"})
    every = decode(Entry(path, "a", ""), 24)
    wrong = Film(Entry(path, "a", ""), 24, Marks(30, (0, 11), (0, 12345)))
    assert np.array_equal(wrong[15:18], every[15:18])
    with pytest.raises(VideoError, match="no such frame"):
        Film(Entry(path, "a", ""), 24, Marks(40))[35]


def test_cache_is_built_once_and_goes_on_where_it_stopped(corpus: Path, tmp_path: Path) -> None:
    entries = list_videos(corpus, "train")
    open_store(entries[:2], "disk", tmp_path, 40)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    open_store(entries, "disk", tmp_path, 40)
    after = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(before) == 2
    assert len(after) == 6
    assert before.items() <= after.items()


def test_unreadable_videos_are_reported_and_skipped(
    corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_video(tmp_path / "v" / "good.mp4", seed=1)
    (tmp_path / "v" / "bad.mp4").write_bytes(b"not a video")
    entries = list_videos(tmp_path / "v", "train")
    store = open_store(entries, "disk", tmp_path / "cache", 40)
    assert [entry.name for entry in store.entries] == ["good.mp4"]
    assert "bad.mp4 is left out" in caplog.text
    caplog.clear()
    clips = Clips(open_none(entries), (32, 32), AugmentConfig(), seed=0)
    assert clips[Draw(0, 0, 4)].name == "good.mp4"
    assert "bad.mp4 is left out" in caplog.text


def test_unreadable_validation_videos_are_skipped_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_video(tmp_path / "v" / "good.mp4", seed=1)
    (tmp_path / "v" / "bad.mp4").write_bytes(b"not a video")
    batch = validation_batch(open_none(list_videos(tmp_path / "v", "val")), 2, 8, (32, 32))
    assert batch.names == ("good.mp4", "good.mp4")
    assert "bad.mp4 is left out" in caplog.text


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"not a video")
    with pytest.raises(ValueError, match="none of the 1 videos"):
        open_store(list_videos(tmp_path, "train"), "disk", tmp_path / "cache", 40)


@pytest.mark.parametrize("length", [1, 2, 5, 40])
@pytest.mark.parametrize("size", [(32, 32), (16, 48)])
def test_clips_have_the_asked_shape_whatever_the_video(length: int, size: tuple[int, int]) -> None:
    frames = moving_pictures(length, 40, 56, seed=3)
    for seed in range(20):
        clip = training_clip(frames, 8, size, ALL, np.random.default_rng(seed))
        assert clip.shape == (3, 8, *size)
        assert clip.dtype == torch.uint8
    assert validation_clip(frames, 8, size).shape == (3, 8, *size)


def test_each_variation_is_seen() -> None:
    frames = moving_pictures(40, 40, 56, seed=3)
    plain = AugmentConfig(crop=(1.0, 1.0), flip=0.0)
    for change in (
        {"flip": 1.0},
        {"transpose": 1.0},
        {"reverse": 1.0},
        {"strides": (2,)},
        {"gamma": 1.0},
        {"stills": 1.0},
        {"cuts": 1.0},
    ):
        config = AugmentConfig(**{"crop": (1.0, 1.0), "flip": 0.0, **change})
        pairs = [
            [training_clip(frames, 4, (32, 32), c, np.random.default_rng(seed)) for c in (plain, config)]
            for seed in range(3)
        ]
        assert any(not torch.equal(a, b) for a, b in pairs), change


def test_a_cut_changes_the_scene_once() -> None:
    frames = np.repeat(moving_pictures(1, 80, 120, seed=5), 20, axis=0)  # stands still: only a cut moves
    still = AugmentConfig(flip=0.0, cuts=1.0)
    places = []
    for seed in range(40):
        clip = training_clip(frames, 8, (32, 32), still, np.random.default_rng(seed)).float()
        moved = (clip[:, 1:] - clip[:, :-1]).abs().amax(dim=(0, 2, 3)) > 0
        assert moved.sum() <= 1
        places += moved.nonzero().flatten().tolist()
    assert set(places) == set(range(7)), "any frame but the first may begin the other scene"


def test_pans_move_smoothly_and_stay_inside() -> None:
    frames = moving_pictures(2, 80, 120, seed=5)
    still = AugmentConfig(stills=1.0, flip=0.0)
    clip = training_clip(frames, 8, (32, 32), still, np.random.default_rng(1)).float()
    steps = (clip[:, 1:] - clip[:, :-1]).abs().mean(dim=(0, 2, 3))
    assert (steps > 0).all()
    assert steps.max() < 40


def test_samples_do_not_depend_on_workers(corpus: Path, tmp_path: Path) -> None:
    store = open_store(list_videos(corpus, "train"), "disk", tmp_path, 40)
    clips = Clips(store, (32, 32), ALL, seed=7)
    order = Order(len(store), STAGES, 4, seed=7, first=2, rank=0, ranks=1)
    alone, shared = batches(clips, order, workers=0), batches(clips, order, workers=2)
    for _ in range(3):
        a, b = next(alone), next(shared)
        assert a.names == b.names
        assert torch.equal(a.clips, b.clips)
        assert torch.equal(a.labels, b.labels)


def draws(first: int, count: int, rank: int = 0, ranks: int = 1) -> list[list[Draw]]:
    iterator = iter(Order(5, STAGES, 4, seed=1, first=first, rank=rank, ranks=ranks))
    return [next(iterator) for _ in range(count)]


def test_order_can_be_entered_at_any_step() -> None:
    assert draws(0, 8)[4:] == draws(4, 4)


def test_every_epoch_sees_every_video_once() -> None:
    flat = [draw for step in draws(0, 10) for draw in step]
    for epoch in range(4):
        assert sorted(draw.video for draw in flat if draw.epoch == epoch) == list(range(5))


def test_processes_share_each_batch() -> None:
    whole, parts = draws(0, 6), [draws(0, 6, rank, 2) for rank in range(2)]
    assert whole == [a + b for a, b in zip(*parts, strict=True)]


def test_stages_change_batch_and_clip_length() -> None:
    steps = draws(2, 2)
    assert [len(step) for step in steps] == [4, 2]
    assert [step[0].frames for step in steps] == [4, 8]
    assert [samples_before(STAGES, step) for step in range(6)] == [0, 4, 8, 12, 14, 16]


def test_a_batch_that_processes_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match="batch of 4 cannot be shared by 3"):
        draws(0, 1, 0, 3)


def test_some_clips_and_validation_are_fixed(corpus: Path, tmp_path: Path) -> None:
    store = open_store(list_videos(corpus, "val"), "disk", tmp_path, 40)
    clips = Clips(store, (32, 32), ALL, seed=7)
    assert torch.equal(some_clips(clips, 5, 4).clips, some_clips(clips, 5, 4).clips)
    assert len(some_clips(clips, 5, 4).names) == 5
    one, two = (validation_batch(store, 2, 8, (32, 32)) for _ in range(2))
    assert torch.equal(one.clips, two.clips)
    assert len(one.names) == 2


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_processes_share_the_validation_clips(corpus: Path, tmp_path: Path, ranks: int) -> None:
    store = open_store(list_videos(corpus, "val"), "disk", tmp_path, 40)
    whole = validation_batch(store, 3, 8, (32, 32))
    parts = [validation_batch(store, 3, 8, (32, 32), rank, ranks) for rank in range(ranks)]
    assert len({len(part.names) for part in parts}) == 1
    assert torch.equal(torch.cat([part.clips for part in parts])[:3], whole.clips)


def test_processes_begin_the_cache_at_different_places(corpus: Path, tmp_path: Path) -> None:
    entries = list_videos(corpus, "train")
    seen: list[list[str]] = []

    def track(items: Iterable[Path | None], _: int) -> Iterable[Path | None]:
        files = list(items)
        seen.append([str(file) for file in files])
        return files

    one, two = (open_store(entries, "disk", tmp_path, 40, 0, first, track) for first in (0, 4))
    assert one.entries == two.entries == entries
    assert seen[1] == seen[0][4:] + seen[0][:4]
    assert all(np.array_equal(one.frames(n), two.frames(n)) for n in range(len(entries)))
