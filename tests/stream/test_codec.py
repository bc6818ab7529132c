"""The codec and its sessions: streaming equals offline, videos return with their number and size."""

import dataclasses
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import adaptok
from adaptok import Budget, Codec, Spending, Tokens
from adaptok.bundle import Bundle
from adaptok.stream import StreamError, same_block
from adaptok.stream.cut import level, truncate
from adaptok.video import VideoError, open_video
from tiny_models import GEOMETRY, tiny_bundle, tiny_config


def noise(frames: int, height: int = 8, width: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec(tiny_bundle(dtype=torch.float32))


@pytest.mark.parametrize("scope", ["clip", "video", "live"])
@pytest.mark.parametrize("chunk", [1, 3, 5, 17])
def test_any_chunking_gives_the_same_tokens_and_pixels(codec: Codec, scope: str, chunk: int) -> None:
    frames = noise(17)
    whole = codec.encode(frames, Budget(per_block=3.5), scope=scope)
    session = codec.encoder(Spending(budget=Budget(per_block=3.5), scope=scope))
    blocks = []
    for start in range(0, len(frames), chunk):
        blocks += session.push(frames[start : start + chunk])
    blocks += session.finish()
    assert len(blocks) == len(whole.blocks)
    assert all(same_block(a, b) for a, b in zip(blocks, whole.blocks, strict=True))
    decoder = codec.decoder(whole.header)
    pieces = [decoder.push(block) for block in blocks]
    assert np.array_equal(np.concatenate(pieces), codec.decode(whole))


def test_tokens_are_those_of_the_tokenizer(codec: Codec) -> None:
    frames = noise(6)
    video = torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float() / 255
    with torch.no_grad():
        codes = codec.bundle.tokenizer.encode(video).codes[0].numpy()
    tokens = codec.encode(frames)
    assert (tokens.kept == GEOMETRY.tokens_per_block).all()
    assert np.array_equal(np.stack([block.codes for block in tokens.blocks]), codes)


@pytest.mark.parametrize("frames", [1, 2, 5, 6, 7, 13])
@pytest.mark.parametrize(("height", "width"), [(8, 12), (9, 7), (30, 40)])
def test_number_and_size_return(codec: Codec, frames: int, height: int, width: int) -> None:
    video = noise(frames, height, width)
    tokens = codec.encode(video, Budget(per_block=4))
    assert tokens.frames == frames
    assert len(tokens.kept) == -(-frames // GEOMETRY.block_frames)
    assert codec.decode(tokens).shape == video.shape
    assert codec.reconstruct(video, Budget(per_block=4)).dtype == np.uint8


@pytest.mark.parametrize("strategy", ["ipal", "motion"])
@pytest.mark.parametrize("frames", [5, 18, 23, 24])
def test_clips_side_by_side_give_the_same(codec: Codec, strategy: str, frames: int) -> None:
    """Scores to rounding: products of another shape may add up in another order."""
    video = noise(frames)
    one, many = (codec.encode(video, Budget(per_block=4), strategy=strategy, batch=n) for n in (1, 3))
    assert len(many.blocks) == len(one.blocks)
    for a, b in zip(one.blocks, many.blocks, strict=True):
        assert (a.index, a.frames, a.codes.tolist()) == (b.index, b.frames, b.codes.tolist())
        assert np.allclose(a.scores, b.scores, atol=1e-5)


def test_a_live_block_comes_out_with_its_last_frame(codec: Codec) -> None:
    session = codec.encoder(Spending(budget=Budget(per_block=4), scope="live", window=4))
    frames = noise(6)
    assert [len(session.push(frames[i : i + 1])) for i in range(6)] == [0, 1, 0, 1, 0, 1]
    assert session.finish() == []


def test_live_spending_stays_within_every_window(codec: Codec) -> None:
    tokens = codec.encode(noise(60), Budget(per_block=3.5), scope="live", window=5)
    sums = np.convolve(tokens.kept, np.ones(5, int), "valid")
    assert sums.max() <= 17


@pytest.mark.parametrize("strategy", ["ipal", "fixed", "bithr", "bidelta", "ilp", "motion"])
def test_every_strategy_stays_within_budget(codec: Codec, strategy: str) -> None:
    tokens = codec.encode(noise(12), Budget(per_block=4), strategy=strategy)
    assert tokens.kept[:3].sum() <= 12
    assert tokens.kept[3:].sum() <= 12


def test_budgets_per_second_and_in_total(codec: Codec) -> None:
    frames = noise(24)
    bits = codec.encode(frames, Budget(bits_per_second=250), fps=25)  # 2 frames a block, 5 bits a token: 4 a block
    assert bits.kept.sum() == 4 * 12
    total = codec.encode(frames, Budget(total=40))
    assert total.kept.sum() == 40
    assert total.header.budget == "total=40"


def test_models_without_scorer_spend_evenly() -> None:
    codec = Codec(tiny_bundle(dataclasses.replace(tiny_config(), scorer=None), dtype=torch.float32))
    assert codec.encode(noise(6), Budget(total=13), strategy="fixed").kept.sum() == 13
    with pytest.raises(ValueError, match="no scorer; strategy 'ipal' needs one"):
        codec.encode(noise(6), Budget(per_block=4))


@pytest.mark.parametrize("strategy", ["fixed", "motion"])
@pytest.mark.parametrize("per_block", [1, 2.5, 3.5, 5])
def test_strategies_without_scores_meet_any_average(codec: Codec, strategy: str, per_block: float) -> None:
    tokens = codec.encode(noise(12), Budget(per_block=per_block), strategy)
    assert tokens.kept[:3].sum() == tokens.kept[3:].sum() == int(3 * per_block)
    assert (tokens.asked, tokens.shortfall) == (2 * int(3 * per_block), 0)
    assert tokens.blocks[0].scores is not None


def test_a_budget_that_cannot_be_met_says_so(codec: Codec) -> None:
    """Candidate lengths are 2, 4 and 6: no three of them add up to 13."""
    tokens = codec.encode(noise(6), Budget(per_block=13 / 3))
    assert (tokens.asked, int(tokens.kept.sum()), tokens.shortfall) == (13, 12, 1)
    assert codec.encode(noise(6), Budget(quality=9.0)).asked is None
    with pytest.raises(ValueError, match="'fixed' reads no scores and cannot meet a quality"):
        codec.encode(noise(6), Budget(quality=9.0), strategy="fixed")


def test_frames_of_one_stream_have_one_size(codec: Codec) -> None:
    session = codec.encoder(Spending(budget=Budget(per_block=4)))
    session.push(noise(1))
    with pytest.raises(VideoError, match="frames of 16×12 came after frames of 8×12"):
        session.push(noise(1, 16, 12))
    assert len(session.push(noise(5))) == 3


def test_a_header_that_lies_about_the_model_is_refused(codec: Codec) -> None:
    header = codec.header(8, 12)
    with pytest.raises(StreamError, match=r"are \(12, 3, 6, 32, 8, 12\), the model's \(6, 3, 6, 32, 8, 12\)"):
        codec.decoder(dataclasses.replace(header, frames=12))
    with pytest.raises(StreamError, match="no blocks"):
        codec.decode(Tokens(header, ()))


def test_sessions_fork(codec: Codec) -> None:
    frames = noise(12)
    session = codec.encoder(Spending(budget=Budget(per_block=4), scope="live"))
    session.push(frames[:5])
    other = session.fork()
    first = [*session.push(frames[5:]), *session.finish()]
    second = [*other.push(frames[5:]), *other.finish()]
    assert all(same_block(a, b) for a, b in zip(first, second, strict=True))


def test_memory_is_dropped_at_clip_ends(codec: Codec) -> None:
    session = codec.encoder(Spending(budget=Budget(per_block=4), scope="live"))
    session.push(noise(GEOMETRY.frames))
    assert session._state.memory.layers == ()
    assert session._state.waiting == ()


def test_decoding_can_start_at_any_clip(codec: Codec) -> None:
    tokens = codec.encode(noise(12), Budget(per_block=4))
    whole = codec.decode(tokens)
    session = codec.decoder(tokens.header)
    late = np.concatenate([session.push(block) for block in tokens.blocks[3:]])
    assert np.array_equal(late, whole[6:])
    with pytest.raises(StreamError, match="first block of a clip, not at block 4"):
        codec.decoder(tokens.header).push(tokens.blocks[4])
    session = codec.decoder(tokens.header)
    session.push(tokens.blocks[3])
    with pytest.raises(StreamError, match="block 5 came where block 4 was due"):
        session.push(tokens.blocks[5])


def test_tokens_round_trip_through_a_file(codec: Codec, tmp_path: Path) -> None:
    tokens = codec.encode(noise(13), Budget(per_block=4))
    tokens.save(tmp_path / "a.adtk")
    tokens.save(tmp_path / "scored.adtk", scores=True)
    assert (tmp_path / "scored.adtk").stat().st_size > (tmp_path / "a.adtk").stat().st_size
    assert Tokens.open(tmp_path / "scored.adtk").blocks[0].scores is not None
    again = Tokens.open(tmp_path / "a.adtk")
    assert again.blocks[0].scores is None
    assert np.array_equal(again.kept, tokens.kept)
    assert np.array_equal(codec.decode(again), codec.decode(tokens))
    (tmp_path / "b.adtk").write_bytes((tmp_path / "a.adtk").read_bytes()[:-30])
    with pytest.raises(StreamError, match="b.adtk"):
        Tokens.open(tmp_path / "b.adtk")


def test_another_scorer_or_prior_leaves_tokens_what_they_are(codec: Codec) -> None:
    other = tiny_bundle(seed=1, dtype=torch.float32)
    alike = tiny_bundle(dtype=torch.float32)
    assert alike.tokenizer.prior is not None
    torch.nn.init.zeros_(alike.tokenizer.prior.head.weight)
    tokens = codec.encode(noise(6))
    for bundle in (dataclasses.replace(codec.bundle, scorer=other.scorer), alike):
        changed = Codec(bundle)
        assert changed.fingerprint == codec.fingerprint
        assert changed.identity != codec.identity
        assert np.array_equal(changed.decode(tokens), codec.decode(tokens))


def test_the_wrong_model_is_refused(codec: Codec) -> None:
    other = Codec(tiny_bundle(seed=1, dtype=torch.float32))
    with pytest.raises(StreamError, match=r"written by model 'test' \([0-9a-f]{8}\), this is 'test'"):
        other.decode(codec.encode(noise(6)))


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (noise(4).astype(np.float32), "uint8 array, got float32"),
        (noise(4)[..., :2], r"shape \(n,H,W,3\), got \(4, 8, 12, 2\)"),
        (noise(4)[0], r"shape \(n,H,W,3\), got \(8, 12, 3\)"),
        (noise(0), "no frames to encode"),
        ([1, 2], "got list"),
    ],
)
def test_bad_frames_are_refused(codec: Codec, frames: object, message: str) -> None:
    with pytest.raises(VideoError, match=message):
        codec.encode(frames)


def test_contradictory_spending_is_refused(codec: Codec) -> None:
    with pytest.raises(ValueError, match="unknown strategy 'best'"):
        codec.encode(noise(6), Budget(per_block=4), strategy="best")
    with pytest.raises(ValueError, match="a total is for a whole video"):
        codec.encode(noise(6), Budget(total=9), scope="clip")
    with pytest.raises(ValueError, match="live streams are allocated by price"):
        codec.encode(noise(6), Budget(per_block=4), strategy="fixed", scope="live")
    session = codec.encoder(Spending(budget=Budget(per_block=4)))
    session.finish()
    with pytest.raises(StreamError, match="finished"):
        session.push(noise(1))
    with pytest.raises(StreamError, match="1 frames came with 2 timestamps"):
        codec.encoder(Spending(budget=Budget(per_block=4))).push(noise(1), [0, 1])


@pytest.fixture(scope="module")
def full(codec: Codec) -> Tokens:
    return codec.encode(noise(13))


def test_cutting_drops_tails_and_nothing_else(full: Tokens) -> None:
    cut = list(truncate(full.blocks, full.header, Budget(per_block=4)))
    for before, after in zip(full.blocks, cut, strict=True):
        assert np.array_equal(before.codes[: after.kept], after.codes)
        assert (before.index, before.frames) == (after.index, after.frames)
    assert sum(block.kept for block in cut[:3]) == 12


def test_cutting_by_stored_scores_is_optimal(codec: Codec, full: Tokens) -> None:
    cut = list(truncate(full.blocks, full.header, Budget(per_block=4)))
    loss = np.stack([block.scores for block in full.blocks[:3]]).astype(float)
    lengths = list(full.header.candidates)
    best = min(
        (loss[0, a] + loss[1, b] + loss[2, c], (a, b, c))
        for a in range(3)
        for b in range(3)
        for c in range(3)
        if lengths[a] + lengths[b] + lengths[c] == 12
    )
    chosen = sum(loss[i, lengths.index(cut[i].kept)] for i in range(3))
    assert abs(chosen - best[0]) < 1e-6


def test_cutting_to_a_quality_knows_what_is_left(full: Tokens) -> None:
    """Blocks that were cut before cannot help: the others must make up for them."""
    once = list(truncate(full.blocks, full.header, Budget(per_block=4)))
    lengths = list(full.header.candidates)
    reachable = [float(min(b.scores[: lengths.index(b.kept) + 1])) for b in once[:3]]
    wanted = (sum(reachable) + 1e-4) / 3
    cut = list(truncate(once, full.header, Budget(quality=wanted)))[:3]
    assert sum(float(b.scores[lengths.index(b.kept)]) for b in cut) / 3 <= wanted


def test_cutting_twice_never_grows(full: Tokens) -> None:
    once = list(truncate(full.blocks, full.header, Budget(per_block=3)))
    twice = list(truncate(once, full.header, Budget(per_block=5)))
    assert all(b.kept <= a.kept for a, b in zip(once, twice, strict=True))


def test_without_scores_the_longest_are_cut_first() -> None:
    assert level(np.array([0, 0, 0]), np.array([9, 2, 5]), 9).tolist() == [4, 2, 3]
    assert level(np.array([0, 0, 0]), np.array([9, 2, 5]), 99).tolist() == [9, 2, 5]
    assert level(np.array([3, 0]), np.array([9, 9]), 4).tolist() == [3, 1]
    with pytest.raises(ValueError, match="3 tokens is below the least"):
        level(np.array([2, 2]), np.array([5, 5]), 3)


def test_load_by_name_folder_and_error(tmp_path: Path) -> None:
    bundle: Bundle = tiny_bundle(dtype=torch.float32)
    bundle.save(tmp_path / "model")
    codec = adaptok.load(tmp_path / "model")
    assert codec.size == (8, 12)
    assert codec.fingerprint == Codec(bundle).fingerprint
    assert adaptok.load("tiny").size == (64, 64)
    with pytest.warns(adaptok.UntrainedWarning, match="'s'"):
        assert adaptok.load("s").size == (128, 128)
    with pytest.raises(ValueError, match="nowhere is neither a folder, nor one of the models"):
        adaptok.load("nowhere")


def test_timestamps_travel_with_their_frames(codec: Codec) -> None:
    session = codec.encoder(Spending(budget=Budget(per_block=4)), fps=Fraction(30))
    blocks = [*session.push(noise(5), [0, 3, 7, 8, 20]), *session.finish()]
    assert [block.timestamps for block in blocks] == [(0, 3), (7, 8), (20,)]


@pytest.mark.parametrize("label", ["animal", "sport", "vehicle"])
def test_real_clips_stream_as_they_encode(shared: Path, codec: Codec, label: str) -> None:
    path = sorted((shared / "videos" / "val" / label).glob("*.mp4"))[0]
    with open_video(path) as video:
        frames = np.stack([frame.image for frame, _ in zip(video, range(21), strict=False)])
    whole = codec.encode(frames, Budget(per_block=4))
    session = codec.encoder(Spending(budget=Budget(per_block=4)))
    blocks = [block for start in range(0, 21, 4) for block in session.push(frames[start : start + 4])]
    blocks += session.finish()
    assert all(same_block(a, b) for a, b in zip(blocks, whole.blocks, strict=True))
    assert codec.decode(whole).shape == frames.shape
