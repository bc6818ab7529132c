"""From any video file to a stream and back to a video: count, size, rate and times return."""

import sys
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "video"))

from video_makers import make_video, picture, pictures

from adaptok import Budget, Codec, Spending
from adaptok.stream.convert import decode_file, encode_file
from adaptok.stream.files import open_tokens
from adaptok.video import open_video
from tiny_models import tiny_bundle

SPENDING = Spending(budget=Budget(per_block=4))


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec(tiny_bundle(dtype=torch.float32))


@dataclass(frozen=True)
class Kind:
    """How a video is made, and whether its times need storing."""

    name: str
    making: dict[str, Any] = field(default_factory=dict)
    stamped: bool = False
    size: tuple[int, int] = (48, 64)


VARIABLE = {"times": [0, 400, 1001, 1100, 5000, 5001, 9000], "time_base": Fraction(1, 30000)}
KINDS = {
    "mp4": Kind("a.mp4"),
    "mp4 at a film's rate": Kind("a.mp4", {"fps": Fraction(30000, 1001)}),
    "mkv, whose clock ticks in milliseconds": Kind("a.mkv", {"fps": Fraction(30)}),
    "webm": Kind("a.webm", {"codec": "libvpx-vp9", "fps": Fraction(30)}),
    "avi": Kind("a.avi", {"codec": "mpeg4"}),
    "odd size": Kind("a.mkv", {"pixels": "yuv444p"}, size=(47, 63)),
    "ten bits": Kind("a.mp4", {"pixels": "yuv420p10le"}),
    "variable rate": Kind("a.mp4", VARIABLE, stamped=True),
    "turned": Kind("a.mp4", {"rotation": 90}),
    "with sound": Kind("a.mp4", {"audio": True}),
}


def facts(path: Path) -> tuple[int, tuple[int, int], Fraction, list[Fraction]]:
    with open_video(path) as video:
        times = [frame.pts * video.info.time_base for frame in video]
        return len(times), (video.info.height, video.info.width), video.info.fps, times


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_facts_return(codec: Codec, tmp_path: Path, kind: Kind) -> None:
    source = make_video(tmp_path / kind.name, pictures(7, *kind.size), **kind.making)
    stream, back = tmp_path / "a.adtk", tmp_path / f"back{source.suffix if source.suffix != '.avi' else '.mp4'}"
    report = encode_file(codec, str(source), str(stream), SPENDING)
    assert (report.frames, report.blocks) == (7, 4)
    with open_tokens(stream) as reader:
        assert reader.header.has_timestamps == kind.stamped
    decode_file(codec, str(stream), str(back))
    count, size, fps, times = facts(source)
    found = facts(back)
    assert found[:2] == (count, size)
    if kind.stamped or source.suffix == ".mp4":
        assert found[3] == times
    else:
        assert found[3] == pytest.approx(times, abs=1e-3)
    if not kind.stamped:
        assert found[2] == fps


def test_a_gif_an_image_and_a_folder(codec: Codec, tmp_path: Path) -> None:
    make_video(tmp_path / "a.gif", pictures(5), codec="gif", pixels="rgb8", fps=Fraction(10))
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(6):
        with av.open(str(folder / f"{number}.png"), "w") as file:
            stream = file.add_stream("png")
            stream.height, stream.width, stream.pix_fmt = 20, 30, "rgba"
            image = np.dstack([picture(number, 20, 30), np.full((20, 30), 200, np.uint8)])
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgba")))
            file.mux(stream.encode())
    for source, frames in ((tmp_path / "a.gif", 5), (folder, 6), (folder / "3.png", 1)):
        stream, back = tmp_path / f"{source.name}.adtk", tmp_path / f"{source.stem}-back"
        encode_file(codec, str(source), str(stream), SPENDING)
        decode_file(codec, str(stream), str(back))
        assert facts(back)[:2] == (frames, facts(source)[1])


@pytest.mark.parametrize("label", ["animal", "face", "people", "sport", "vehicle"])
def test_real_clips(shared: Path, codec: Codec, tmp_path: Path, label: str) -> None:
    source = sorted((shared / "videos" / "val" / label).glob("*.mp4"))[-1]
    encode_file(codec, str(source), str(tmp_path / "a.adtk"), SPENDING)
    decode_file(codec, str(tmp_path / "a.adtk"), str(tmp_path / "back.mp4"))
    assert facts(tmp_path / "back.mp4") == facts(source)


def test_what_a_budget_cannot_buy_is_noted(codec: Codec, tmp_path: Path) -> None:
    source = make_video(tmp_path / "a.mp4", pictures(6))
    spending = Spending(budget=Budget(per_block=13 / 3))
    (note,) = encode_file(codec, str(source), str(tmp_path / "a.adtk"), spending).notes
    assert note == "12 of 13 tokens were spent: no lengths add up to more of them"
    spending = Spending(budget=Budget(quality=-1e3))
    (note,) = encode_file(codec, str(source), str(tmp_path / "b.adtk"), spending).notes
    assert note.endswith("no lengths bring it down to -1000")
