"""How fast are tokens generated? `python benchmarks/generation_speed.py` (preset ar-b; half an hour on a laptop CPU).

Against the same model without cache, and against a Hugging Face `LlamaForCausalLM` of the same shape with its own cache
(`pip install transformers`; left out where it is not installed), by `generate` and by a bare loop over its forward. All
draw every token from the whole vocabulary. Random weights, all samples with the same forced number of tokens, so that
each path does the same work. Ratios are taken within one run, the paths by turns, the best of the repeats. Memory in
processes of their own. Writes results/generation_speed.json; `--smoke` is for trying the script out and writes nothing.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import machine
from adaptok.generation import Generator, Sampling, build_generator
from adaptok.generation.sampling import Engine
from adaptok.generation.sequence import Prompt, class_ids

GOAL = 1.5
Times = list[float]


def model_of(preset: str) -> Generator:
    torch.manual_seed(0)
    generator = build_generator(preset)
    torch.nn.init.normal_(generator.head.weight, std=0.02)
    return generator


def ours(generator: Generator, batch: int, per_block: int) -> tuple[Times, int]:
    """Seconds of every step, and the bytes of the cache."""
    prompts = [Prompt(class_ids(generator.config, i % len(generator.config.classes)), i) for i in range(batch)]
    rules = Sampling(tokens_per_block=per_block).rules(generator.config)
    engine = Engine(generator, prompts, rules, batch, None)
    steps, blocks = [], 0
    while engine.rows:
        start = time.perf_counter()
        blocks += len(engine.step())
        steps.append(time.perf_counter() - start)
    assert blocks == batch * generator.config.blocks
    return steps, engine.cache.bytes


@torch.inference_mode()
def uncached(generator: Generator, batch: int, steps: int, places: int) -> tuple[list[int], Times]:
    """Seconds of one step without cache at some context lengths; a whole run would take hours."""
    contexts = sorted({max(1, round(steps * i / (places - 1))) for i in range(places)})
    taken = []
    for context in contexts:
        ids = torch.randint(0, generator.config.codebook_size, (batch, context))
        work = lambda ids=ids: generator.head(generator.rows(ids)[:, -1]).softmax(-1).multinomial(1)  # noqa: E731
        taken.append(seconds(work))
    return contexts, taken


def hugging_face(generator: Generator) -> object:
    """A Llama of the same shape; rotary positions instead of learned ones."""
    from transformers import LlamaConfig, LlamaForCausalLM

    c, t = generator.config, generator.config.transformer
    config = LlamaConfig(
        vocab_size=c.outputs,
        hidden_size=t.width,
        intermediate_size=t.hidden,
        num_hidden_layers=t.depth,
        num_attention_heads=t.heads,
        num_key_value_heads=t.heads,
        max_position_embeddings=c.positions + 1,
        attn_implementation="sdpa",
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


@torch.inference_mode()
def hf_generate(model: object, batch: int, steps: int) -> float:
    """Seconds of the library's own sampler."""
    ids = torch.zeros(batch, 1, dtype=torch.long)
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": steps, "min_new_tokens": steps, "use_cache": True}
    return seconds(lambda: model.generate(ids, attention_mask=torch.ones_like(ids), **options))


@torch.inference_mode()
def hf_loop(model: object, batch: int, steps: int) -> Times:
    """Seconds of every step of a bare loop over its forward, with its default cache."""
    ids, cache, taken = torch.zeros(batch, 1, dtype=torch.long), None, []
    for _ in range(steps):
        start = time.perf_counter()
        out = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, ids = out.past_key_values, out.logits[:, -1].softmax(-1).multinomial(1)
        taken.append(time.perf_counter() - start)
    return taken


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def linearity(steps: Times) -> dict[str, float]:
    """Milliseconds per step against context: a line's coefficients, and how much of it a bend would explain."""
    warm = np.array(steps[len(steps) // 20 :]) * 1000
    parts = np.array_split(np.arange(len(warm)), min(32, len(warm)))
    x = np.array([part.mean() for part in parts]) + len(steps) // 20
    y = np.array([np.median(warm[part]) for part in parts])
    line, bend = np.polyfit(x, y, 1), np.polyfit(x, y, 2)
    spread = ((y - y.mean()) ** 2).sum()
    return {
        "ms_at_start": round(float(line[1]), 3),
        "ms_per_1000_tokens_of_context": round(float(1000 * line[0]), 3),
        "r2_line": round(float(1 - ((y - np.polyval(line, x)) ** 2).sum() / spread), 4),
        "r2_parabola": round(float(1 - ((y - np.polyval(bend, x)) ** 2).sum() / spread), 4),
    }


def by_context(best: dict[str, Times]) -> dict[int, float]:
    """How much faster than the bare loop, at some context lengths: medians over an eighth of the sequence each."""
    if "hf_loop" not in best:
        return {}
    parts = np.array_split(np.arange(len(best["ours"])), 8)
    medians = {name: [float(np.median(np.array(best[name])[part])) for part in parts] for name in ("ours", "hf_loop")}
    middles = [int(part.mean()) for part in parts]
    return {m: round(b / a, 2) for m, a, b in zip(middles, medians["ours"], medians["hf_loop"], strict=True)}


def peak_megabytes(what: str, options: argparse.Namespace) -> float:
    """Growth of the resident set in a process of its own, from the loaded model on."""
    command = [sys.executable, __file__, "--preset", options.preset, "--batch", str(options.batch), "--memory", what]
    command += ["--tokens", str(options.tokens)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def print_memory(what: str, options: argparse.Namespace) -> None:
    from tokenizer_speed import peak_megabytes as watch

    generator = model_of(options.preset)
    steps = generator.config.blocks * (options.tokens + 1)
    if what == "ours":
        print(watch(lambda: ours(generator, options.batch, options.tokens)))
        return
    model = hugging_face(generator)
    print(watch(lambda: hf_loop(model, options.batch, steps)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="ar-b")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of each of the 4 blocks")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument(
        "--batches", type=int, nargs="*", default=[1, 2, 4, 16], help="further batches, ours, 64 tokens a block"
    )
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--smoke", action="store_true", help="preset ar-tiny, few tokens, nothing written")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.preset, options.tokens, options.repeats, options.batches = "ar-tiny", 4, 1, [1, 2]
    return options


def main() -> None:
    options = arguments()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.memory:
        print_memory(options.memory, options)
        return
    generator = model_of(options.preset)
    steps = generator.config.blocks * (options.tokens + 1)
    there = find_spec("transformers") is not None
    model = hugging_face(generator) if there else None
    runs: dict[str, list[Times]] = {"ours": [], "hf_loop": [], "hf_generate": []}
    for _ in range(options.repeats):
        found, cache_bytes = ours(generator, options.batch, options.tokens)
        runs["ours"].append(found)
        if model is not None:
            runs["hf_loop"].append(hf_loop(model, options.batch, steps))
            runs["hf_generate"].append([hf_generate(model, options.batch, steps)])
    best = {name: min(found, key=sum) for name, found in runs.items() if found}
    rate = {name: options.batch * steps / sum(taken) for name, taken in best.items()}
    contexts, slow = uncached(generator, options.batch, steps, 3 if options.smoke else 6)
    rate["uncached"] = options.batch * steps / float(np.trapezoid(slow, contexts))
    batches = {}
    for batch in options.batches:
        taken, _ = ours(generator, batch, min(options.tokens, 64))
        batches[batch] = {
            "ms_per_step": round(1000 * sum(taken) / len(taken), 3),
            "tokens_per_s": round(batch * len(taken) / sum(taken), 1),
        }
    result = {
        **machine.describe(("transformers",) if there else ()),
        "preset": options.preset,
        "parameters": sum(p.numel() for p in generator.parameters()),
        "batch": options.batch,
        "tokens_per_sample": steps,
        "tokens_per_s": {name: round(value, 1) for name, value in rate.items()},
        "ratio": {name: round(rate["ours"] / value, 2) for name, value in rate.items() if name != "ours"},
        "goal": {"hf_generate": GOAL},
        "ratio_by_context": by_context(best),
        "context": {name: linearity(best[name]) for name in ("ours", "hf_loop") if name in best},
        "uncached_seconds": dict(zip(contexts, (round(t, 4) for t in slow), strict=True)),
        "batches": batches,
        "cache_mb": round(cache_bytes / 2**20, 1),
        "weights_mb": round(sum(p.numel() * p.element_size() for p in generator.parameters()) / 2**20, 1),
        "peak_mb": {
            name: round(peak_megabytes(name, options), 1) for name in ("ours", *(["hf_loop"] if there else []))
        },
    }
    table = Table("", "tokens per second", "ours is faster by")
    for name, value in rate.items():
        table.add_row(name, f"{value:.1f}", "" if name == "ours" else f"{rate['ours'] / value:.2f}×")
    Console().print(table)
    print(json.dumps(result["context"]), json.dumps(batches))
    if not options.smoke:
        machine.save("generation_speed", result)


if __name__ == "__main__":
    main()
