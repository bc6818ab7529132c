"""The authors' tensor names in terms of ours.

In: their state dict. Out: ours. Their attention keeps q, k, v of the prior apart; ours fuses them.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

FIXED_POSITIONS = frozenset({"encoder_patch_pe", "decoder_patch_query_embed", "decoder_latent_pe"})

_LAYER = (
    (r"\.blocks\.(\d+)\.", r".stack.layers.\1."),
    (r"\.attn\.", ".attention."),
    (r"\.mlp\.fc1\.", ".mlp.0."),
    (r"\.mlp\.fc2\.", ".mlp.2."),
    (r"\.ln1\.", ".norm1."),
    (r"\.ln2\.", ".norm2."),
)
_NAMES = (
    (r"^x_embedder\.proj\.", "tokenizer.encoder.patches.proj."),
    (r"^encoder_latent_query_embed$", "tokenizer.encoder.queries"),
    (r"^encoder\.", "tokenizer.encoder."),
    (r"^bottleneck\.in_linear\.", "tokenizer.quantizer.project_in."),
    (r"^bottleneck\.out_linear\.", "tokenizer.quantizer.project_out."),
    (r"^bottleneck\.regularizer\.embedding\.weight$", "tokenizer.quantizer.codebook"),
    (r"^decoder_patch_query_token_type_embed$", "tokenizer.decoder.patch_type"),
    (r"^decoder\.", "tokenizer.decoder."),
    (r"^final_layer\.norm_final\.", "tokenizer.decoder.output.norm."),
    (r"^final_layer\.linear\.", "tokenizer.decoder.output.linear."),
    (r"^prior_model\.input_proj\.", "tokenizer.prior.project_in."),
    (r"^prior_model\.pos_emb$", "tokenizer.prior.positions"),
    (r"^prior_model\.ln_f\.", "tokenizer.prior.norm."),
    (r"^prior_model\.", "tokenizer.prior."),
    (r"^scorer\.latent_pe$", "scorer.positions"),
    (r"^scorer\.ln_post\.", "scorer.norm."),
    (r"^scorer\.ffn\.", "scorer.head."),
)
_SQUEEZED = frozenset({"tokenizer.decoder.patch_type", "tokenizer.prior.positions"})


def renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors under our names; unknown ones keep theirs, so that the caller can refuse them by name."""
    out = {_rename(name): value for name, value in weights.items()}
    for name in _SQUEEZED & out.keys():
        out[name] = out[name].squeeze()
    return _fuse(out)


def _rename(name: str) -> str:
    for pattern, ours in (*_LAYER, *_NAMES):
        name = re.sub(pattern, ours, name)
    return name


def _fuse(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Join `query`, `key`, `value` of a layer into `qkv`."""
    fused = dict(weights)
    for name in weights:
        if ".attention.query." not in name:
            continue
        parts = [name.replace(".query.", f".{part}.") for part in ("query", "key", "value")]
        if all(part in weights for part in parts):
            fused[name.replace(".query.", ".qkv.")] = torch.cat([fused.pop(part) for part in parts])
    return fused
