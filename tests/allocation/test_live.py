import numpy as np
import pytest

from adaptok.allocation import Budget, Live, Pace
from allocation.cases import decaying, loss_of

LENGTHS = np.arange(1, 17) * 4


def run(live, losses):
    state, kept = live.start(), []
    for row in losses:
        length, state = live.step(row, state)
        kept.append(length)
    return np.array(kept)


@pytest.mark.parametrize("streams", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_budget_holds_in_every_window_of_every_stream(streams):
    rng = np.random.default_rng(0)
    for _ in range(streams):
        window, average = int(rng.integers(1, 12)), float(rng.uniform(4, 64))
        losses, lengths = decaying(rng, 30, 8)
        losses *= np.exp(rng.normal(size=(30, 1)))
        average = min(average, float(lengths[-1]))
        kept = run(Live.of(Budget(per_block=average), lengths, window), losses)
        sums = np.convolve(kept, np.ones(window, int))
        assert sums.max() <= average * window + 1e-9
        assert kept.min() >= lengths[0]


def test_a_long_window_beats_the_same_number_everywhere():
    rng = np.random.default_rng(1)
    losses = decaying(rng, 400, 16)[0] * np.exp(rng.normal(size=(400, 1)))
    kept = run(Live.of(Budget(per_block=24), LENGTHS, 128), losses)
    assert loss_of(losses, LENGTHS, kept) < loss_of(losses, LENGTHS, np.full(400, 24))


def test_the_past_is_never_revised_and_streams_fork():
    losses, _ = decaying(np.random.default_rng(2), 20, 16)
    live = Live.of(Budget(per_block=24, min_per_block=8, max_per_block=40), LENGTHS, 8)
    whole = run(live, losses)
    state = live.start()
    for row in losses[:10]:
        _, state = live.step(row, state)
    live.step(losses[0], state)
    for row, kept in zip(losses[10:], whole[10:], strict=True):
        again, state = live.step(row, state)
        assert again == kept
    assert whole.min() >= 8
    assert whole.max() <= 40


def test_rates_per_second_need_a_pace():
    live = Live.of(Budget(bits_per_second=960), LENGTHS, 10, Pace(fps=16, frames_per_block=4, bits_per_token=10))
    assert live.limit == 240
    with pytest.raises(ValueError, match="needs a pace"):
        Live.of(Budget(bits_per_second=960), LENGTHS, 10)


def test_impossible_streams_are_refused():
    with pytest.raises(ValueError, match=r"30 tokens per 10 blocks is below the least they can take, 40 \(4 each\)"):
        Live.of(Budget(per_block=3), LENGTHS, 10)
    with pytest.raises(ValueError, match="window must be at least 1 block, got 0"):
        Live.of(Budget(per_block=8), LENGTHS, 0)
    with pytest.raises(ValueError, match="thrift must lie in 0..1, got 2"):
        Live.of(Budget(per_block=8), LENGTHS, 4, thrift=2.0)
    with pytest.raises(ValueError, match="not a rate"):
        Live.of(Budget(quality=0.1), LENGTHS, 4)
    live = Live.of(Budget(per_block=8), LENGTHS, 4)
    with pytest.raises(ValueError, match="losses must be finite"):
        live.step(np.full(16, np.nan), live.start())
