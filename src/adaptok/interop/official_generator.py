"""The authors' published generators: class-conditional and frame prediction.

In: a `.safetensors` file with `NAME_config.json` or `config.json` beside it, a folder with `config.json` and
`model.safetensors`, or a hub id. Out: a `Generator`. Their token and class tables become one table of ids, gate and up
one matrix. Settings that our generator does not implement are refused by name.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adaptok.bundle import fill, read_weights
from adaptok.generation.bundle import build_generator
from adaptok.generation.config import GeneratorConfig, generator_config
from adaptok.generation.generator import Generator
from adaptok.interop.hub import fetch_folder
from adaptok.interop.official import read_json

# Settings with one supported value; where the file is silent, the authors' default is it.
_REQUIRED: Mapping[str, tuple[Any, ...]] = {
    "with_block_sep": (True,),
    "ffn_dim_multiplier": (None,),
    "norm_eps": (1e-5,),
    "model_type": ("class_cond",),
    "start_ar_block_idx": (0,),
    "drop_path_rate": (0.0,),
}

_NAMES = (
    (r"^abs_pe$", "positions"),
    (r"^output\.weight$", "head.weight"),
    (r"^norm\.", "llama.norm."),
    (r"^layers\.", "llama.layers."),
    (r"\.attention\.wqkv\.", ".qkv."),
    (r"\.attention\.wo\.", ".proj."),
    (r"\.attention_norm\.", ".norm1."),
    (r"\.ffn_norm\.", ".norm2."),
    (r"\.feed_forward\.w2\.", ".down."),
)
_TOKENS, _CLASSES = "tok_embeddings.weight", "cls_embedding.embedding_table.weight"


def load_official_generator(path_or_hub_id: str | Path) -> Generator:
    """Load a published generator; `g.logits(cond, idx)` gives its scores."""
    weights_path, config_path = _find(path_or_hub_id)
    generator = build_generator(_config(read_json(config_path), config_path))
    fill(generator, _renamed(read_weights(weights_path)), source=str(weights_path))
    return generator


def _find(path_or_hub_id: str | Path) -> tuple[Path, Path]:
    """Weights and configuration."""
    path = Path(path_or_hub_id)
    if path.suffix != ".safetensors":
        path = fetch_folder(path_or_hub_id) / "model.safetensors"
    places = (path.with_name(f"{path.stem}_config.json"), path.with_name("config.json"))
    for place in places:
        if place.is_file():
            return path, place
    raise ValueError(f"{path} has no configuration beside it: {places[0].name} or {places[1].name} is expected")


def _config(raw: Mapping[str, Any], path: Path) -> GeneratorConfig:
    def get(name: str) -> Any:
        if name not in raw:
            raise ValueError(f"{path} lacks {name}")
        return raw[name]

    for name, (wanted,) in _REQUIRED.items():
        if raw.get(name, wanted) != wanted:
            raise ValueError(f"{path}: {name} is {raw[name]!r}; only {wanted!r} is supported")
    if raw.get("n_kv_head") not in (None, get("n_head")):
        raise ValueError(
            f"{path}: n_kv_head is {raw['n_kv_head']}; only as many as n_head {get('n_head')} are supported"
        )
    blocks, rows = get("tot_blocks"), get("cls_token_num")
    tokens = get("max_seq_len") // blocks
    frames = bool(raw.get("frame_prediction", False))
    if frames and rows % tokens > 1:
        raise ValueError(
            f"{path}: cls_token_num {rows} is not whole blocks of {tokens} tokens, with or without separator"
        )
    if not frames and rows != 1:
        raise ValueError(f"{path}: cls_token_num is {rows}; a class is 1 row")
    config = {
        "name": path.parent.name,
        "transformer": {
            "width": get("dim"),
            "depth": get("n_layer"),
            "heads": get("n_head"),
            "multiple_of": raw.get("multiple_of", 256),
            "token_dropout": raw.get("token_dropout_p", 0.1),
            "residual_dropout": raw.get("resid_dropout_p", 0.1),
            "attention_dropout": raw.get("attn_dropout_p", 0.0),
        },
        "blocks": blocks,
        "tokens_per_block": tokens,
        "codebook_size": get("vocab_size"),
        "classes": [] if frames else [str(number) for number in range(get("num_classes"))],
        "context_blocks": rows // tokens if frames else 0,
        "separator": frames and rows % tokens == 1,
    }
    return generator_config(config, str(path))


def _renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors under our names; unknown ones keep theirs, so that the caller can refuse them by name."""
    left = dict(weights)
    tables = [left.pop(name) for name in (_TOKENS, _CLASSES) if name in left]
    out = {"embedding.weight": torch.cat(tables)} if tables else {}
    for name in weights:
        if name.endswith(".feed_forward.w1.weight") and (up := name.replace(".w1.", ".w3.")) in left:
            out[_rename(name.replace("feed_forward.w1", "gate_up"))] = torch.cat([left.pop(name), left.pop(up)])
    out |= {_rename(name): value for name, value in left.items()}
    if "positions" in out:
        out["positions"] = out["positions"].squeeze(0)
    return out


def _rename(name: str) -> str:
    for pattern, ours in _NAMES:
        name = re.sub(pattern, ours, name)
    return name
