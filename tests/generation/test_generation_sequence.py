"""Blocks to sequences and back, and what is learnt from them."""

import numpy as np
import pytest
import torch
from generation_makers import class_config, frame_config
from hypothesis import given
from hypothesis import strategies as st

from adaptok.generation.sequence import (
    IGNORED,
    class_ids,
    class_number,
    context_ids,
    flatten,
    make_batch,
    unflatten,
)

CONFIG = class_config()
BLOCKS = st.lists(st.lists(st.integers(0, 31), min_size=1, max_size=6).map(np.array), min_size=0, max_size=3)


@given(BLOCKS)
def test_lengths_are_preserved_exactly(blocks: list[np.ndarray]) -> None:
    flat = flatten(blocks, CONFIG)
    assert len(flat) == sum(len(block) + 1 for block in blocks)
    back = unflatten(flat, CONFIG)
    assert [b.tolist() for b in back] == [b.tolist() for b in blocks]


@given(st.lists(BLOCKS.filter(bool), min_size=1, max_size=4))
def test_every_token_of_every_sample_is_predicted_once(samples: list[list[np.ndarray]]) -> None:
    sequences = [flatten(blocks, CONFIG) for blocks in samples]
    batch = make_batch([class_ids(CONFIG, i % 3) for i in range(len(samples))], sequences)
    assert batch.inputs.shape == batch.targets.shape == (len(samples), max(map(len, sequences)))
    assert batch.tokens == sum(map(len, sequences))
    for row, (inputs, targets, sequence) in enumerate(zip(batch.inputs, batch.targets, sequences, strict=True)):
        n = len(sequence)
        assert targets[:n].tolist() == sequence.tolist()
        assert (targets[n:] == IGNORED).all()
        assert inputs[0] == CONFIG.outputs + row % 3
        assert inputs[1:n].tolist() == sequence[:-1].tolist()


def test_the_longest_sample_fits_the_positions() -> None:
    for config, condition in (
        (CONFIG, class_ids(CONFIG, 0)),
        (frame_config(), context_ids(frame_config(), np.zeros((2, 6), np.int64))),
    ):
        longest = flatten([np.zeros(6, np.int64)] * 3, config)
        batch = make_batch([condition], [longest])
        assert batch.inputs.shape[1] == config.positions
        assert batch.targets[0, -1] == config.end
        assert (batch.targets[0, : len(condition) - 1] == IGNORED).all()


def test_ids_do_not_overlap() -> None:
    assert class_ids(CONFIG, None).item() == CONFIG.ids - 1
    assert class_ids(CONFIG, 0).item() == CONFIG.end + 1
    frames = frame_config()
    assert context_ids(frames, np.zeros((2, 6), np.int64))[-1] == frames.ids - 1 == frames.end + 1


def test_a_class_has_a_name_or_a_number() -> None:
    assert class_number(CONFIG, "dog") == class_number(CONFIG, "1") == 1
    assert class_number(CONFIG, "7") == 2
    for wrong in ("cow", "3", "-1"):
        with pytest.raises(ValueError, match=f"unknown class '{wrong}'; there are 3: cat, dog, 7"):
            class_number(CONFIG, wrong)


@pytest.mark.parametrize(
    ("ids", "message"),
    [([1, 2], "stops inside"), ([1, 32, 32], "empty block"), ([32], "empty block"), ([1, 32, 2], "stops inside")],
)
def test_broken_sequences(ids: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unflatten(np.array(ids), CONFIG)


@pytest.mark.parametrize(
    ("block", "message"), [([], "0 tokens, outside 1..6"), ([0] * 7, "7 tokens"), ([32], "codes must lie in 0..31")]
)
def test_broken_blocks(block: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flatten([np.array(block, np.int64)], CONFIG)


def test_wrong_conditions() -> None:
    with pytest.raises(ValueError, match="continues given frames"):
        class_ids(frame_config(), 0)
    with pytest.raises(ValueError, match="class 4 does not exist"):
        class_ids(CONFIG, 4)
    with pytest.raises(ValueError, match=r"shape \(1, 6\), this generator takes \(2, 6\)"):
        context_ids(frame_config(), np.zeros((1, 6), np.int64))


def test_padding_changes_no_loss() -> None:
    """A sample alone has the loss it has beside longer ones."""
    from generation_makers import random_generator

    generator = random_generator(CONFIG)
    sequences = [flatten([np.arange(n) for n in lengths], CONFIG) for lengths in ((1, 1, 2), (6, 6, 6))]
    conditions = [class_ids(CONFIG, 0), class_ids(CONFIG, 1)]

    def losses(batch):  # type: ignore[no-untyped-def]
        scores = generator(batch.inputs).transpose(1, 2)
        return torch.nn.functional.cross_entropy(scores, batch.targets, ignore_index=IGNORED, reduction="none").sum(1)

    both = losses(make_batch(conditions, sequences))
    alone = [losses(make_batch([c], [s])) for c, s in zip(conditions, sequences, strict=True)]
    assert torch.allclose(both, torch.cat(alone), rtol=1e-12)
