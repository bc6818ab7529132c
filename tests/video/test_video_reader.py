import csv
import wave
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image
from video_makers import make_video, pictures, worst_mean_difference

from adaptok.video import VideoError, open_video


def read(path):
    with open_video(path) as reader:
        frames = list(reader)
    return reader, [frame.image for frame in frames], [frame.pts * reader.info.time_base for frame in frames]


CONTAINERS = {
    "a.mp4": {},
    "a.mov": {"codec": "mpeg4", "options": {"b": "4000000"}},
    "a.mkv": {},
    "a.avi": {"codec": "mpeg4", "options": {"b": "4000000"}},
    "a.webm": {"codec": "libvpx-vp9", "options": {"deadline": "realtime"}},
    "lossless.mkv": {"codec": "ffv1", "pixels": "bgr0"},
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("size", [(48, 64), (47, 63)])
def test_every_container_gives_its_frames(tmp_path, name, size):
    settings = dict(CONTAINERS[name])
    if size[0] % 2 and settings.get("codec", "libx264") == "libx264":
        settings["pixels"] = "yuv444p"
    images = pictures(10, *size)
    reader, found, times = read(make_video(tmp_path / name, images, **settings))
    assert (reader.info.height, reader.info.width) == size
    assert reader.info.fps == 25
    assert times == [Fraction(i, 25) for i in range(10)]
    assert reader.info.frame_count in (10, None)
    assert worst_mean_difference(found, images) < (1 if "lossless" in name else 6)
    assert reader.notes == ()


def test_gif(tmp_path):
    images = pictures(5)
    stills = [Image.fromarray(image) for image in images]
    stills[0].save(tmp_path / "a.gif", save_all=True, append_images=stills[1:], duration=[40, 80, 40, 40, 100])
    reader, found, times = read(tmp_path / "a.gif")
    assert times == [Fraction(t, 1000) for t in (0, 40, 120, 160, 200)]
    assert worst_mean_difference(found, images) < 8
    assert reader.info.frame_count == 5


@pytest.mark.parametrize("pixels", ["yuv420p10le", "yuv444p10le"])
def test_ten_bits(tmp_path, pixels):
    images = pictures(4)
    _, found, _ = read(make_video(tmp_path / "a.mp4", images, pixels=pixels))
    assert worst_mean_difference(found, images) < 4


def test_times_of_variable_frame_rate_are_kept(tmp_path):
    times = [0, 400, 1001, 1100, 5000, 5001, 9000]
    path = make_video(tmp_path / "a.mp4", pictures(7), times=times, time_base=Fraction(1, 30000))
    reader, _, found = read(path)
    assert found == [Fraction(t, 30000) for t in times]
    assert reader.notes == ()


TURNS = {
    (90, False): lambda image: np.rot90(image, 1),
    (180, False): lambda image: np.rot90(image, 2),
    (270, False): lambda image: np.rot90(image, 3),
    (0, True): np.fliplr,
    (180, True): np.flipud,
    (90, True): lambda image: np.fliplr(np.rot90(image, 1)),
    (270, True): lambda image: np.fliplr(np.rot90(image, 3)),
}


@pytest.mark.parametrize(("rotation", "mirrored"), TURNS)
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_the_display_matrix_is_applied(tmp_path, rotation, mirrored, suffix):
    images = pictures(2)
    path = make_video(tmp_path / f"a.{suffix}", images, rotation=rotation, mirrored=mirrored)
    reader, found, _ = read(path)
    expected = [TURNS[rotation, mirrored](image) for image in images]
    assert (reader.info.height, reader.info.width) == expected[0].shape[:2]
    assert worst_mean_difference(found, expected) < 4
    assert reader.notes == ("turned or mirrored as its metadata ask",)


def test_other_angles_are_left_with_a_note(tmp_path):
    reader, found, _ = read(make_video(tmp_path / "a.mp4", pictures(2), rotation=45))
    assert found[0].shape == (48, 64, 3)
    assert reader.notes == ("rotation by 45 degrees is not applied",)


@pytest.mark.parametrize(("orientation", "turn"), [(3, 2), (6, 3), (8, 1)])
def test_the_orientation_of_a_photograph(tmp_path, orientation, turn):
    image = pictures(1)[0]
    still = Image.fromarray(image)
    exif = still.getexif()
    exif[0x112] = orientation
    still.save(tmp_path / "a.jpg", exif=exif, quality=95)
    _, found, _ = read(tmp_path / "a.jpg")
    assert worst_mean_difference(found, [np.rot90(image, turn)]) < 4


def test_audio_is_ignored_with_a_note(tmp_path):
    reader, found, _ = read(make_video(tmp_path / "a.mp4", pictures(10), audio=True))
    assert len(found) == 10
    assert reader.notes == ("1 audio track ignored",)


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.tif", "palette.png", "a.mov"])
def test_transparency_is_shown_on_black(tmp_path, name):
    rgba = np.dstack([pictures(1)[0], np.full((48, 64), 255, np.uint8)])
    rgba[10:20], rgba[30:40, :, 3] = 0, 128
    if name == "a.mov":
        make_video(tmp_path / name, [rgba] * 2, codec="png", pixels="rgba")
    elif name == "palette.png":
        rgba[30:40, :, 3] = 255
        rgba[..., :3] //= 128
        rgba[..., :3] *= 255
        rgba[10:20] = 0
        Image.fromarray(rgba).quantize(16).save(tmp_path / name)
    else:
        Image.fromarray(rgba).save(tmp_path / name, **({"lossless": True} if name == "a.webp" else {}))
    reader, found, _ = read(tmp_path / name)
    assert (found[0][10:20] == 0).all()
    blended = (rgba[..., :3].astype(int) * rgba[..., 3:] + 127) // 255
    assert worst_mean_difference(found[:1], [blended.astype(np.uint8)]) < 1
    assert reader.notes == ("transparent pixels are shown on black",)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp", "tif", "ppm"])
def test_a_single_image_is_a_video_of_one_frame(tmp_path, suffix):
    image = pictures(1, 31, 45)[0]
    Image.fromarray(image).save(tmp_path / f"a.{suffix}", quality=95)
    reader, found, times = read(tmp_path / f"a.{suffix}")
    assert worst_mean_difference(found, [image]) < 4
    assert times == [0]
    assert reader.info.fps == 25


def test_a_folder_of_images_in_natural_order(tmp_path):
    images = pictures(12)
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"Frame {i}.png")
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden.png").write_text("not an image either")
    with open_video(tmp_path, image_fps=Fraction(12)) as reader:
        frames = list(reader)
    np.testing.assert_array_equal([frame.image for frame in frames], images)
    assert [frame.pts for frame in frames] == list(range(12))
    assert (reader.info.fps, reader.info.time_base, reader.info.frame_count) == (12, Fraction(1, 12), 12)
    assert reader.notes == ("1 files in the folder are not images and were ignored",)


def test_folders_with_a_wrong_image_name_it(tmp_path):
    Image.fromarray(pictures(1)[0]).save(tmp_path / "1.png")
    Image.fromarray(pictures(1, 20, 20)[0]).save(tmp_path / "2.png")
    with open_video(tmp_path) as reader, pytest.raises(VideoError, match=r"2\.png has size \(20, 20\)"):
        list(reader)
    (tmp_path / "2.png").write_bytes(b"no image")
    with open_video(tmp_path) as reader, pytest.raises(VideoError, match=r"2\.png"):
        list(reader)


def test_odd_names_are_just_names(tmp_path):
    for name in ("concat:a|b.mp4", "-i.mp4", "a%03d.png", "ünï code.mp4"):
        suffix = name.rsplit(".", 1)[1]
        if suffix == "png":
            Image.fromarray(pictures(1)[0]).save(tmp_path / name)
        else:
            make_video(tmp_path / "plain.mp4", pictures(2)).rename(tmp_path / name)
        assert read(tmp_path / name)[1][0].shape == (48, 64, 3)


def _unreadable(folder, name):
    path = folder / name
    if name == "noise.mp4":
        path.write_bytes(np.random.default_rng(0).bytes(5000))
    elif name == "empty.mp4":
        path.touch()
    elif name == "text.txt":
        path.write_text("once upon a time " * 50)
    elif name == "program.py":
        path.write_text("print(1)\n" * 50)
    elif name == "folder":
        path.mkdir()
    elif name == "headless.mp4":
        whole = make_video(folder / "whole.mp4", pictures(10)).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif name == "header.mp4":
        whole = make_video(folder / "whole.mp4", pictures(10), container_options={"movflags": "faststart"})
        data = whole.read_bytes()
        path.write_bytes(data[: data.index(b"mdat") + 4])
    elif name == "playlist.m3u8":
        path.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n")
    return path


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.mp4", "does not exist"),
        ("empty.mp4", "is empty"),
        ("noise.mp4", "is not a readable video"),
        ("text.txt", "is not a video: it looks like text"),
        ("program.py", "is not a"),
        ("folder", "is a folder without images"),
        ("headless.mp4", "is not a readable video"),
        ("header.mp4", "has no readable frames"),
        ("playlist.m3u8", "is not a readable video|no readable frames|no video track"),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(tmp_path, name, reason):
    path = _unreadable(tmp_path, name)
    with pytest.raises(VideoError, match=reason) as caught:
        open_video(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sound_alone_is_no_video(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(8000))
    with pytest.raises(VideoError, match="has no video track"):
        open_video(tmp_path / "a.wav")


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi"])
def test_a_cut_file_gives_what_is_left_and_a_note(tmp_path, name):
    settings = {"codec": "mpeg4"} if name == "a.avi" else {"container_options": {"movflags": "faststart"}}
    if name == "a.mkv":
        settings = {}
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (48, 64, 3), dtype=np.uint8) for _ in range(60)]
    path = make_video(tmp_path / name, images, **settings)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    reader, found, _ = read(path)
    assert 20 < len(found) < 60
    assert any("damaged" in note or "cut" in note for note in reader.notes)


def test_damage_in_the_middle_is_passed_over_with_a_note(tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (48, 64, 3), dtype=np.uint8) for _ in range(30)]
    path = make_video(tmp_path / "a.mp4", images, options={"g": "5", "bf": "0"})
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = bytes(3000)
    path.write_bytes(data)
    reader, found, times = read(path)
    assert 10 < len(found) < 30
    assert times == sorted(set(times))
    assert any("damaged" in note for note in reader.notes)


def test_a_video_is_read_once_and_closes(tmp_path):
    path = make_video(tmp_path / "a.mp4", pictures(3))
    with open_video(path) as reader:
        assert len(list(reader)) == 3
        with pytest.raises(VideoError, match="read once"):
            iter(reader)


def test_frames_are_decoded_lazily(tmp_path):
    path = make_video(tmp_path / "a.mp4", pictures(200))
    with open_video(path) as reader:
        assert next(iter(reader)).pts == 0


@pytest.mark.parametrize("clip", ["val/face", "val/animal", "val/vehicle", "val/sport"])
def test_real_clips_are_as_the_manifest_says(shared, clip):
    manifest = (shared / "videos" / "manifest.csv").read_text().splitlines()
    rows = [row for row in csv.DictReader(manifest) if row["file"].startswith(clip)]
    row = min(rows, key=lambda row: int(row["frames"]) * int(row["width"]) * int(row["height"]))
    reader, found, times = read(shared / "videos" / row["file"])
    assert len(found) == int(row["frames"])
    assert found[0].shape == (int(row["height"]), int(row["width"]), 3)
    assert float(reader.info.fps) == pytest.approx(float(row["fps"]), rel=0.01)
    assert times == sorted(times)
