"""Weights in pieces: two processes that hold a part of each layer train as one does, and share its checkpoints."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from training_makers import lines, small_settings, train_in_two

from adaptok.bundle import open_bundle
from adaptok.training import train_tokenizer

ADVERSARY = ("losses.adversarial=0.3", "adversary={width: 16, depth: 1, heads: 2, start: 2, every: 2}")
# Sampled codes differ between one process and two, so nothing is quantized where those are compared.
CONTINUOUS = (*ADVERSARY, "codebook={quantize: {share: 0.0}}")
EVERYTHING = (*ADVERSARY, "model.tokenizer.prior={width: 16, depth: 1, heads: 2}", "losses.prior=0.06")
SHARDED = ("run.devices=2", "run.strategy=fsdp")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def alone(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process, not interrupted."""
    folder = tmp_path_factory.mktemp("alone")
    train_tokenizer(small_settings(folder, corpus, CONTINUOUS), folder / "run")
    return folder / "run"


def assert_same_run(run: Path, alone: Path) -> None:
    found, wanted = lines(run, "train"), lines(alone, "train")
    assert [line["step"] for line in found] == list(range(1, 9))
    for a, b in zip(found, wanted, strict=True):
        assert a.keys() == b.keys()
        for name in {"loss", "norm", "l1", "prior", "adversarial", "discriminator"} & a.keys():
            assert a[name] == pytest.approx(b[name], rel=1e-3), (a["step"], name)
    for a, b in zip(lines(run, "val"), lines(alone, "val"), strict=True):
        assert a["psnr_1_1"] == pytest.approx(b["psnr_1_1"], abs=1e-2)
        assert a["psnr_1_8"] == pytest.approx(b["psnr_1_8"], abs=1e-2)
    weights = open_bundle(alone / "last").modules.state_dict()
    for name, value in open_bundle(run / "last").modules.state_dict().items():
        assert torch.allclose(value, weights[name], atol=2e-3), name


def test_begun_alone_and_resumed_in_parts(corpus: Path, alone: Path, tmp_path: Path) -> None:
    train_tokenizer(small_settings(tmp_path, corpus, CONTINUOUS), tmp_path / "run", max_minutes=0.0)
    train_in_two(tmp_path, corpus, "resume", 5.0, *CONTINUOUS, *SHARDED, "run.activation_checkpointing=true")
    assert_same_run(tmp_path / "run", alone)


def test_begun_in_parts_and_resumed_alone(corpus: Path, alone: Path, tmp_path: Path) -> None:
    train_in_two(tmp_path, corpus, "new", 0.0, *CONTINUOUS, *SHARDED)
    train_tokenizer(small_settings(tmp_path, corpus, CONTINUOUS), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", alone)


@pytest.mark.slow
def test_parts_and_whole_copies_are_the_same_run(corpus: Path, tmp_path: Path) -> None:
    """With codebook, prior and adversary: two processes with whole copies against two with parts."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_in_two(whole, corpus, "new", 5.0, *EVERYTHING, "run.devices=2", "run.strategy=ddp")
    train_in_two(parts, corpus, "new", 0.0, *EVERYTHING, *SHARDED)
    train_in_two(parts, corpus, "resume", 5.0, *EVERYTHING, *SHARDED)
    assert_same_run(parts / "run", whole / "run")
