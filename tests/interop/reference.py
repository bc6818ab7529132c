"""A naive second implementation of the published tokenizer, straight from its description.

It shares no code with the package: full (N,N) masks, one head after another, authors' tensor names.
"""

import math
from typing import Any

import torch

State = dict[str, torch.Tensor]

T, H, PT, PP, K, M, D, E, V, DEPTH, HEADS, STEP = 4, 8, 2, 4, 2, 4, 16, 4, 12, 2, 2, 2
P = (H // PP) ** 2
PRIOR_WIDTH, PRIOR_DEPTH, PRIOR_HEADS = 256, 6, 4

CONFIG: dict[str, Any] = {
    "bottleneck": {
        "args": {
            "bottleneck_dim": E,
            "norm": "none",
            "regularizer": {
                "name": "vq",
                "args": {
                    "codebook_size": V,
                    "commitment_loss_weight": 0.25,
                    "l2_normalized": True,
                    "stochastic_temperature": 0.03,
                },
            },
        }
    },
    "prior_model": {"name": "gptc-XXS", "n_rounds": 2, "latent_ce_temperature": 1.0},
    "bottleneck_token_num": K * M,
    "input_size": H,
    "frame_num": T,
    "temporal_patch_size": PT,
    "patch_size": PP,
    "in_channels": 3,
    **{f"{net}_hidden_size": D for net in ("encoder", "decoder", "scorer")},
    **{f"{net}_num_heads": HEADS for net in ("encoder", "decoder", "scorer")},
    **{f"{net}_depth": DEPTH for net in ("encoder", "decoder", "scorer")},
    "scorer_step": STEP,
    "learned_encoder_patch_pe": False,
    "learned_encoder_latent_query_embed": True,
    "learned_decoder_latent_pe": False,
    "learned_decoder_patch_query_embed": False,
    "use_encoder_patch_token_type_embed": False,
    "use_encoder_latent_query_token_type_embed": False,
    "use_decoder_latent_token_type_embed": False,
    "use_decoder_patch_query_token_type_embed": True,
    "latent_pe_scale_factor": 10000,
    "encoder_attn_type": "full_causal_type1",
    "decoder_attn_type": "full_causal_type2",
    "scorer_attn_type": "full_causal_type1",
    "mask_generator": {"min_toks": 1, "max_toks": M, "mean_toks": 2, "std_toks": 1},
}


def sines(position: float, width: int) -> list[float]:
    half = width // 2
    angles = [position / 10000 ** (i / half) for i in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


def patch_table() -> torch.Tensor:
    rows = []
    for t in range(T // PT):
        for y in range(H // PP):
            for x in range(H // PP):
                place = sines(x, D // 2) + sines(y, D // 2)
                rows.append([a + b for a, b in zip(place, sines(t, D), strict=True)])
    return torch.tensor(rows)


def slot_table() -> torch.Tensor:
    return torch.tensor([sines(i, D) for i in range(K * M)])


def make_state(seed: int = 0) -> State:
    g = torch.Generator().manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "x_embedder.proj.weight": (D, 3, PT, PP, PP),
        "x_embedder.proj.bias": (D,),
        "encoder_latent_query_embed": (K * M, D),
        "bottleneck.in_linear.weight": (E, D),
        "bottleneck.in_linear.bias": (E,),
        "bottleneck.out_linear.weight": (D, E),
        "bottleneck.out_linear.bias": (D,),
        "bottleneck.regularizer.embedding.weight": (V, E),
        "decoder_patch_query_token_type_embed": (1, 1, D),
        "final_layer.norm_final.weight": (D,),
        "final_layer.norm_final.bias": (D,),
        "final_layer.linear.weight": (3 * PT * PP * PP, D),
        "final_layer.linear.bias": (3 * PT * PP * PP,),
        "scorer.project.weight": (D, 2 * D),
        "scorer.project.bias": (D,),
        "scorer.latent_pe": (K * M, D),
        "scorer.ln_post.weight": (D,),
        "scorer.ln_post.bias": (D,),
        "scorer.ffn.0.weight": (2 * D, D),
        "scorer.ffn.0.bias": (2 * D,),
        "scorer.ffn.2.weight": (1, 2 * D),
        "scorer.ffn.2.bias": (1,),
        "prior_model.input_proj.weight": (PRIOR_WIDTH, E),
        "prior_model.input_proj.bias": (PRIOR_WIDTH,),
        "prior_model.pos_emb": (1, K * M, PRIOR_WIDTH),
        "prior_model.ln_f.weight": (PRIOR_WIDTH,),
        "prior_model.ln_f.bias": (PRIOR_WIDTH,),
        "prior_model.head.weight": (E, PRIOR_WIDTH),
        "prior_model.head.bias": (E,),
    }
    for net in ("encoder", "decoder", "scorer"):
        for i in range(DEPTH):
            b = f"{net}.blocks.{i}"
            shapes |= {f"{b}.norm{n}.{w}": (D,) for n in (1, 2) for w in ("weight", "bias")}
            shapes |= {f"{b}.attn.qkv.weight": (3 * D, D), f"{b}.attn.proj.weight": (D, D)}
            shapes |= {f"{b}.attn.proj.bias": (D,), f"{b}.mlp.fc1.weight": (4 * D, D)}
            shapes |= {f"{b}.mlp.fc1.bias": (4 * D,), f"{b}.mlp.fc2.weight": (D, 4 * D)}
            shapes |= {f"{b}.mlp.fc2.bias": (D,)}
    for i in range(PRIOR_DEPTH):
        b, w = f"prior_model.blocks.{i}", PRIOR_WIDTH
        shapes |= {f"{b}.ln{n}.{x}": (w,) for n in (1, 2) for x in ("weight", "bias")}
        for name in ("query", "key", "value", "proj"):
            shapes |= {f"{b}.attn.{name}.weight": (w, w), f"{b}.attn.{name}.bias": (w,)}
        shapes |= {f"{b}.mlp.0.weight": (4 * w, w), f"{b}.mlp.0.bias": (4 * w,)}
        shapes |= {f"{b}.mlp.2.weight": (w, 4 * w), f"{b}.mlp.2.bias": (w,)}
    state = {name: torch.randn(shape, generator=g) * shape[-1] ** -0.5 for name, shape in shapes.items()}
    state["encoder_patch_pe"] = patch_table()[None]
    state["decoder_patch_query_embed"] = patch_table()[None]
    state["decoder_latent_pe"] = slot_table()[None]
    return state


def linear(s: State, name: str, x: torch.Tensor) -> torch.Tensor:
    y = x @ s[f"{name}.weight"].T
    return y + s[f"{name}.bias"] if f"{name}.bias" in s else y


def norm(s: State, name: str, x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    x = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    return x * s[f"{name}.weight"] + s[f"{name}.bias"]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, see: torch.Tensor) -> torch.Tensor:
    w = q.shape[-1] // heads
    out = []
    for i in range(heads):
        c = slice(i * w, (i + 1) * w)
        a = (q[:, c] @ k[:, c].T / w**0.5).masked_fill(~see, float("-inf")).softmax(-1)
        out.append(a @ v[:, c])
    return torch.cat(out, dim=-1)


def gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def run(s: State, net: str, x: torch.Tensor, see: torch.Tensor) -> torch.Tensor:
    for i in range(DEPTH):
        b = f"{net}.blocks.{i}"
        q, k, v = linear(s, f"{b}.attn.qkv", norm(s, f"{b}.norm1", x)).chunk(3, dim=-1)
        x = x + linear(s, f"{b}.attn.proj", attention(q, k, v, HEADS, see))
        x = x + linear(s, f"{b}.mlp.fc2", gelu(linear(s, f"{b}.mlp.fc1", norm(s, f"{b}.norm2", x))))
    return x


def encode(s: State, video: torch.Tensor) -> torch.Tensor:
    """(3,T,H,H) to (K·M,D)."""
    rows = []
    for t in range(T // PT):
        for y in range(H // PP):
            for x in range(H // PP):
                piece = video[:, t * PT : (t + 1) * PT, y * PP : (y + 1) * PP, x * PP : (x + 1) * PP]
                w = s["x_embedder.proj.weight"]
                rows.append((w * piece).sum((1, 2, 3, 4)) + s["x_embedder.proj.bias"])
    x = torch.cat([torch.stack(rows) + patch_table(), s["encoder_latent_query_embed"]])
    block = torch.tensor([i // P for i in range(K * P)] + [i // M for i in range(K * M)])
    return run(s, "encoder", x, block[None] <= block[:, None])[K * P :]


def codes_of(s: State, latents: torch.Tensor) -> torch.Tensor:
    z = linear(s, "bottleneck.in_linear", latents)
    c = s["bottleneck.regularizer.embedding.weight"]
    return ((z / z.norm(dim=-1, keepdim=True)) @ (c / c.norm(dim=-1, keepdim=True)).T).argmax(-1)


def entries(s: State) -> torch.Tensor:
    c = s["bottleneck.regularizer.embedding.weight"]
    return c / c.norm(dim=-1, keepdim=True)


def decode(s: State, codes: torch.Tensor, kept: list[int]) -> torch.Tensor:
    """(K·M,) to (3,T,H,H)."""
    keep = [k * M + i for k in range(K) for i in range(kept[k])]
    tokens = (linear(s, "bottleneck.out_linear", entries(s)[codes]) + slot_table())[keep]
    queries = patch_table() + s["decoder_patch_query_token_type_embed"][0]
    n = len(keep)
    block = torch.tensor([i // M for i in keep] + [i // P for i in range(K * P)])
    is_patch = torch.arange(n + K * P) >= n
    past = block[None] <= block[:, None]
    own = block[None] == block[:, None]
    see = (past & ~is_patch[None]) | (own & is_patch[None] & is_patch[:, None])
    rows = run(s, "decoder", torch.cat([tokens, queries]), see)[n:]
    rows = linear(s, "final_layer.linear", norm(s, "final_layer.norm_final", rows, eps=1e-6))
    video = torch.zeros(3, T, H, H)
    for i, row in enumerate(rows):
        t, y, x = i // P, (i % P) // (H // PP), i % (H // PP)
        piece = row.reshape(PT, PP, PP, 3).permute(3, 0, 1, 2)
        video[:, t * PT : (t + 1) * PT, y * PP : (y + 1) * PP, x * PP : (x + 1) * PP] = piece
    return video


def score(s: State, latents: torch.Tensor, codes: torch.Tensor, kept: list[int], q: int) -> torch.Tensor:
    embedded = linear(s, "bottleneck.out_linear", entries(s)[codes])
    lengths = [*kept[:q], M]
    keep = [k * M + i for k in range(q + 1) for i in range(lengths[k])]
    x = (linear(s, "scorer.project", torch.cat([latents, embedded], -1)) + s["scorer.latent_pe"])[keep]
    block = torch.tensor([i // M for i in keep])
    x = norm(s, "scorer.ln_post", run(s, "scorer", x, block[None] <= block[:, None]))[-M:]
    y = linear(s, "scorer.ffn.2", torch.tanh(linear(s, "scorer.ffn.0", x)))[:, 0]
    return y[STEP - 1 :: STEP]


def prior_logits(s: State, codes: torch.Tensor) -> torch.Tensor:
    vectors = entries(s)[codes[:-1]]
    x = linear(s, "prior_model.input_proj", vectors) + s["prior_model.pos_emb"][0, : len(vectors)]
    see = torch.ones(len(x), len(x), dtype=torch.bool).tril()
    for i in range(PRIOR_DEPTH):
        b = f"prior_model.blocks.{i}"
        h = norm(s, f"{b}.ln1", x)
        q, k, v = (linear(s, f"{b}.attn.{part}", h) for part in ("query", "key", "value"))
        x = x + linear(s, f"{b}.attn.proj", attention(q, k, v, PRIOR_HEADS, see))
        x = x + linear(s, f"{b}.mlp.2", gelu(linear(s, f"{b}.mlp.0", norm(s, f"{b}.ln2", x))))
    out = linear(s, "prior_model.head", norm(s, "prior_model.ln_f", x))
    return out / out.norm(dim=-1, keepdim=True) @ entries(s).T
