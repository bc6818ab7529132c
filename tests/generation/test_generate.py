"""Tokens to pictures: block by block, beyond a clip, from given frames."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from generation_makers import class_config, frame_config, random_generator, small_codec

from adaptok.generation import Director, Sampling, predict
from adaptok.generation.generate import encode_all, frames_condition
from adaptok.generation.produce import grid
from adaptok.generation.sampling import GeneratedBlock
from adaptok.stream.codec import Codec
from adaptok.video import stretched

F, T = 2, 6  # frames of a block and of a clip of the small tokenizer


@pytest.fixture(scope="module")
def codec() -> Codec:
    return small_codec()


@pytest.fixture(scope="module")
def classes(codec: Codec) -> Director:
    return Director(random_generator(class_config(tokenizer=codec.fingerprint), dtype=torch.float32), codec)


@pytest.fixture(scope="module")
def frames(codec: Codec) -> Director:
    config = frame_config(tokenizer=codec.fingerprint, mean_tokens=3.0)
    return Director(random_generator(config, dtype=torch.float32), codec)


def pictures(count: int, height: int = 17, width: int = 30) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def test_each_block_is_shown_before_the_next_is_generated(classes: Director) -> None:
    shows = classes.show(classes.prompts([0], 3), Sampling())
    first = next(shows)
    assert (first.block.index, first.frames.shape) == (0, (F, 8, 12, 3))
    assert [shown.block.index for shown in shows] == [1, 2]


def test_a_take_is_what_was_shown_and_what_its_tokens_decode_to(classes: Director) -> None:
    prompts = classes.prompts([0, 1, None], 3)
    shown: dict[int, list[np.ndarray]] = {0: [], 1: [], 2: []}
    for s in classes.show(prompts, Sampling(), batch=2):
        shown[s.block.sample].append(s.frames)
    for take in classes.takes(prompts, Sampling(), batch=3):
        assert np.array_equal(np.concatenate(shown[take.sample]), take.frames)
        assert np.array_equal(classes.codec.decode(take.tokens[0]), take.frames)


@pytest.mark.parametrize("which", ["classes", "frames"])
def test_longer_than_a_clip(which: str, request: pytest.FixtureRequest) -> None:
    director: Director = request.getfixturevalue(which)
    sampling = Sampling(overlap=2)
    if director.config.classes:
        (take,) = director.takes(director.prompts([1], 0), replace(sampling, blocks=6))
    else:
        take = predict(director, pictures(5), sampling, context=5, total=6 * F).take
    assert take.frames.shape == (6 * F, 8, 12, 3)
    assert [len(tokens.blocks) for tokens in take.tokens] == [3, 3, 3, 3]
    for window, tokens in enumerate(take.tokens):
        decoded = director.codec.decode(tokens)
        # The last block of every window is new; the ones before it are the end of the window before, encoded anew.
        assert np.array_equal(decoded[-F:], take.frames[(window + 2) * F : (window + 3) * F])
    for before, after in zip(take.tokens, take.tokens[1:], strict=False):
        assert before.kept[1:].tolist() == after.kept[:2].tolist()
        seen = director.codec.decode(before)[-2 * F :]
        if before is not take.tokens[0]:
            continue
        codes = encode_all(director.codec, seen)
        assert [b.codes.tolist() for b in after.blocks[:2]] == [
            row[:n].tolist() for row, n in zip(codes, after.kept[:2], strict=True)
        ]


@pytest.mark.parametrize("context", [1, 2, 3, 5])
def test_given_frames_are_returned_untouched(frames: Director, context: int) -> None:
    video = pictures(5)
    found = predict(frames, video, Sampling(), context=context)
    assert found.frames.shape == (T, 17, 30, 3)
    assert np.array_equal(found.frames[:context], video[:context])


def test_whole_blocks_are_not_generated_again(frames: Director) -> None:
    found = predict(frames, pictures(5), Sampling(), context=5)
    codes = encode_all(frames.codec, stretched(pictures(5), *frames.codec.size)[:4])
    for block, row in zip(found.take.tokens[0].blocks[:2], codes, strict=True):
        assert block.codes.tolist() == row[: block.kept].tolist()


def test_the_partial_block_is_read_but_no_later_frame(codec: Codec) -> None:
    config = frame_config()
    black = np.zeros((6, 8, 12, 3), np.uint8)
    white = np.full_like(black, 255)
    given = np.concatenate([black[:2], white[:1]])
    assert frames_condition(codec, config, black[:3]).tolist() != frames_condition(codec, config, given).tolist()
    # The last frame is repeated to the end of the block: what follows it in the video plays no part.
    filled = np.concatenate([given, white[:1]])
    assert frames_condition(codec, config, filled).tolist() == frames_condition(codec, config, given).tolist()


def test_classes_continue_whole_blocks(classes: Director) -> None:
    found = predict(classes, pictures(5), Sampling(), context=4, label=1)
    assert found.frames.shape == (T, 17, 30, 3)
    with pytest.raises(ValueError, match="sees whole blocks only, 2 frames"):
        predict(classes, pictures(5), Sampling(), context=1)


@pytest.mark.parametrize(
    ("context", "total", "message"),
    [
        (6, None, "a context of 6 frames: a clip has 6, so 1 to 5 can be given"),
        (0, None, "a context of 0 frames"),
        (5, 5, "5 frames are asked for and 5 of them are given"),
        (4, None, "a context of 4 frames is asked for, the video has 3"),
    ],
)
def test_contexts_that_make_no_sense(frames: Director, context: int, total: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predict(frames, pictures(3 if context == 4 else 9), Sampling(), context=context, total=total)


def test_a_tokenizer_that_does_not_match(codec: Codec) -> None:
    generator = random_generator(class_config(tokenizer=codec.fingerprint), dtype=torch.float32)
    with pytest.raises(ValueError, match=r"was trained on tokens of tokenizer \w{8}, 'test' is \w{8}"):
        Director(generator, small_codec(seed=1))
    with pytest.raises(ValueError, match="out of 16 codes, tokenizer 'test' 3 of up to 6 out of 32"):
        Director(random_generator(class_config(codes=16), dtype=torch.float32), codec)


def test_blocks_say_where_they_belong(classes: Director) -> None:
    blocks: list[GeneratedBlock] = [s.block for s in classes.show(classes.prompts([0], 0), Sampling(blocks=5))]
    assert [(b.index, b.window, b.place) for b in blocks] == [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 1), (4, 1, 2)]


def test_a_grid_holds_all() -> None:
    videos = [np.full((2, 4, 6, 3), i, np.uint8) for i in range(5)]
    out = grid(videos, gap=1)
    assert out.shape == (2, 9, 20, 3)
    assert set(np.unique(out)) == {0, 1, 2, 3, 4, 255}
