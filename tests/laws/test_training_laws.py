"""Save, kill, resume gives the identical next step; so does another number of workers."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "training"))

from training_makers import TRAIN, make_corpus, small_settings, write_recipe

from adaptok.training import train_tokenizer

LONG = ("run.steps=14",)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As in TRAIN: sums in another order, over more threads, differ in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("data") / "corpus")


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    train_tokenizer(small_settings(folder, corpus, LONG), folder / "run")
    return folder / "run"


def start(folder: Path, corpus: Path, resume: str, *overrides: str) -> subprocess.Popen[bytes]:
    (folder / "program.py").write_text(TRAIN)
    recipe = write_recipe(folder / "recipe.yaml", corpus, corpus.parent / "cache")
    arguments = [str(recipe), str(folder / "run"), resume, "inf", *overrides, *LONG]
    command = [sys.executable, str(folder / "program.py"), *arguments]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})


def losses(run: Path) -> list[tuple[int, float, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["norm"]) for line in lines if line["kind"] == "train"]


def wait_for_steps(run: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "metrics.jsonl").exists() and len((run / "metrics.jsonl").read_text().splitlines()) >= count:
            return
        time.sleep(0.002)
    pytest.fail(f"the run did not reach step {count}")


def same_weights(a: Path, b: Path) -> bool:
    return (a / "last" / "model.safetensors").read_bytes() == (b / "last" / "model.safetensors").read_bytes()


def test_killed_and_resumed_is_bit_identical_even_with_more_workers(corpus: Path, whole: Path, tmp_path: Path) -> None:
    process = start(tmp_path, corpus, "new", "data.workers=0")
    wait_for_steps(tmp_path / "run", random.randint(3, 9), process)
    process.kill()
    process.wait()
    assert len(losses(tmp_path / "run")) < 14
    assert start(tmp_path, corpus, "resume", "data.workers=2").wait(timeout=200) == 0
    assert losses(tmp_path / "run") == losses(whole)
    assert same_weights(tmp_path / "run", whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_saves_and_the_rest_is_bit_identical(
    corpus: Path, whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, corpus, "new", "run.save_every=100")
    wait_for_steps(tmp_path / "run", 4, process)
    process.send_signal(number)
    assert process.wait(timeout=60) == 0
    done = len(losses(tmp_path / "run"))
    assert 4 <= done < 14
    folder = tmp_path / "again"
    folder.mkdir()
    (tmp_path / "run").rename(folder / "run")
    train_tokenizer(small_settings(folder, corpus, LONG), folder / "run", resume=True)
    assert losses(folder / "run") == losses(whole)
