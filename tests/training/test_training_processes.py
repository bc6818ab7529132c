"""Two processes over gloo: the gradients of one with the whole batch, and an end when one of them dies."""

import subprocess
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch
from rich.console import Console
from training_makers import lines, run_program, small_settings, train_in_two, write_recipe

from adaptok.bundle import open_bundle
from adaptok.training.checkpoint import RunFolder
from adaptok.training.clips import Order
from adaptok.training.listing import list_videos
from adaptok.training.processes import make_fabric
from adaptok.training.run import open_data
from adaptok.training.tokenizer_recipe import TokenizerRecipe

PROGRAM = """
import os, sys
from pathlib import Path
import safetensors.torch, torch
from rich.console import Console
from adaptok.training import TokenizerTraining, load_recipe, train_tokenizer
from adaptok.training.objective import TokenizerObjective
from adaptok.training.processes import make_fabric
from adaptok.training.run import open_data
from adaptok.training.tokenizer_recipe import TokenizerRecipe

def gradients(settings, out):
    fabric = make_fabric(settings.run)
    recipe = TokenizerRecipe(settings, fabric, *open_data(settings.data, Console(stderr=True)))
    recipe.learner.clip, recipe.learner.update = (lambda step, names: 0.0), (lambda step: None)
    recipe.learn(next(recipe.batches(0)), 0)
    found = {n: p.grad for n, p in recipe.tokenizer.named_parameters() if p.grad is not None}
    if fabric.is_global_zero:
        safetensors.torch.save_file(found, out)

def dying(settings, out):
    learn = TokenizerRecipe.learn
    def die(self, batch, step):
        if step == 2 and self.fabric.global_rank == 1:
            os._exit(3)
        return learn(self, batch, step)
    TokenizerRecipe.learn = die
    train_tokenizer(settings, Path(out))

def poisoned(settings, out):
    forward = TokenizerObjective.forward
    def poison(self, video, conditions):
        loss, losses = forward(self, video, conditions)
        return (loss * float("nan") if os.environ["RANK"] == "1" else loss), losses
    TokenizerObjective.forward = poison
    train_tokenizer(settings, Path(out))

if __name__ == "__main__":
    torch.set_num_threads(1)
    what, recipe, out = sys.argv[1:]
    settings = load_recipe(TokenizerTraining, recipe, ["run.devices=2", "run.strategy=ddp"])
    {"gradients": gradients, "dying": dying, "poisoned": poisoned}[what](settings, out)
"""


def run_two(folder: Path, corpus: Path, what: str, out: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    recipe = write_recipe(folder / "recipe.yaml", corpus, corpus.parent / "cache")
    return run_program(folder / "program.py", what, str(recipe), str(out), processes=2)


def gradients_of_one(folder: Path, corpus: Path) -> dict[str, torch.Tensor]:
    settings = small_settings(folder, corpus)
    recipe = TokenizerRecipe(settings, make_fabric(settings.run), *open_data(settings.data, Console(stderr=True)))
    recipe.learner.clip = lambda step, names: 0.0  # type: ignore[method-assign]
    recipe.learner.update = lambda step: None  # type: ignore[method-assign]
    recipe.learn(next(recipe.batches(0)), 0)
    return {name: p.grad for name, p in recipe.tokenizer.named_parameters() if p.grad is not None}


def test_two_processes_give_the_gradients_of_one(corpus: Path, tmp_path: Path) -> None:
    done = run_two(tmp_path, corpus, "gradients", tmp_path / "gradients.safetensors")
    assert done.returncode == 0, done.stderr
    both, one = safetensors.torch.load_file(tmp_path / "gradients.safetensors"), gradients_of_one(tmp_path, corpus)
    assert both.keys() == one.keys()
    for name, value in one.items():
        assert torch.allclose(both[name], value, atol=1e-6, rtol=1e-4), name


@pytest.mark.slow
def test_a_dead_process_ends_the_job(corpus: Path, tmp_path: Path) -> None:
    begin = time.monotonic()
    done = run_two(tmp_path, corpus, "dying", tmp_path / "run")
    assert done.returncode != 0
    assert "exitcode  : 3" in done.stderr
    assert time.monotonic() - begin < 200


@pytest.mark.slow
def test_a_loss_of_one_process_that_is_no_number_stops_all_with_its_videos(corpus: Path, tmp_path: Path) -> None:
    done = run_two(tmp_path, corpus, "poisoned", tmp_path / "run")
    assert done.returncode != 0
    draws = next(iter(Order(6, small_settings(tmp_path, corpus).stages, 4, seed=0, first=0, rank=1, ranks=2)))
    entries = list_videos(corpus, "train")
    names = ", ".join(entries[draw.video].name for draw in draws)
    assert f"step 0: the loss is nan; the batch was {names}" in done.stderr
    assert "the loss is 0" not in done.stderr
    assert RunFolder(tmp_path / "run").load()[1].step == 0


@pytest.mark.slow
def test_two_processes_resume_to_the_bit(corpus: Path, tmp_path: Path) -> None:
    """Cut after the first step and gone on with, against a run that was never cut."""
    copies = ("run.devices=2", "run.strategy=ddp")
    train_in_two(tmp_path / "whole", corpus, "new", 5.0, *copies)
    train_in_two(tmp_path / "parts", corpus, "new", 0.0, *copies)
    assert len(lines(tmp_path / "parts" / "run", "train")) < 8
    train_in_two(tmp_path / "parts", corpus, "resume", 5.0, *copies)
    whole, parts = (lines(tmp_path / name / "run", "train") for name in ("whole", "parts"))
    assert [(a["step"], a["loss"], a["norm"]) for a in parts] == [(b["step"], b["loss"], b["norm"]) for b in whole]
    a, b = (open_bundle(tmp_path / name / "run" / "last").modules.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(a[name], b[name]) for name in a)
