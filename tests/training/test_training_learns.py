"""That training achieves what it is for, in minutes."""

import json
from pathlib import Path
from statistics import mean

import pytest
from training_makers import small_settings

from adaptok.training import train_tokenizer
from adaptok.training.listing import list_videos

pytestmark = pytest.mark.slow


def values(run: Path, kind: str, name: str) -> list[float]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in found if line["kind"] == kind and name in line]


def test_eight_real_clips_are_learnt_by_heart(shared: Path, tmp_path: Path) -> None:
    """A small model, all tokens, not quantized: above 30 dB on the clips it was given."""
    videos = shared / "videos" / "manifest.csv"
    if not videos.exists():
        pytest.skip("the real clips are not there")
    chosen = [entry for entry in list_videos(videos, "train") if entry.label in ("animal", "people")][::12][:8]
    rows = [f"{entry.path.resolve()},{split},x" for entry in chosen for split in ("train", "val")]
    (tmp_path / "eight.csv").write_text("\n".join(["file,split,label", *rows]))
    overrides = (
        "model.tokenizer.encoder={width: 128, depth: 2, heads: 4}",
        "model.tokenizer.decoder={width: 128, depth: 2, heads: 4}",
        "model.tokenizer.quantizer.code_width=48",
        "augment={crop: [1.0, 1.0], flip: 0.0}",
        "stages=[{start: 0, blocks: 1, batch: 8}]",
        "tail_drop={share: 0.0}",
        "codebook={quantize: {share: 0.0}}",
        "losses={l1: 0.1, mse: 1, perceptual: 0}",
        "optimizer.rate=1e-3",
        "optimizer.matrix_rate=1e-3",
        "run={steps: 1200, ema: 0.98, validate_every: 200, validate_lpips: false, save_every: 1000}",
    )
    settings = small_settings(tmp_path, tmp_path / "eight.csv", overrides)
    train_tokenizer(settings, tmp_path / "run", max_minutes=8.0)
    assert max(values(tmp_path / "run", "val", "psnr_1_1")) > 30


def last_mean(folder: Path, corpus: Path, what: str, overrides: tuple[str, ...], name: str) -> float:
    shared_overrides = ("stages=[{start: 0, blocks: 2, batch: 4}]", "codebook={quantize: {start: 0}}", "run.steps=80")
    settings = small_settings(
        folder, corpus, (*shared_overrides, "optimizer.kind=adam", "run.validate_every=80", *overrides)
    )
    train_tokenizer(settings, folder / what)
    return mean(values(folder / what, "train", name)[-20:])


def test_the_prior_makes_codes_easier_to_predict(corpus: Path, tmp_path: Path) -> None:
    """The prior itself learns the same from any weight, as Adam does not see the scale of a loss."""
    prior = "model.tokenizer.prior={width: 32, depth: 1, heads: 2}"
    weights = {name: (prior, f"losses.prior={weight}") for name, weight in (("weak", 1e-6), ("strong", 1.0))}
    found = {name: last_mean(tmp_path, corpus, name, overrides, "prior") for name, overrides in weights.items()}
    assert found["strong"] < 0.9 * found["weak"]


def test_the_adversary_makes_decoded_clips_look_real(corpus: Path, tmp_path: Path) -> None:
    adversary = "adversary={width: 32, depth: 1, heads: 2, rate: 1.0e-3}"
    weights = {name: (adversary, f"losses.adversarial={w}") for name, w in (("weak", 1e-6), ("strong", 1.0))}
    found = {name: last_mean(tmp_path, corpus, name, overrides, "adversarial") for name, overrides in weights.items()}
    assert found["strong"] < found["weak"]
