"""Checkpoints: what goes in comes out, and a wrong file is named."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import adaptok
from tiny_models import GEOMETRY, random_codes, random_kept, random_video, tiny_bundle


@torch.no_grad()
def test_save_and_load_give_identical_outputs(tmp_path: Path) -> None:
    bundle = tiny_bundle(dtype=torch.float32)
    bundle.save(tmp_path / "model")
    again = adaptok.open_bundle(tmp_path / "model")
    assert again.config == bundle.config
    video, kept = random_video(GEOMETRY).float(), random_kept(GEOMETRY)
    encoding, other = bundle.tokenizer.encode(video), again.tokenizer.encode(video)
    assert torch.equal(encoding.latents, other.latents)
    codes = random_codes(bundle.config)
    assert torch.equal(bundle.tokenizer.decode(codes, kept), again.tokenizer.decode(codes, kept))
    assert torch.equal(bundle.scorer.score(encoding, kept, 2), again.scorer.score(other, kept, 2))
    assert torch.equal(bundle.tokenizer.prior_logits(codes), again.tokenizer.prior_logits(codes))
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["config.yaml", "model.safetensors"]


def test_half_precision_on_disk_is_full_precision_in_memory(tmp_path: Path) -> None:
    bundle = tiny_bundle(dtype=torch.float32)
    bundle.save(tmp_path, torch.float16)
    assert load_file(tmp_path / "model.safetensors")["tokenizer.quantizer.codebook"].dtype == torch.float16
    again = adaptok.open_bundle(tmp_path).tokenizer.quantizer.codebook
    assert again.dtype == torch.float32
    assert torch.equal(again, bundle.tokenizer.quantizer.codebook.half().float())


def test_wrong_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no config.yaml"):
        adaptok.open_bundle(tmp_path)
    tiny_bundle(dtype=torch.float32).save(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = "tokenizer.quantizer.codebook"
    for change, message in (
        ({name: None}, f"lacks tensors: {name}"),
        ({"extra": torch.zeros(1)}, "unknown tensors: extra"),
        ({name: torch.zeros(3, 3)}, rf"{name} \(3, 3\) instead of \(32, 6\)"),
    ):
        spoiled = {k: v for k, v in {**weights, **change}.items() if v is not None}
        save_file(spoiled, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            adaptok.open_bundle(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="no weights at"):
        adaptok.open_bundle(tmp_path)
