"""encode, decode, info, truncate, reconstruct: as people use them, in the shell."""

import io
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from adaptok.cli import main
from adaptok.video import create_video, open_video
from tiny_models import tiny_bundle

ADAPTOK = str(Path(sys.executable).parent / "adaptok")
SIZE = (18, 26)


def run(*arguments: object, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [ADAPTOK, *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "test"
    tiny_bundle(dtype=torch.float32).save(folder)
    return folder


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("videos") / "in.mp4"
    rng = np.random.default_rng(0)
    with create_video(path, height=SIZE[0], width=SIZE[1], fps=Fraction(30), time_base=Fraction(1, 30)) as writer:
        for i in range(13):
            writer.write(rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8), i)
    return path


@pytest.fixture(scope="module")
def stream(model: Path, video: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "a.adtk"
    result = run("encode", video, path, "--model", model, "--tokens-per-block", 4, "--scores")
    assert result.returncode == 0, result.stderr.decode()
    assert b"13 frames, 7 blocks, 28 tokens" in result.stderr
    return path


def test_a_video_returns_with_its_facts(model: Path, stream: Path, tmp_path: Path) -> None:
    result = run("decode", stream, tmp_path / "back.mp4", "--model", model)
    assert result.returncode == 0, result.stderr.decode()
    with open_video(tmp_path / "back.mp4") as back:
        frames = list(back)
        assert (back.info.height, back.info.width) == SIZE
        assert back.info.fps == 30
        assert [frame.pts * back.info.time_base for frame in frames] == [Fraction(i, 30) for i in range(13)]


def test_info_for_people_and_programs(stream: Path) -> None:
    facts = json.loads(run("info", stream, "--json").stdout)
    assert (facts["frames"], facts["blocks"], facts["tokens"], facts["fps"]) == (13, 7, 28, 30.0)
    assert facts["complete"]
    assert facts["damage"] is None
    assert not facts["variable_frame_rate"]
    assert b"tokens per block" in run("info", stream).stdout


def test_truncate_needs_no_model(stream: Path, tmp_path: Path) -> None:
    result = run("truncate", stream, tmp_path / "b.adtk", "--tokens-per-block", 2)
    assert result.returncode == 0, result.stderr.decode()
    assert b"28 tokens cut to 14" in result.stderr
    assert json.loads(run("info", tmp_path / "b.adtk", "--json").stdout)["tokens"] == 14


def test_reconstruct_shows_both_and_a_table(model: Path, video: Path, tmp_path: Path) -> None:
    result = run("reconstruct", video, tmp_path / "c.mp4", "--model", model, "--tokens-per-block", 4)
    assert result.returncode == 0, result.stderr.decode()
    assert b"PSNR" in result.stdout
    with open_video(tmp_path / "c.mp4") as shown:
        assert len(list(shown)) == 13
        assert shown.info.width > 2 * SIZE[1]


def test_pipes_carry_raw_frames_and_streams(model: Path) -> None:
    frames = np.random.default_rng(1).integers(0, 256, (5, 8, 12, 3), dtype=np.uint8)
    options = ("--model", model, "--raw", "8x12", "--fps", "24000/1001", "--scope", "live", "--tokens-per-block", 4)
    tokens = run("encode", "-", "-", *options, data=frames.tobytes())
    assert tokens.returncode == 0, tokens.stderr.decode()
    assert json.loads(run("info", "-", "--json", data=tokens.stdout).stdout)["frames"] == 5
    back = run("decode", "-", "-", "--model", model, data=tokens.stdout)
    assert back.returncode == 0, back.stderr.decode()
    assert len(back.stdout) == frames.nbytes


def test_entropy_coded_streams_decode_to_the_same(model: Path, video: Path, stream: Path, tmp_path: Path) -> None:
    common = ("--model", model, "--threads", 1)
    done = run("encode", video, tmp_path / "e.adtk", "--tokens-per-block", 4, "--entropy", *common)
    assert done.returncode == 0, done.stderr.decode()
    plain = run("decode", stream, "-", *common).stdout
    coded = run("decode", tmp_path / "e.adtk", "-", *common)
    assert coded.returncode == 0, coded.stderr.decode()
    assert coded.stdout == plain


def test_a_cut_stream_gives_what_is_whole_and_says_so(model: Path, stream: Path, tmp_path: Path) -> None:
    data = stream.read_bytes()
    (tmp_path / "cut.adtk").write_bytes(data[: len(data) // 2 + 40])
    result = run("decode", tmp_path / "cut.adtk", tmp_path / "cut.mp4", "--model", model)
    assert result.returncode == 0
    assert b"warning:" in result.stderr
    with open_video(tmp_path / "cut.mp4") as shown:
        assert 0 < len(list(shown)) < 13


@pytest.fixture
def failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the command in this process, which must fail with exit code 1 and one line, and gives that line."""

    def fail(*arguments: object, data: bytes = b"") -> str:
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr(sys, "argv", ["adaptok", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return fail


def test_failures_are_one_line(
    model: Path, video: Path, stream: Path, tmp_path: Path, failure: Callable[..., str]
) -> None:
    common = ("--model", model)
    out = tmp_path / "out.adtk"
    assert "none.mp4 does not exist" in failure("encode", tmp_path / "none.mp4", out, *common)
    assert "folder without images" in failure("encode", tmp_path, out, *common)
    (tmp_path / "text.mp4").write_text("this is not a video")
    assert "not a readable video" in failure("encode", tmp_path / "text.mp4", out, *common)
    assert "not a token stream" in failure("decode", video, tmp_path / "x.mp4", *common)
    assert "neither a folder" in failure("decode", stream, tmp_path / "x.mp4", "--model", "nowhere")
    assert "--force" in failure("encode", video, stream, *common)
    assert "below the least" in failure("encode", video, out, *common, "--tokens-per-block", 0.5)
    assert "need their size" in failure("encode", "-", out, *common)
    raw = ("--raw", "8x12")
    assert "ends inside frame 0" in failure("encode", "-", out, *common, *raw, data=b"123")
    assert "no frames" in failure("encode", "-", out, *common, *raw)
    other = tmp_path / "other"
    tiny_bundle(seed=3, dtype=torch.float32).save(other)
    assert "was written by model" in failure("decode", stream, tmp_path / "x.mp4", "--model", other)
    left = {path.name for path in tmp_path.iterdir()} - {"text.mp4", "other"}
    assert not left, "nothing half-written stays behind"


def test_wrong_usage_is_exit_code_2() -> None:
    assert run("encode").returncode == 2
    assert run("encode", "a", "b", "--scope", "galaxy").returncode == 2


def test_an_interrupted_run_leaves_nothing(model: Path, tmp_path: Path) -> None:
    command = [ADAPTOK, "encode", "-", str(tmp_path / "x.adtk"), "--model", str(model), "--raw", "8x12"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(bytes(8 * 12 * 3 * 7))
    process.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=8)  # it is up and waits for more frames
    assert any(tmp_path.iterdir())
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == b"adaptok: interrupted\n"
    assert not any(tmp_path.iterdir())
