"""The paper's generation table, from videos to its file, on small random models; and its intervals."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("pyarrow")

import common

import generation
import generation_quality
import machine
import models
import results
from adaptok import Codec
from adaptok.bundle import build
from adaptok.generation.bundle import GeneratorBundle, build_generator
from adaptok.generation.config import GeneratorConfig, LlamaConfig
from adaptok.training import TokenizeConfig, tokenize
from generation_quality import Distance
from tiny_models import tiny_bundle, tiny_config

sys.path.append(str(Path(__file__).parents[1] / "evaluation"))
from evaluation_makers import GEOMETRY, CheapI3D, make_videos

TRANSFORMER = LlamaConfig(width=16, depth=1, heads=2, multiple_of=8)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Videos of two classes, both tokenizers, corpora and generators; the one of `fixed` tokens was not trained."""
    monkeypatch.setattr(generation_quality, "I3D", CheapI3D)
    monkeypatch.setattr(generation_quality, "RESAMPLES", 20)
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(common, "IMAGES", tmp_path / "images")
    for split in ("train", "val"):
        for label in ("a", "b"):
            make_videos(tmp_path / "videos" / split / label, 2)
    config = tiny_config(GEOMETRY, depth=1)
    adaptive = tiny_bundle(config, dtype=torch.float32)
    whole = build(replace(models.causal(config), scorer=None))
    found = tmp_path / "runs"
    adaptive.save(found / "scorer-perceptual" / "best")
    whole.save(found / "causaltok" / "best")
    for tokens, bundle in {"adaptive": adaptive, "fewer": adaptive, "causaltok": whole}.items():
        codec, g = Codec(bundle), bundle.config.tokenizer.geometry
        tokenize(codec, tmp_path / "videos", found / f"tokens-{tokens}", TokenizeConfig(context=5))
        for kind, condition in {"ar": {"classes": ("a", "b")}, "fp": {"context_blocks": 2}}.items():
            speaks = GeneratorConfig(
                name=f"{kind}-{tokens}",
                transformer=TRANSFORMER,
                blocks=g.blocks,
                tokens_per_block=g.tokens_per_block,
                codebook_size=config.tokenizer.quantizer.codebook_size,
                tokenizer=codec.fingerprint,
                **condition,  # type: ignore[arg-type]
            )
            GeneratorBundle(build_generator(speaks)).save(found / speaks.name / "best")
    return found


def test_generators_are_compared_from_videos_to_the_page(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ["--data", f"{tmp_path / 'videos'}", "--runs", f"{runs}", "--num", "4", "--windows", "2"]
    monkeypatch.setattr(sys, "argv", ["benchmarks/paper/generation.py", *line])
    generation.main()
    result = json.loads((tmp_path / "results" / "paper" / "generation.json").read_text())
    assert result["notes"] == [f"not trained: {runs.as_posix()}/{kind}-fixed/best" for kind in ("ar", "fp")]
    for condition in generation.CONDITIONS:
        rows = {row["generator"]: row for row in result["tables"][condition]}
        assert list(rows) == ["adaptive", "fewer", "causaltok"]
        value, low, high = rows["adaptive"]["gfvd"]
        assert low <= value <= high
        less = rows["adaptive"]["gfvd less causaltok's"][0]
        assert less == pytest.approx(value - rows["causaltok"]["gfvd"][0], abs=0.1)
        assert "gfvd less causaltok's" not in rows["causaltok"]
    told = [row["clips"] for row in result["tables"]["what to compare with"]]
    assert told == ["other real clips", *(f"decoded from {t} tokens" for t in ("adaptive", "fewer", "causaltok"))]
    text = results.section("generation", "tiny", tmp_path / "results" / "paper", tmp_path / "images" / "paper")
    assert "![class-conditional]" in text


def test_a_corpus_of_other_videos_is_refused(runs: Path, tmp_path: Path) -> None:
    codec = Codec(tiny_bundle(tiny_config(GEOMETRY, depth=1), dtype=torch.float32))
    corpus = generation.open_corpus(runs / "tokens-adaptive", "train")
    other = [generation_quality.Real("a", np.zeros((12, 32, 32, 3), np.uint8), "elsewhere.mp4")]
    with pytest.raises(ValueError, match="holds no clip of elsewhere.mp4"):
        generation.as_told(corpus, codec, other)


def test_what_a_corpus_tells_is_what_its_tokenizer_kept(runs: Path, tmp_path: Path) -> None:
    codec = Codec(tiny_bundle(tiny_config(GEOMETRY, depth=1), dtype=torch.float32))
    corpus = generation.open_corpus(runs / "tokens-adaptive", "train")
    g, blocks = GEOMETRY, corpus.blocks(0)
    codes = torch.zeros(1, g.blocks, g.tokens_per_block, dtype=torch.long)
    for k, block in enumerate(blocks):
        codes[0, k, : len(block)] = torch.from_numpy(block)
    kept = torch.tensor([[len(block) for block in blocks]])
    with torch.inference_mode():
        shown = codec.bundle.tokenizer.decode(codes, kept)[0].clamp(0, 1).permute(1, 2, 3, 0).numpy() * 255
    assert np.abs(generation.decoded(corpus, 0, codec) - shown).max() <= 0.501


def test_a_difference_of_distances_is_surer_than_both() -> None:
    shared = np.random.default_rng(0).normal(0, 50, 200)
    one, other = Distance(300.0, 310 + shared), Distance(280.0, 290 + shared)
    value, low, high = one.less(other)
    assert value == pytest.approx(20)
    assert high - low < 1e-9
    assert one.estimate[2] - one.estimate[1] > 100
