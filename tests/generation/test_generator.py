"""The network: published numbers, sizes, checkpoints, and what it refuses."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from generation_makers import class_config, frame_config, random_generator
from safetensors.torch import load_file, save_file

from adaptok.generation import (
    Generator,
    GeneratorBundle,
    GeneratorConfig,
    LlamaConfig,
    generator_preset,
    generator_presets,
    open_generator,
)
from adaptok.generation.config import generator_config_from_yaml, generator_config_to_yaml
from adaptok.generation.packed import packed
from adaptok.interop import load_official_generator

COUNTS = {
    "ar-tiny": 9_714_816,
    "ar-s": 28_362_624,
    "ar-b": 99_192_576,
    "ar-l": 327_316_480,
    "ar-lp": 633_294_080,
}


@pytest.mark.parametrize("name", ["ar_class", "ar_frame"])
@torch.no_grad()
def test_published_generators_are_reproduced(shared: Path, name: str) -> None:
    folder = shared / "parity" / "tiny"
    io = load_file(folder / "io.safetensors")
    generator = load_official_generator(folder / f"{name}.safetensors")
    ours = generator.logits(io[f"{name}_cond"], io[f"{name}_idx"])
    assert ours.shape == io[f"{name}_logits"].shape
    assert (ours - io[f"{name}_logits"]).abs().max() < 1e-5


def test_the_published_sizes() -> None:
    assert set(generator_presets()) == set(COUNTS)
    for name, count in COUNTS.items():
        with torch.device("meta"):
            generator = Generator(generator_preset(name))
        assert sum(p.numel() for p in generator.parameters()) == count
    t = generator_preset("ar-lp").transformer
    assert (t.depth, t.heads, t.width, t.hidden) == (30, 20, 1280, 3584)
    assert (t.token_dropout, t.residual_dropout, t.attention_dropout) == (0.1, 0.1, 0.0)
    t = generator_preset("ar-s").transformer
    assert (t.depth, t.heads, t.width) == (12, 6, 384)


def test_a_slot_has_one_place_however_long_the_blocks_before_it() -> None:
    config = frame_config(slots=True)
    front, m, end = config.condition_rows, config.tokens_per_block, config.end
    row = [*range(front), 1, 2, end, 3, end, 4, 5]
    placed = Generator(config).places(torch.tensor([row, [*range(front), *[1] * m, end]]))
    assert placed[0, :front].tolist() == list(range(front))
    assert placed[0, front:].tolist() == [
        *(config.place(0, s) for s in (0, 1, m)),
        *(config.place(1, s) for s in (0, m)),
        *(config.place(2, s) for s in (0, 1)),
    ]
    assert placed[1].tolist() == list(range(front + m + 1)), "whole blocks stand where counting puts them"


@torch.no_grad()
def test_of_whole_blocks_slots_are_what_counting_gives() -> None:
    counted, placed = (random_generator(class_config(slots=slots)) for slots in (False, True))
    m, end = counted.config.tokens_per_block, counted.config.end
    block = [*range(m), end]
    ids = torch.tensor([[counted.config.outputs, *block, *block, *block[:-1]]])
    assert torch.equal(counted(ids), placed(ids))
    short = torch.tensor([[counted.config.outputs, 1, end, 2]])
    assert not torch.equal(counted(short)[0, -1], placed(short)[0, -1])


@torch.no_grad()
def test_padding_beyond_the_last_place_is_harmless() -> None:
    generator = random_generator(class_config(slots=True))
    end = generator.config.end
    ids = torch.tensor([[generator.config.outputs, 1, end, 2, end, 3]])
    padded = torch.nn.functional.pad(ids, (0, generator.config.positions - ids.shape[1]))
    assert torch.allclose(generator(padded)[:, : ids.shape[1]], generator(ids), atol=1e-12)


@pytest.mark.parametrize(
    "config",
    [class_config(min_tokens=2, mean_tokens=3.5, tokenizer="c0ffee"), frame_config(), frame_config(slots=True)],
)
def test_a_checkpoint_round_trips(tmp_path: Path, config: GeneratorConfig) -> None:
    generator = random_generator(config, dtype=torch.float32)
    GeneratorBundle(generator).save(tmp_path / "g")
    again = open_generator(tmp_path / "g")
    assert again.config == config
    assert not again.training
    assert all(torch.equal(a, b) for a, b in zip(generator.parameters(), again.parameters(), strict=True))
    assert generator_config_from_yaml(generator_config_to_yaml(config), "x") == config


def test_folders_that_hold_no_generator(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no generator"):
        open_generator(tmp_path)
    GeneratorBundle(random_generator(class_config(), dtype=torch.float32)).save(tmp_path)
    (tmp_path / "config.yaml").write_text("name: x\nsurprise: 1\n")
    with pytest.raises(ValueError, match=r"surprise: Unexpected|surprise"):
        open_generator(tmp_path)


@torch.no_grad()
def test_the_future_does_not_change_the_past() -> None:
    generator = random_generator(class_config())
    ids = torch.randint(0, 33, (2, 12))
    other = ids.clone()
    other[:, 7:] = (other[:, 7:] + 1) % 33
    condition = torch.tensor([0, 3])
    a, b = generator.logits(condition, ids), generator.logits(condition, other)
    assert torch.equal(a[:, :8], b[:, :8])
    assert not torch.equal(a[:, 8:], b[:, 8:])


def test_dropout_is_for_training_only() -> None:
    generator = random_generator(class_config())
    ids = torch.randint(0, 33, (1, 8))
    assert torch.equal(generator(ids), generator(ids))
    generator.train()
    assert not torch.equal(generator(ids), generator(ids))


@pytest.mark.parametrize("rows", [1, 2, 8, 33])
def test_packed_weights_compute_the_same(rows: int) -> None:
    plain = random_generator(class_config(), dtype=torch.float32)
    quick = packed(plain)
    ids = torch.randint(0, plain.config.outputs, (rows, 5), generator=torch.Generator().manual_seed(0))
    assert (quick is not plain) == torch.backends.mkldnn.is_available()
    assert torch.allclose(quick(ids), plain(ids), atol=1e-5)
    assert all(isinstance(layer.qkv, torch.nn.Linear) for layer in plain.llama.layers)  # the original stays as it was


def test_other_precisions_are_not_packed() -> None:
    plain = random_generator(class_config(), dtype=torch.float64)
    assert packed(plain) is plain


def test_a_new_generator_knows_nothing() -> None:
    assert Generator(class_config()).eval().logits(torch.tensor([0]), torch.tensor([[1, 2]])).abs().max() == 0


@pytest.mark.parametrize(
    ("cond", "idx", "message"),
    [
        (torch.tensor([0.5]), torch.zeros(1, 2, dtype=torch.long), "cond must be a tensor of integers"),
        (torch.tensor([0, 1]), torch.zeros(1, 2, dtype=torch.long), "2 samples and idx for 1"),
        (torch.tensor([[0]]), torch.zeros(1, 2, dtype=torch.long), r"cond \(B,\) and idx"),
        (torch.tensor([9]), torch.zeros(1, 2, dtype=torch.long), "found 0 to 42"),
        (torch.tensor([0]), torch.zeros(1, 99, dtype=torch.long), "100 ids are more than the 21 places"),
    ],
)
def test_wrong_input_is_named(cond: torch.Tensor, idx: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_generator(class_config()).logits(cond, idx)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context_blocks": 1}, "either on classes or on context_blocks"),
        ({"classes": ()}, "either on classes or on context_blocks"),
        ({"min_tokens": 0}, "1 <= min_tokens"),
        ({"max_tokens": 7}, "1 <= min_tokens"),
        ({"codebook_size": 1}, "codebook_size >= 2"),
        ({"classes": (), "context_blocks": 4}, "context_blocks must lie in 0..3"),
    ],
)
def test_contradictions_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(class_config(), **change)  # type: ignore[arg-type]


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="width 10 is not a multiple of heads 3"):
        LlamaConfig(width=10, depth=1, heads=3)
    with pytest.raises(ValueError, match="dropout"):
        LlamaConfig(width=9, depth=1, heads=3, token_dropout=1.0)
    with pytest.raises(ValueError, match="no generator preset 'ar-huge'; there are"):
        generator_preset("ar-huge")


RAW = {
    "n_layer": 1,
    "n_head": 2,
    "dim": 8,
    "multiple_of": 4,
    "num_classes": 3,
    "vocab_size": 5,
    "max_seq_len": 4,
    "tot_blocks": 2,
    "cls_token_num": 1,
    "with_block_sep": True,
}


def published(folder: Path, change: dict[str, object]) -> Path:
    shapes = {
        "abs_pe": (1, 6, 8),
        "cls_embedding.embedding_table.weight": (4, 8),
        "tok_embeddings.weight": (6, 8),
        "output.weight": (6, 8),
        "norm.weight": (8,),
        "layers.0.attention.wqkv.weight": (24, 8),
        "layers.0.attention.wo.weight": (8, 8),
        "layers.0.attention_norm.weight": (8,),
        "layers.0.ffn_norm.weight": (8,),
        "layers.0.feed_forward.w1.weight": (24, 8),
        "layers.0.feed_forward.w3.weight": (24, 8),
        "layers.0.feed_forward.w2.weight": (8, 24),
    }
    raw = {name: value for name, value in (RAW | change).items() if value is not None}
    save_file({name: torch.randn(shape) for name, shape in shapes.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


def test_a_published_folder_loads(tmp_path: Path) -> None:
    folder = published(tmp_path, {})
    by_folder = load_official_generator(folder)
    by_file = load_official_generator(folder / "model.safetensors")
    assert by_folder.config == by_file.config
    assert by_folder.config.classes == ("0", "1", "2")
    shutil.move(folder / "config.json", folder / "model_config.json")
    assert load_official_generator(folder / "model.safetensors").config == by_file.config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"with_block_sep": False}, "with_block_sep is False; only True"),
        ({"n_kv_head": 1}, "n_kv_head is 1"),
        ({"dim": None}, "lacks dim"),
        ({"cls_token_num": 2}, "cls_token_num is 2; a class is 1 row"),
        ({"frame_prediction": True, "cls_token_num": 4, "tot_blocks": 1}, "lacks tensors|misshapen|unknown"),
        ({"frame_prediction": True, "cls_token_num": 6, "max_seq_len": 8}, "not whole blocks of 4 tokens"),
        ({"num_classes": 4}, r"embedding.weight \(10, 8\) instead of \(11, 8\)"),
    ],
)
def test_unsupported_settings_are_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_official_generator(published(tmp_path, change))


def test_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no configuration beside it: a_config.json or config.json"):
        load_official_generator(tmp_path / "a.safetensors")
