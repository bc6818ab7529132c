"""Generators in training: the one loop, exact resuming, baselines, samples, and what is refused."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

pytest.importorskip("pyarrow")

from generator_makers import codec_of, generator_settings, make_tokens
from training_makers import TRAIN, lines, run_program

from adaptok.generation import Director, Generator, Sampling, generator_preset, open_generator
from adaptok.training import GeneratorTraining, load_recipe, recipe_yaml, train_generator
from adaptok.training.finite import NotFinite
from adaptok.training.generator_recipe import GeneratorRecipe, balanced
from adaptok.training.optimizers import make_optimizers
from adaptok.training.processes import make_fabric
from adaptok.training.token_corpus import open_corpus
from tiny_models import tiny_bundle

STILL = ("class_dropout=0", "transformer={width: 16, depth: 1, heads: 2, token_dropout: 0, residual_dropout: 0}")
"""Nothing is random but the order, so that runs on other numbers of processes are the same."""


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_tokens(tmp_path_factory.mktemp("tokens"), corpus)


def recipe_of(settings: GeneratorTraining) -> GeneratorRecipe:
    train, val = (open_corpus(settings.data.corpus, split) for split in ("train", "val"))
    return GeneratorRecipe(settings, make_fabric(settings.run), train, val)


@pytest.mark.parametrize(("condition", "code_rows"), [("class", False), ("frames", False), ("class", True)])
def test_a_run_leaves_a_generator_that_generates(
    made: tuple[Path, Path], tmp_path: Path, condition: str, code_rows: bool
) -> None:
    model, tokens = made
    overrides = (f"condition={condition}", f"tokenizer={model}", "samples=2", f"code_rows={code_rows}")
    outcome = train_generator(generator_settings(tmp_path, tokens, overrides), tmp_path / "run")
    assert (outcome.reason, outcome.progress.step) == ("finished", 8)
    assert [line["step"] for line in lines(tmp_path / "run", "val")] == [4, 8]
    assert (tmp_path / "run" / "pictures" / "step-0000008.png").exists()
    for name in ("best", "last"):
        config = open_generator(tmp_path / "run" / name).config
        assert config.tokenizer == codec_of(model).fingerprint
        assert config.classes == (("class0", "class1") if condition == "class" else ())
        assert (config.context_blocks, config.mean_tokens) == (0 if condition == "class" else 2, 3.0)
        assert (config.min_tokens, config.longest) == (2, 6)
    director = Director(open_generator(tmp_path / "run" / "best"), codec_of(model))
    if condition == "class":
        (take,) = director.takes(director.prompts([0], 0), Sampling())
        assert take.tokens[0].kept.min() >= 2


def test_a_new_generator_is_as_good_as_the_uniform_one(made: tuple[Path, Path], tmp_path: Path) -> None:
    found = recipe_of(generator_settings(tmp_path, made[1])).validate(0).values
    assert found["perplexity"] == pytest.approx(found["perplexity_uniform"]) == 33
    assert found["bits_per_token"] == pytest.approx(math.log2(33))
    assert 1 < found["perplexity_unigram"] < 33


def test_the_unigram_baseline_is_what_counting_gives(made: tuple[Path, Path], tmp_path: Path) -> None:
    recipe = recipe_of(generator_settings(tmp_path, made[1], ("data.val_clips=999",)))
    train, val = open_corpus(made[1], "train"), open_corpus(made[1], "val")
    seen = [t for i in range(len(train)) for b in train.blocks(i) for t in (*b.tolist(), 32)]
    asked = [t for i in range(len(val)) for b in val.blocks(i) for t in (*b.tolist(), 32)]
    p = (np.bincount(seen, minlength=33) + 1) / (len(seen) + 33)
    assert recipe.validate(0).values["perplexity_unigram"] == pytest.approx(np.exp(-np.log(p[asked]).mean()))


def test_classes_can_be_shown_equally_often(made: tuple[Path, Path], tmp_path: Path) -> None:
    assert balanced(["a", "b", "a", "a", "b"]) == [0, 2, 3, 1, 4, 1]
    recipe = recipe_of(generator_settings(tmp_path, made[1], ("data.balance=true",)))
    train = open_corpus(made[1], "train")
    most = max(train.labels.count(label) for label in set(train.labels))
    shown = Counter(name for batch, _ in zip(recipe.batches(0), range(999), strict=False) for name in batch.names)
    assert set(shown) == set(train.names)
    assert recipe._shown == balanced(train.labels)
    assert len(recipe._shown) == most * len(set(train.labels))


def test_it_learns(made: tuple[Path, Path], tmp_path: Path) -> None:
    """What it was shown is soon less surprising than by counting, whatever the condition."""
    overrides = ("data.val_split=train", "run.steps=60", "run.validate_every=60", "run.save_every=60", "batch=12")
    train_generator(generator_settings(tmp_path, made[1], overrides), tmp_path / "run")
    (found,) = lines(tmp_path / "run", "val")
    assert found["perplexity"] < 0.8 * found["perplexity_unigram"]


@pytest.mark.parametrize("code_rows", [False, True])
def test_stopped_and_resumed_is_bit_identical(made: tuple[Path, Path], tmp_path: Path, code_rows: bool) -> None:
    settings = generator_settings(tmp_path, made[1], (f"tokenizer={made[0]}", f"code_rows={code_rows}"))
    train_generator(settings, tmp_path / "whole")
    train_generator(settings, tmp_path / "parts", max_minutes=0.0)
    train_generator(settings, tmp_path / "parts", resume=True)
    whole, parts = (lines(tmp_path / name, "train") for name in ("whole", "parts"))
    assert [(x["loss"], x["norm"]) for x in whole] == [(x["loss"], x["norm"]) for x in parts]
    a, b = (tmp_path / name / "last" / "model.safetensors" for name in ("whole", "parts"))
    assert a.read_bytes() == b.read_bytes()
    assert len({x["loss"] for x in whole}) == 8, "dropout and order differ from step to step"


def test_rows_of_codes_are_a_function_of_their_vectors(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Alike codes have alike rows, gradients reach the function and not the rows, and what is opened has plain rows."""
    recipe = recipe_of(generator_settings(tmp_path, made[1], (f"tokenizer={made[0]}", "code_rows=true", *STILL)))
    codes, width = recipe.config.codebook_size, recipe.config.transformer.width
    own = dict(recipe.generator.named_parameters())["embedding.parametrizations.weight.original"]
    assert own.shape == (recipe.config.ids - codes, width)
    vectors = torch.nn.functional.normalize(codec_of(made[0]).bundle.tokenizer.quantizer.codebook.detach(), dim=-1)
    rows = recipe.generator.embedding.weight.detach()[:codes]
    near, far = torch.cdist(vectors, vectors), torch.cdist(rows, rows)
    above = torch.triu_indices(codes, codes, 1).unbind()
    assert torch.corrcoef(torch.stack([near[above], far[above]]))[0, 1] > 0.5
    recipe.learn(next(recipe.batches(0)), 0)
    ids = torch.randint(0, codes, (2, 4))
    bundle = recipe.bundle()
    bundle.save(tmp_path / "saved")
    opened = open_generator(tmp_path / "saved")
    with recipe.average.in_place():
        assert torch.equal(bundle.generator(ids), recipe.generator.eval()(ids))
        assert torch.equal(opened(ids), bundle.generator(ids))
    weights = safetensors.torch.load_file(tmp_path / "saved" / "model.safetensors")
    assert sum(value.numel() for name, value in weights.items() if name.endswith("codes")) == vectors.numel()
    name = "embedding.parametrizations.weight.0.codes"
    safetensors.torch.save_file(
        {**weights, name: weights[name][1:].contiguous()}, tmp_path / "saved" / "model.safetensors"
    )
    with pytest.raises(ValueError, match=rf"code vectors \({codes - 1}, \d+\) instead of {codes}"):
        open_generator(tmp_path / "saved")
    assert set(opened.state_dict()) == set(Generator(recipe.config).state_dict())


def gradients(settings: GeneratorTraining) -> dict[str, torch.Tensor]:
    recipe = recipe_of(settings)
    torch.nn.init.normal_(recipe.generator.head.weight)
    recipe.learner.update = lambda step: None  # type: ignore[method-assign]
    recipe.learn(next(recipe.batches(0)), 0)
    return {name: p.grad for name, p in recipe.generator.named_parameters() if p.grad is not None}


def test_parts_of_a_batch_give_the_gradients_of_the_whole(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Parts hold different numbers of tokens: each token weighs the same nevertheless."""
    still = (*STILL, "optimizer.clip=null")
    whole, parts = (gradients(generator_settings(tmp_path, made[1], (*still, f"run.accumulate={n}"))) for n in (1, 4))
    assert whole.keys() == parts.keys()
    assert all(torch.allclose(whole[name], parts[name], atol=1e-6, rtol=1e-4) for name in whole)


def test_recomputed_activations_change_nothing(made: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = (
        gradients(generator_settings(tmp_path, made[1], (f"run.activation_checkpointing={flag}",)))
        for flag in ("false", "true")
    )
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_classes_are_hidden_sometimes(made: tuple[Path, Path], tmp_path: Path) -> None:
    recipe = recipe_of(generator_settings(tmp_path, made[1], ("class_dropout=0.5", "batch=36")))
    batch = next(recipe.batches(0)).sequences
    first = recipe._inputs(batch, torch.Generator().manual_seed(0))[:, 0]
    hidden = first == recipe.config.outputs + recipe.config.no_class
    assert 5 < hidden.sum() < 31
    assert torch.equal(first[~hidden], batch.inputs[:, 0][~hidden])


def test_only_matrices_of_linear_layers_decay(made: tuple[Path, Path], tmp_path: Path) -> None:
    recipe = recipe_of(generator_settings(tmp_path, made[1]))
    (optimizer,) = make_optimizers(recipe.generator, recipe.settings.optimizer)
    names = {p: name for name, p in recipe.generator.named_parameters()}
    decays = {names[p]: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {name for name, decay in decays.items() if decay == 0} == {
        name for name in decays if "norm" in name or name in ("embedding.weight", "positions")
    }
    muon = make_optimizers(recipe.generator, load_recipe_muon(tmp_path).optimizer)
    assert len(muon) == 2


def load_recipe_muon(folder: Path) -> GeneratorTraining:
    return load_recipe(GeneratorTraining, folder / "generator.yaml", ("optimizer.kind=muon",))


def test_settings_round_trip(made: tuple[Path, Path], tmp_path: Path) -> None:
    settings = generator_settings(tmp_path, made[1], ("transformer=ar-tiny",))
    assert settings.transformer == generator_preset("ar-tiny").transformer
    (tmp_path / "again.yaml").write_text(recipe_yaml(settings))
    assert load_recipe(GeneratorTraining, tmp_path / "again.yaml") == settings


def test_a_loss_that_is_no_number(made: tuple[Path, Path], tmp_path: Path) -> None:
    settings = generator_settings(tmp_path, made[1], ("optimizer.rate=1e30", "optimizer.final_rate=1e30"))
    with pytest.raises(NotFinite, match=r"the loss is (nan|inf); the batch was .*\.mp4"):
        train_generator(settings, tmp_path / "run")


def test_what_does_not_fit_is_refused(made: tuple[Path, Path], corpus: Path, tmp_path: Path) -> None:
    tiny_bundle(seed=5, dtype=torch.float32).save(tmp_path / "other")
    with pytest.raises(ValueError, match="was trained on tokens of tokenizer"):
        recipe_of(generator_settings(tmp_path, made[1], (f"tokenizer={tmp_path / 'other'}",)))
    bare = make_tokens(tmp_path / "bare", corpus, context=0)[1]
    with pytest.raises(ValueError, match="frames needs a corpus with context tokens"):
        recipe_of(generator_settings(tmp_path, bare, ("condition=frames",)))
    with pytest.raises(ValueError, match="no token corpus at"):
        train_generator(generator_settings(tmp_path, tmp_path / "nowhere"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for override, message in (
        ("class_dropout=2", "class_dropout"),
        ("batch=0", "batch"),
        ("condition=text", "condit"),
        ("code_rows=true", "needs tok"),
    ):
        with pytest.raises(ValueError, match=message):
            generator_settings(tmp_path, bare, (override,))


PROGRAM = """
import sys
import safetensors.torch, torch
from adaptok.training import GeneratorTraining, load_recipe
from adaptok.training.generator_recipe import GeneratorRecipe, balanced
from adaptok.training.processes import make_fabric
from adaptok.training.sharding import whole
from adaptok.training.token_corpus import open_corpus

if __name__ == "__main__":
    torch.set_num_threads(1)
    recipe, out, strategy = sys.argv[1:]
    settings = load_recipe(GeneratorTraining, recipe, ["run.devices=2", f"run.strategy={strategy}"])
    fabric = make_fabric(settings.run)
    recipe = GeneratorRecipe(settings, fabric, *(open_corpus(settings.data.corpus, s) for s in ("train", "val")))
    with torch.no_grad():
        recipe.generator.head.weight.copy_(torch.sin(torch.arange(33.0 * 16)).reshape(33, 16))
    recipe.learner.update = lambda step: None
    recipe.learn(next(recipe.batches(0)), 0)
    found = {n: whole(p.grad) for n, p in recipe.generator.named_parameters() if p.grad is not None}
    if fabric.is_global_zero:
        safetensors.torch.save_file(found, out)
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_give_the_gradients_of_one(made: tuple[Path, Path], tmp_path: Path, strategy: str) -> None:
    """Processes hold different numbers of tokens: each token weighs the same nevertheless."""
    settings = generator_settings(tmp_path, made[1], (*STILL, "optimizer.clip=null"))
    (tmp_path / "still.yaml").write_text(recipe_yaml(settings))
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments = (str(tmp_path / "still.yaml"), str(tmp_path / "g.safetensors"), strategy)
    done = run_program(tmp_path / "program.py", *arguments, processes=2)
    assert done.returncode == 0, done.stderr
    recipe = recipe_of(settings)
    with torch.no_grad():
        recipe.generator.head.weight.copy_(torch.sin(torch.arange(33.0 * 16)).reshape(33, 16))
    recipe.learner.update = lambda step: None  # type: ignore[method-assign]
    recipe.learn(next(recipe.batches(0)), 0)
    both = safetensors.torch.load_file(tmp_path / "g.safetensors")
    for name, parameter in recipe.generator.named_parameters():
        assert torch.allclose(both[name], parameter.grad, atol=1e-6, rtol=1e-4), name


def test_begun_in_parts_and_resumed_alone(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Two processes that hold a part of each layer train as one does, and share its checkpoints and samples."""
    changes = (*STILL, "optimizer.kind=muon", f"tokenizer={made[0]}", "samples=1", "run.validate_every=1")
    settings = generator_settings(tmp_path, made[1], changes)
    train_generator(settings, tmp_path / "alone")
    program = TRAIN.replace("TokenizerTraining", "GeneratorTraining").replace("train_tokenizer", "train_generator")
    (tmp_path / "program.py").write_text(program)
    arguments = (str(tmp_path / "generator.yaml"), str(tmp_path / "run"), "new", "0")
    sharded = ("run.devices=2", "run.strategy=fsdp", "run.activation_checkpointing=true")
    done = run_program(tmp_path / "program.py", *arguments, *changes, *sharded, processes=2)
    assert done.returncode == 0, done.stderr
    train_generator(settings, tmp_path / "run", resume=True)
    for kind, names in (("train", ("loss", "norm", "tokens")), ("val", ("perplexity", "bits_per_end"))):
        found, wanted = (lines(tmp_path / name, kind) for name in ("run", "alone"))
        assert [line["step"] for line in found] == list(range(1, 9))
        for a, b in zip(found, wanted, strict=True):
            assert [a[name] for name in names] == pytest.approx([b[name] for name in names], rel=1e-3)
    assert (tmp_path / "run" / "pictures" / "step-0000001.png").exists()
