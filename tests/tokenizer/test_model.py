"""The tokenizer as a whole: training pass, precision, compilation, devices, bad input."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from adaptok.bundle import Bundle
from adaptok.config import Geometry, LengthConfig
from adaptok.tokenizer.model import Tokenizer
from tiny_models import GEOMETRY, random_codes, random_kept, random_video, tiny_bundle, tiny_config


@pytest.fixture
def bundle() -> Bundle:
    return tiny_bundle(dtype=torch.float32)


def train_pass(tokenizer: Tokenizer, seed: int = 0, mix: float = 0.5):
    video = random_video(tokenizer.config.geometry).float()
    return video, tokenizer(video, torch.Generator().manual_seed(seed), mix=mix)


def test_gradients_reach_every_parameter(bundle: Bundle) -> None:
    video, out = train_pass(bundle.tokenizer)
    loss = (out.video - video).abs().mean() + out.quantized.loss + out.prior_loss
    loss.backward()
    for name, parameter in bundle.tokenizer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_gradients_reach_every_parameter_of_the_scorer(bundle: Bundle) -> None:
    with torch.no_grad():
        encoding = bundle.tokenizer.encode(random_video(GEOMETRY).float())
    bundle.scorer.score(encoding, torch.full((2, 3), 3), block=2).square().sum().backward()
    for name, parameter in bundle.scorer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_networks_can_be_copied_and_pickled(bundle: Bundle) -> None:
    video, kept = random_video(GEOMETRY).float(), random_kept(GEOMETRY)
    for copied in (copy.deepcopy(bundle.modules), pickle.loads(pickle.dumps(bundle.modules))):
        codes = copied["tokenizer"].encode(video).codes
        assert torch.equal(codes, bundle.tokenizer.encode(video).codes)
        assert torch.equal(copied["tokenizer"].decode(codes, kept), bundle.tokenizer.decode(codes, kept))
        next(copied["scorer"].parameters()).data.add_(1)
        assert not torch.equal(next(copied["scorer"].parameters()), next(bundle.scorer.parameters()))


def test_reconstruction_reaches_the_encoder_straight_through(bundle: Bundle) -> None:
    video, out = train_pass(bundle.tokenizer)
    (grad,) = torch.autograd.grad((out.video - video).abs().mean(), bundle.tokenizer.encoder.queries)
    assert grad.abs().sum() > 0


def test_a_training_pass_is_reproducible_and_seeded(bundle: Bundle) -> None:
    _, first = train_pass(bundle.tokenizer, seed=1)
    _, again = train_pass(bundle.tokenizer, seed=1)
    _, other = train_pass(bundle.tokenizer, seed=2)
    assert torch.equal(first.video, again.video)
    assert torch.equal(first.kept, again.kept)
    assert torch.equal(first.quantized.codes, again.quantized.codes)
    assert not torch.equal(first.quantized.codes, other.quantized.codes)


def test_training_decodes_what_inference_decodes(bundle: Bundle) -> None:
    _, out = train_pass(bundle.tokenizer)
    decoded = bundle.tokenizer.decode(out.quantized.codes, out.kept)
    assert (decoded - out.video).abs().max() < 1e-4


def test_given_lengths_override_the_law(bundle: Bundle) -> None:
    kept = random_kept(GEOMETRY)
    out = bundle.tokenizer(random_video(GEOMETRY).float(), torch.Generator(), kept=kept)
    assert torch.equal(out.kept, kept)


def test_nothing_kept_still_gives_losses(bundle: Bundle) -> None:
    kept = torch.zeros(2, 3, dtype=torch.long)
    out = bundle.tokenizer(random_video(GEOMETRY).float(), torch.Generator(), kept=kept)
    assert out.quantized.loss == 0
    assert out.prior_loss == 0


def test_fixed_full_lengths_are_a_configuration() -> None:
    bundle = tiny_bundle(tiny_config(lengths=LengthConfig(law="full")), dtype=torch.float32)
    _, out = train_pass(bundle.tokenizer)
    assert (out.kept == GEOMETRY.tokens_per_block).all()


COMPILED = """
import contextlib, sys, torch
from tiny_models import GEOMETRY, random_codes, random_kept, random_video, tiny_bundle, tiny_config

bundle = tiny_bundle(tiny_config(depth=1), dtype=torch.float32)
video, kept, codes = random_video(GEOMETRY).float(), random_kept(GEOMETRY), random_codes(bundle.config)
encode = torch.compile(bundle.tokenizer.encode, backend=sys.argv[1])
decode = torch.compile(bundle.tokenizer.decode, backend=sys.argv[1])
modes = [(contextlib.nullcontext(), 1e-4), (torch.autocast("cpu", torch.bfloat16), 0.15)]
for cast, tolerance in modes if sys.argv[1] == "inductor" else modes[:1]:
    with torch.no_grad(), cast:
        plain = bundle.tokenizer.encode(video)
        compiled = encode(video)
        assert (compiled.latents - plain.latents).abs().max() < tolerance
        assert tolerance > 0.1 or torch.equal(compiled.codes, plain.codes)
        for lengths in (kept,) if cast is not modes[0][0] else (kept, torch.full_like(kept, 4)):
            assert (decode(codes, lengths) - bundle.tokenizer.decode(codes, lengths)).abs().max() < tolerance
"""


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_equals_eager(backend: str) -> None:
    """In a process of its own, since the shape checks of the tests cannot be traced."""
    tests = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILED, backend], check=True, cwd=tests)


@torch.no_grad()
def test_bfloat16_autocast_is_close_to_float32(bundle: Bundle) -> None:
    video, codes, kept = random_video(GEOMETRY).float(), random_codes(bundle.config), random_kept(GEOMETRY)
    exact = bundle.tokenizer.encode(video).latents, bundle.tokenizer.decode(codes, kept)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = bundle.tokenizer.encode(video).latents, bundle.tokenizer.decode(codes, kept)
    for a, b in zip(exact, rough, strict=True):
        assert (a - b).norm() / a.norm() < 0.03


@torch.no_grad()
def test_to_moves_everything(bundle: Bundle) -> None:
    """On the meta device any tensor left behind on the CPU would raise."""
    g = GEOMETRY
    bundle.to("meta")
    latents, memory = bundle.tokenizer.encoder(torch.rand(1, 3, 4, g.height, g.width, device="meta"))
    latents, _ = bundle.tokenizer.encoder(torch.rand(1, 3, 2, g.height, g.width, device="meta"), memory)
    codes = bundle.tokenizer.quantizer.nearest(latents)
    embedded = bundle.tokenizer.quantizer.embed(bundle.tokenizer.quantizer.lookup(codes))
    video, _ = bundle.tokenizer.decoder(embedded, torch.tensor([[4]]))
    assert video.device.type == "meta"
    assert video.shape == (1, 3, 2, g.height, g.width)


VIDEO = random_video(GEOMETRY).float()
CODES = random_codes(tiny_config())


@pytest.mark.parametrize(
    ("video", "message"),
    [
        (VIDEO[0], r"5 axes \(B,3,T,H,W\), got shape \(3, 6, 8, 12\)"),
        (VIDEO[:, :2], "3 channels on axis 1, got 2"),
        (VIDEO[:, :, :4], "video has 4 frames, the model takes clips of 6"),
        (VIDEO[..., :8], "frames are 8×8, the model takes 8×12"),
        (VIDEO * 2, "must lie in \\[0, 1\\], found"),
        (VIDEO - 1, "must lie in \\[0, 1\\], found"),
        (VIDEO.masked_fill(VIDEO > 0.99, float("nan")), "nan"),
        ((VIDEO * 255).to(torch.uint8), "float tensor in \\[0, 1\\], got torch.uint8; divide"),
        (VIDEO.numpy(), "got ndarray"),
        (VIDEO[:0], "empty"),
    ],
)
def test_bad_video_is_refused(bundle: Bundle, video: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bundle.tokenizer.encode(video)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (CODES.float(), "integer tensor, got torch.float32"),
        (CODES[0], r"shape \(B,K,6\), got \(3, 6\)"),
        (CODES[..., :5], r"shape \(B,K,6\), got \(2, 3, 5\)"),
        (CODES[:, :2], "codes have 2 blocks, the model takes clips of 3"),
        (CODES - 40, "codes must lie in 0..31, found"),
        (CODES + 31, "codes must lie in 0..31, found"),
        (CODES[:0], "empty"),
    ],
)
def test_bad_codes_are_refused(bundle: Bundle, codes: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bundle.tokenizer.decode(codes)
    with pytest.raises(ValueError, match=message):
        bundle.tokenizer.prior_logits(codes)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (torch.tensor([[1, 2, 7]] * 2), "kept must lie in 0..6, found 1 to 7"),
        (torch.tensor([[1, 2, -1]] * 2), "kept must lie in 0..6, found -1 to 2"),
        (torch.tensor([[1.0, 2.0, 3.0]] * 2), "integer tensor, got torch.float32"),
        (torch.tensor([1, 2, 3]), r"shape \(2,3\), got \(3,\)"),
        ([[1, 2, 3]] * 2, "got list"),
    ],
)
def test_bad_lengths_are_refused(bundle: Bundle, kept: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bundle.tokenizer.decode(CODES, kept)
    encoding = bundle.tokenizer.encode(VIDEO)
    with pytest.raises(ValueError, match=message):
        bundle.scorer.score(encoding, kept, block=0)


def test_bad_block_is_refused(bundle: Bundle) -> None:
    encoding = bundle.tokenizer.encode(VIDEO)
    with pytest.raises(ValueError, match=r"block must lie in 0..2, got 3"):
        bundle.scorer.score(encoding, random_kept(GEOMETRY), block=3)


@torch.no_grad()
def test_a_clip_has_room_for_its_blocks_only(bundle: Bundle) -> None:
    _, memory = bundle.tokenizer.encode_blocks(VIDEO[:, :, :4], None)
    with pytest.raises(ValueError, match="2 blocks are in memory and 2 follow, but a clip has 3"):
        bundle.tokenizer.encode_blocks(VIDEO[:, :, :4], memory)
    _, memory = bundle.tokenizer.decode_blocks(CODES, None, None)
    with pytest.raises(ValueError, match="3 blocks are in memory and 3 follow"):
        bundle.tokenizer.decode_blocks(CODES, None, memory)
    with pytest.raises(ValueError, match="3 frames, which is not whole blocks of 2"):
        bundle.tokenizer.encode_blocks(VIDEO[:, :, :3], None)


@pytest.mark.parametrize(
    "change",
    [
        {"frames": 7},
        {"blocks": 4},
        {"height": 9},
        {"width": 13},
        {"patch_frames": 4},
        {"patch_size": 5},
        {"tokens_per_block": 0},
    ],
)
def test_what_does_not_divide_is_refused_with_the_numbers(change: dict[str, int]) -> None:
    (value,) = change.values()
    with pytest.raises(ValueError, match=str(value)):
        dataclasses.replace(GEOMETRY, **change)


@pytest.mark.parametrize(
    "geometry",
    [
        Geometry(frames=4, height=8, width=24, patch_frames=2, patch_size=8, blocks=1, tokens_per_block=5),
        Geometry(frames=20, height=6, width=4, patch_frames=1, patch_size=2, blocks=10, tokens_per_block=1),
    ],
)
@torch.no_grad()
def test_any_size_that_divides_works(geometry: Geometry) -> None:
    bundle = tiny_bundle(tiny_config(geometry))
    video = random_video(geometry)
    encoding = bundle.tokenizer.encode(video)
    assert bundle.tokenizer.decode(encoding.codes, random_kept(geometry)).shape == video.shape
