"""The authors' published tokenizer and scorer checkpoints.

In: a folder with `config.json` and `model.safetensors` (or `tokenizer_config.json` and `tokenizer.safetensors`), or a
Hugging Face hub id such as `yeahhhh326/AdapTok`. Out: a `Bundle`. The configuration is read as data and checked
against what our models implement; whatever they do not is refused by name, never ignored.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adaptok.bundle import Bundle, build, fill, read_weights
from adaptok.config import ModelConfig, model_config
from adaptok.interop.hub import fetch_folder
from adaptok.interop.keys import FIXED_POSITIONS, renamed

# Settings with one supported value: a checkpoint trained otherwise is another architecture.
_REQUIRED: Mapping[str, Any] = {
    "bottleneck.args.norm": "none",
    "bottleneck.args.regularizer.name": "vq",
    "bottleneck.args.regularizer.args.l2_normalized": True,
    "encoder_attn_type": "full_causal_type1",
    "decoder_attn_type": "full_causal_type2",
    "in_channels": 3,
    "learned_encoder_patch_pe": False,
    "learned_encoder_latent_query_embed": True,
    "learned_decoder_latent_pe": False,
    "learned_decoder_patch_query_embed": False,
    "use_encoder_patch_token_type_embed": False,
    "use_encoder_latent_query_token_type_embed": False,
    "use_decoder_latent_token_type_embed": False,
    "use_decoder_patch_query_token_type_embed": True,
    "latent_pe_scale_factor": 10000,
}

# Width, depth and heads of the priors that the authors' configuration names.
_PRIORS = {
    "gptc-L": (1024, 24, 16),
    "gptc-B": (768, 12, 12),
    "gptc-M": (512, 12, 8),
    "gptc-S": (384, 12, 6),
    "gptc-XS": (384, 6, 6),
    "gptc-XXS": (256, 6, 4),
}

_FILES = (("config.json", "model.safetensors"), ("tokenizer_config.json", "tokenizer.safetensors"))


def load_official(folder_or_hub_id: str | Path) -> Bundle:
    """Load a published tokenizer, with its prior and scorer where the checkpoint has them."""
    folder = fetch_folder(folder_or_hub_id)
    config_path, weights_path = _find(folder)
    raw = read_json(config_path)
    weights = read_weights(weights_path)
    config = _model_config(raw, weights, config_path)
    # A hub's local copy is in a folder named by its revision.
    bundle = build(replace(config, name=Path(folder_or_hub_id).name or config.name))
    _check_fixed_positions(bundle, weights, weights_path)
    learned = {name: value for name, value in weights.items() if name not in FIXED_POSITIONS}
    fill(bundle.modules, renamed(learned), source=str(weights_path))
    return bundle


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(raw).__name__}")
    return raw


def _find(folder: Path) -> tuple[Path, Path]:
    for config_name, weights_name in _FILES:
        if (folder / config_name).is_file():
            return folder / config_name, folder / weights_name
    names = " or ".join(f"{a} + {b}" for a, b in _FILES)
    raise ValueError(f"{folder} holds no published checkpoint: {names} is expected")


def _get(raw: Mapping[str, Any], dotted: str, path: Path) -> Any:
    value: Any = raw
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise ValueError(f"{path} lacks {dotted}")
        value = value[part]
    return value


def _model_config(raw: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path) -> ModelConfig:
    def get(dotted: str) -> Any:
        return _get(raw, dotted, path)

    for dotted, wanted in _REQUIRED.items():
        if get(dotted) != wanted:
            raise ValueError(f"{path}: {dotted} is {get(dotted)!r}; only {wanted!r} is supported")
    has_scorer = any(name.startswith("scorer.") for name in weights)
    if has_scorer and get("scorer_attn_type") != "full_causal_type1":
        raise ValueError(
            f"{path}: scorer_attn_type is {get('scorer_attn_type')!r}; only 'full_causal_type1' is supported"
        )
    blocks = get("frame_num") // get("temporal_patch_size")
    regularizer = "bottleneck.args.regularizer.args"
    tokenizer = {
        "geometry": {
            "frames": get("frame_num"),
            "height": get("input_size"),
            "width": get("input_size"),
            "patch_frames": get("temporal_patch_size"),
            "patch_size": get("patch_size"),
            "blocks": blocks,
            "tokens_per_block": get("bottleneck_token_num") // blocks,
        },
        "encoder": _stack(get, "encoder"),
        "decoder": _stack(get, "decoder"),
        "quantizer": {
            "codebook_size": get(f"{regularizer}.codebook_size"),
            "code_width": get("bottleneck.args.bottleneck_dim"),
            "temperature": get(f"{regularizer}.stochastic_temperature"),
            "commitment": get(f"{regularizer}.commitment_loss_weight"),
        },
        "lengths": {
            "law": "gaussian",
            "min": get("mask_generator.min_toks"),
            "max": get("mask_generator.max_toks"),
            "mean": get("mask_generator.mean_toks"),
            "std": get("mask_generator.std_toks"),
        },
        "prior": _prior(get, path) if any(name.startswith("prior_model.") for name in weights) else None,
    }
    scorer = {**_stack(get, "scorer"), "step": get("scorer_step")} if has_scorer else None
    return model_config({"name": path.parent.name, "tokenizer": tokenizer, "scorer": scorer}, str(path))


def _stack(get: Callable[[str], Any], which: str) -> dict[str, Any]:
    names = {"width": "hidden_size", "depth": "depth", "heads": "num_heads"}
    return {ours: get(f"{which}_{theirs}") for ours, theirs in names.items()}


def _prior(get: Callable[[str], Any], path: Path) -> dict[str, Any]:
    name = get("prior_model.name")
    if name not in _PRIORS:
        raise ValueError(f"{path}: prior_model.name is {name!r}; known are {', '.join(_PRIORS)}")
    return {
        **dict(zip(("width", "depth", "heads"), _PRIORS[name], strict=True)),
        "temperature": get("prior_model.latent_ce_temperature"),
        "rounds": get("prior_model.n_rounds"),
    }


def _check_fixed_positions(bundle: Bundle, weights: Mapping[str, Tensor], path: Path) -> None:
    """Published files carry positions that we compute; they must be the same ones."""
    decoder = bundle.tokenizer.decoder
    ours = {
        "encoder_patch_pe": bundle.tokenizer.encoder.patch_positions,
        "decoder_patch_query_embed": decoder.patch_positions,
        "decoder_latent_pe": decoder.slot_positions,
    }
    for name in FIXED_POSITIONS & weights.keys():
        theirs = weights[name].float().reshape(-1, weights[name].shape[-1])
        if theirs.shape != ours[name].shape or not torch.allclose(theirs, ours[name], atol=1e-5):
            raise ValueError(f"{path}: {name} is not the sine-cosine table this model computes")
