"""Published checkpoints: the same numbers as the published code, and clear refusals."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from adaptok.interop import hub, load_official
from interop import reference


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(reference.CONFIG))
    save_file(reference.make_state(), tmp_path / "model.safetensors")
    return tmp_path


@torch.no_grad()
def test_published_outputs_are_reproduced(shared: Path) -> None:
    io = load_file(shared / "parity" / "tiny" / "io.safetensors")
    bundle = load_official(shared / "parity" / "tiny")
    tokenizer, scorer, kept = bundle.tokenizer, bundle.scorer, io["token_counts"]
    encoding = tokenizer.encode(io["video"])
    assert torch.equal(encoding.codes.flatten(1), io["indices"])
    pairs = {
        "latents": encoding.latents.flatten(1, 2),
        "codes": tokenizer.quantizer.lookup(encoding.codes).flatten(1, 2),
        "quantized_projected": encoding.embedded.flatten(1, 2),
        "recon_full": tokenizer.decode(encoding.codes),
        "recon_adaptive": tokenizer.decode(encoding.codes, kept),
        "scores": torch.stack([scorer.score(encoding, kept, block=q) for q in range(4)], dim=1),
        "prior_logits_full": tokenizer.prior_logits(encoding.codes),
    }
    for name, ours in pairs.items():
        assert ours.shape == io[name].shape, name
        assert (ours - io[name]).abs().max() < 1e-5, name


@torch.no_grad()
def test_a_naive_implementation_is_reproduced(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    bundle = load_official(folder)
    video = torch.rand(2, 3, reference.T, reference.H, reference.H)
    kept = torch.tensor([[3, 1], [0, 4]])
    encoding = bundle.tokenizer.encode(video)
    pictures = bundle.tokenizer.decode(encoding.codes, kept)
    logits = bundle.tokenizer.prior_logits(encoding.codes)
    for i in range(2):
        latents = reference.encode(state, video[i])
        codes = reference.codes_of(state, latents)
        assert torch.equal(encoding.codes[i].flatten(), codes)
        assert (encoding.latents[i].flatten(0, 1) - latents).abs().max() < 1e-5
        assert (pictures[i] - reference.decode(state, codes, kept[i].tolist())).abs().max() < 1e-5
        assert (logits[i] - reference.prior_logits(state, codes)).abs().max() < 1e-5
        for q in range(reference.K):
            wanted = reference.score(state, latents, codes, kept[i].tolist(), q)
            assert (bundle.scorer.score(encoding, kept, block=q)[i] - wanted).abs().max() < 1e-5


def test_tokenizer_alone_has_no_scorer_and_no_prior(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    bare = {name: value for name, value in state.items() if not name.startswith(("scorer.", "prior_model."))}
    save_file(bare, folder / "model.safetensors")
    bundle = load_official(folder)
    assert bundle.scorer is None
    assert bundle.tokenizer.prior is None
    with pytest.raises(ValueError, match="no prior"):
        bundle.tokenizer.prior_logits(torch.zeros(1, reference.K, reference.M, dtype=torch.long))


def spoil_missing(state: dict[str, torch.Tensor]) -> None:
    del state["encoder.blocks.0.attn.qkv.weight"]


def spoil_extra(state: dict[str, torch.Tensor]) -> None:
    state["surprise"] = torch.zeros(1)


def spoil_shape(state: dict[str, torch.Tensor]) -> None:
    state["scorer.ffn.2.bias"] = torch.zeros(2)


def spoil_positions(state: dict[str, torch.Tensor]) -> None:
    state["decoder_latent_pe"] = state["decoder_latent_pe"] + 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_missing, r"lacks tensors: tokenizer\.encoder\.stack\.layers\.0\.attention\.qkv\.weight"),
        (spoil_extra, "unknown tensors: surprise"),
        (spoil_shape, r"misshapen tensors: scorer\.head\.2\.bias \(2,\) instead of \(1,\)"),
        (spoil_positions, "decoder_latent_pe is not the sine-cosine table"),
    ],
)
def test_wrong_tensors_are_named(folder: Path, spoil: Callable[[dict[str, torch.Tensor]], None], message: str) -> None:
    state = load_file(folder / "model.safetensors")
    spoil(state)
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        load_official(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder_attn_type": "none"}, "encoder_attn_type is 'none'"),
        ({"scorer_attn_type": "none"}, "scorer_attn_type is 'none'"),
        ({"in_channels": 1}, "in_channels is 1"),
        ({"frame_num": None}, "lacks frame_num"),
        ({"input_size": 10}, "height 10 is not a multiple of patch_size 4"),
    ],
)
def test_unsupported_settings_are_named(folder: Path, change: dict[str, Any], message: str) -> None:
    config = copy.deepcopy(reference.CONFIG) | change
    config = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        load_official(folder)


def test_files_that_are_not_there_or_not_readable(folder: Path) -> None:
    with pytest.raises(ValueError, match="neither a folder nor a hub id"):
        load_official(folder / "nowhere" / "at" / "all")
    (folder / "model.safetensors").write_bytes(b"not a safetensors file")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load_official(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="no weights at"):
        load_official(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        load_official(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="holds no published checkpoint"):
        load_official(folder)


def test_a_hub_id_is_fetched_without_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []

    def fake(repo_id: str, allow_patterns: list[str]) -> str:
        asked.append((repo_id, allow_patterns))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fake)
    assert load_official("yeahhhh326/AdapTok").scorer is not None
    assert asked == [("yeahhhh326/AdapTok", ["*.json", "*.safetensors"])]


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(repo_id: str, allow_patterns: list[str]) -> str:
        raise ConnectionError("no route\nmore")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(ValueError, match="the hub did not give it: no route$"):
        hub.fetch_folder("owner/name")
