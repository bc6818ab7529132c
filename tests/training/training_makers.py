"""Small videos and small recipes that the training tests share."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import av
import numpy as np

from adaptok.config import ModelConfig
from adaptok.training import TokenizerTraining, load_recipe

MODEL = """
  name: test
  tokenizer:
    geometry: {frames: 8, height: 32, width: 32, patch_frames: 2, patch_size: 8, blocks: 2, tokens_per_block: 32}
    encoder: {width: 64, depth: 2, heads: 2}
    decoder: {width: 64, depth: 2, heads: 2}
    quantizer: {codebook_size: 64, code_width: 8}
    lengths: {law: uniform, min: 4, max: 32, shared: true}
    relative_latents: true
    learned_slots: true
"""

RECIPE = """
model: MODEL
data: {source: SOURCE, cache: disk, cache_folder: CACHE, short_side: 40}
augment: {flip: 0.5, transpose: 0.2, reverse: 0.2, strides: [1, 2], colour: 0.1, gamma: 0.1, stills: 0.2}
start: {aligned: true, clips: 16}
stages: [{start: 0, blocks: 1, batch: 4}, {start: 4, blocks: 2, batch: 2}]
tail_drop: {start: 2, share: 0.8}
codebook: {quantize: {start: 3, steps: 2}, kmeans_clips: 8, follow: 0.9, revive_every: 2}
losses: {l1: 1, perceptual: 0, quantizer: 0.1}
optimizer: {kind: muon, rate: 1.0e-3, matrix_rate: 1.0e-3, betas: [0.9, 0.95], warmup: 2}
run: {steps: 8, ema: 0.9, save_every: 2, validate_every: 4, validate_lpips: false, log_every: 1}
"""


TRAIN = """
import sys
from pathlib import Path
import torch
from adaptok.training import TokenizerTraining, load_recipe, train_tokenizer
if __name__ == "__main__":
    torch.set_num_threads(1)
    recipe, out, resume, minutes, *overrides = sys.argv[1:]
    settings = load_recipe(TokenizerTraining, recipe, overrides)
    train_tokenizer(settings, Path(out), resume == "resume", float(minutes))
"""


def moving_pictures(count: int, height: int, width: int, seed: int) -> np.ndarray:
    """A smooth random texture that drifts."""
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(0, 255, (height // 8 + count // 4 + 3, width // 8 + count // 8 + 3, 3))
    fine = np.kron(coarse, np.ones((8, 8, 1)))
    return np.stack([fine[2 * i : 2 * i + height, i : i + width] for i in range(count)]).astype(np.uint8)


def write_video(
    path: Path, seed: int, count: int = 20, codec: str = "libx264", options: Mapping[str, str] | None = None
) -> Path:
    """A short file of 48×64 pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = 48, 64
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=dict(options or {}))
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        for image in moving_pictures(count, height, width, seed):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


def make_corpus(folder: Path, train: int = 6, val: int = 3) -> Path:
    """Videos in split and class folders."""
    for split, count in (("train", train), ("val", val)):
        for i in range(count):
            write_video(folder / split / f"class{i % 2}" / f"{i}.mp4", seed=i + 100 * (split == "val"))
    return folder


def write_recipe(path: Path, corpus: Path, cache: Path) -> Path:
    """The small recipe as a file."""
    text = RECIPE.replace("MODEL", MODEL).replace("SOURCE", str(corpus)).replace("CACHE", str(cache))
    path.write_text(text, encoding="utf-8")
    return path


def small_settings(folder: Path, corpus: Path, overrides: tuple[str, ...] = ()) -> TokenizerTraining:
    """Checked settings of the small recipe."""
    recipe = write_recipe(folder / "recipe.yaml", corpus, corpus.parent / "cache")
    return load_recipe(TokenizerTraining, recipe, overrides)


def small_model(folder: Path, corpus: Path) -> ModelConfig:
    """The model of the small recipe."""
    return small_settings(folder, corpus).model


def lines(run: Path, kind: str) -> list[dict[str, float]]:
    """What a run wrote of its training steps or validations."""
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["kind"] == kind]


def run_program(
    program: Path, *arguments: str, processes: int = 1, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a program in processes of its own, one thread each."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", f"--nproc_per_node={processes}", "--standalone"]
    return subprocess.run(
        [*command, str(program), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )


def train_in_two(folder: Path, corpus: Path, resume: str, minutes: float, *overrides: str) -> None:
    """Train the small recipe in two processes, into `folder`/run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.py").write_text(TRAIN)
    recipe = write_recipe(folder / "recipe.yaml", corpus, corpus.parent / "cache")
    arguments = (str(recipe), str(folder / "run"), resume, str(minutes), *overrides)
    done = run_program(folder / "program.py", *arguments, processes=2)
    assert done.returncode == 0, done.stderr
