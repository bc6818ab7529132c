"""tokenize, train generator, generate, predict: as people use them, and one line where something is wrong."""

import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "generation"))
sys.path.append(str(Path(__file__).parents[1] / "training"))

from generation_makers import class_config, frame_config, random_generator
from training_makers import make_corpus

from adaptok.cli import main
from adaptok.generation import GeneratorBundle
from adaptok.load import load
from adaptok.stream.codec import Tokens
from adaptok.video import create_video, open_video
from tiny_models import tiny_bundle

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process; its lines on standard error."""

    def go(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr(sys, "argv", ["adaptok", *map(str, arguments)])
        found = 0
        try:
            main()
        except SystemExit as stop:
            found = int(stop.code or 0)
        lines = capsys.readouterr().err
        assert found == code, lines
        return lines

    return go


@pytest.fixture
def failure(run: Run) -> Run:
    def fail(*arguments: object) -> str:
        (line,) = run(*arguments, code=1).splitlines()
        return line

    return fail


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer, a generator of classes and one of frames."""
    folder = tmp_path_factory.mktemp("models")
    tiny_bundle(dtype=torch.float32).save(folder / "tokenizer")
    fingerprint = load(folder / "tokenizer").fingerprint
    for name, config in (
        ("classes", class_config(tokenizer=fingerprint)),
        ("frames", frame_config(tokenizer=fingerprint)),
    ):
        GeneratorBundle(random_generator(config, dtype=torch.float32)).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("videos") / "in.mkv"
    rng = np.random.default_rng(0)
    with create_video(path, height=18, width=26, fps=Fraction(30), time_base=Fraction(1, 30)) as writer:
        for i in range(8):
            writer.write(rng.integers(0, 256, (18, 26, 3), dtype=np.uint8), i)
    return path


def images(path: Path) -> np.ndarray:
    with open_video(path) as found:
        return np.stack([frame.image for frame in found])


def studio(models: Path, name: str) -> tuple[object, ...]:
    return ("--model", models / name, "--tokenizer", models / "tokenizer")


def test_generate_writes_videos_streams_and_a_grid(models: Path, tmp_path: Path, run: Run) -> None:
    options = ("--class", "dog", "--num", 3, "--out", tmp_path / "a", "--fps", "12", "--guidance", 1.5)
    said = run("generate", *options, *studio(models, "classes"))
    assert "3 samples" in said
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {f"sample-{i:03d}{end}" for i in range(3) for end in (".mp4", ".adtk")} | {"grid.mp4"}
    tokens = Tokens.open(tmp_path / "a" / "sample-001.adtk")
    assert load(models / "tokenizer").decode(tokens).shape == (6, 8, 12, 3)
    with open_video(tmp_path / "a" / "grid.mp4") as grid:
        assert (grid.info.height, grid.info.width, grid.info.fps) == (18, 26, 12)
    again = (*options[:5], tmp_path / "b", *options[6:], "--batch", 1)
    run("generate", *again, *studio(models, "classes"))
    for name in names:
        if name.endswith(".adtk"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), "whatever the batch"
    assert "--force" in run("generate", *options, *studio(models, "classes"), code=1)
    run("generate", *options, *studio(models, "classes"), "--force")


def test_longer_than_a_clip_and_a_forced_budget(models: Path, tmp_path: Path, run: Run) -> None:
    options = ("--num", 1, "--out", tmp_path / "a", "--blocks", 5, "--tokens-per-block", 2)
    assert "2.0 per block" in run("generate", *options, *studio(models, "classes"))
    assert {p.name for p in (tmp_path / "a").glob("*.adtk")} == {"sample-000.adtk", "sample-000-1.adtk"}
    assert len(images(tmp_path / "a" / "sample-000.mp4")) == 10


@pytest.mark.parametrize("which", ["classes", "frames"])
def test_predict_keeps_the_given_frames(models: Path, video: Path, tmp_path: Path, run: Run, which: str) -> None:
    # PNG keeps pixels exactly, so that "untouched" can be seen in the result.
    said = run("predict", video, tmp_path / "out", "--context", 5, *studio(models, which))
    assert "5 frames given, 1 predicted" in said
    found = images(tmp_path / "out")
    assert found.shape == (6, 18, 26, 3)
    assert np.array_equal(found[:5], images(video)[:5])
    assert run("predict", video, tmp_path / "o.mp4", "--context", 3, "--frames", 9, *studio(models, which))
    assert len(images(tmp_path / "o.mp4")) == 9


def test_bad_requests_are_one_line(models: Path, video: Path, tmp_path: Path, failure: Run) -> None:
    classes, frames, out = studio(models, "classes"), studio(models, "frames"), ("--out", tmp_path / "x")
    assert "unknown class 'cow'; there are 3: cat, dog, 7" in failure("generate", *out, "--class", "cow", *classes)
    assert "unknown class '3'" in failure("generate", *out, "--class", "3", *classes)
    assert "predict with it" in failure("generate", *out, *frames)
    assert "number of samples must be at least 1" in failure("generate", *out, "--num", 0, *classes)
    assert "7 to 7 tokens per block" in failure("generate", *out, "--tokens-per-block", 7, *classes)
    assert "needs classes" in failure("predict", video, tmp_path / "x.mp4", "--guidance", 2, *frames)
    long = ("predict", video, tmp_path / "x.mp4", "--context", 6)
    assert "a context of 6 frames: a clip has 6, so 1 to 5" in failure(*long, *frames)
    assert "a context of 0 frames" in failure(*long[:-1], 0, *frames)
    assert "whole blocks only" in failure(*long[:-1], 1, *classes)
    assert "none.mp4 does not exist" in failure("predict", tmp_path / "none.mp4", tmp_path / "x.mp4", *frames)
    assert "unknown class 'cat'; there are 4: bend" in failure("generate", *out, "--class", "cat"), "the embedded one"
    assert "nowhere holds no generator" in failure("generate", *out, "--model", "nowhere")
    assert "holds no generator" in failure("generate", *out, "--model", tmp_path)
    assert "frame rate" in failure("generate", *out, "--fps", "fast", *classes)
    tiny_bundle(seed=3, dtype=torch.float32).save(tmp_path / "other")
    other = ("--model", models / "classes", "--tokenizer", tmp_path / "other")
    assert "was trained on tokens of tokenizer" in failure("generate", *out, *other)
    assert {path.name for path in tmp_path.iterdir()} == {"other"}, "nothing half-written stays behind"


@pytest.mark.parametrize("temperature", ["0", "-1", "nan"])
def test_temperatures_that_make_no_sense(models: Path, tmp_path: Path, failure: Run, temperature: str) -> None:
    options = ("--out", tmp_path / "x", f"--temperature={temperature}")
    assert "temperature must be above 0" in failure("generate", *options, *studio(models, "classes"))


def test_from_videos_to_samples(models: Path, tmp_path: Path, run: Run, failure: Run) -> None:
    pytest.importorskip("pyarrow")
    videos = make_corpus(tmp_path / "videos", train=3, val=2)
    (videos / "train" / "class0" / "broken.mp4").write_bytes(b"not a video")
    tokenizer, tokens = ("--model", models / "tokenizer"), tmp_path / "tokens"
    said = run("tokenize", videos, tokens, *tokenizer, "--context", 3)
    assert "broken.mp4" in said
    assert "15 clips in 2 parts" in said
    assert "0 clips in 0 parts, 2 were there" in run("tokenize", videos, tokens, *tokenizer, "--context", 3)
    assert "other videos, options" in failure("tokenize", videos, tokens, *tokenizer)
    changes = (
        f"data.corpus={tokens}",
        f"tokenizer={models / 'tokenizer'}",
        "transformer={width: 16, depth: 1, heads: 2}",
        "batch=4",
        "samples=1",
    )
    run("train", "generator", "ar-tiny", tmp_path / "run", "--steps", 2, "--set", *changes)
    best = ("--model", tmp_path / "run" / "best", "--tokenizer", models / "tokenizer")
    run("generate", "--class", "class1", "--num", 2, "--out", tmp_path / "out", *best)
    assert len(list((tmp_path / "out").iterdir())) == 5
    part = tokens / "train" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    line = failure("train", "generator", "ar-tiny", tmp_path / "run2", "--set", *changes)
    assert "part-00000.parquet is cut short or damaged" in line
    assert "is cut short or damaged" in failure("tokenize", videos, tokens, *tokenizer, "--context", 3)
