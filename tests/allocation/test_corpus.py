import numpy as np
import pytest

from adaptok.allocation import Budget, ScoreTable, corpus_price, solve
from adaptok.allocation.corpus import summarise
from allocation.cases import decaying, identical


def make_shards(count, rows=50, family=decaying):
    rng = np.random.default_rng(0)
    loss, lengths = family(rng, count * rows, 16)
    return [ScoreTable.of_clips(part[None], lengths) for part in np.split(loss, count)]


def totals(shards, price):
    kept = [price.choose(shard, i) for i, shard in enumerate(shards)]
    spent = sum(int(part.sum()) for part in kept)
    return spent, sum(shard.loss_of(part) for shard, part in zip(shards, kept, strict=True))


def test_the_gap_is_honest_and_shrinks_relative_to_the_loss():
    relative = []
    for count in (1, 8, 64):
        shards = make_shards(count)
        together = np.concatenate([shard.loss for shard in shards])
        whole = ScoreTable.of_clips(together[None], shards[0].lengths)
        gaps = []
        for average in (20.5, 26.3, 30.5, 35.1):
            price = corpus_price(shards, Budget(per_block=average))
            spent, loss = totals(shards, price)
            best = whole.loss_of(solve(together, whole.lengths, price.total, equality=False))
            assert best - 1e-9 <= loss <= best + price.gap(spent) + 1e-9
            assert 0 <= price.total - spent < 60
            gaps.append(price.gap(spent) / loss)
        relative.append(np.mean(gaps))
    assert relative[0] > relative[1] > relative[2]


def test_the_price_does_not_depend_on_how_the_corpus_is_cut():
    whole = make_shards(1, rows=240)[0]
    for count in (2, 5):
        parts = [whole.select(rows) for rows in np.array_split(np.arange(240), count)]
        cut, uncut = corpus_price(parts, Budget(total=5000)), corpus_price([whole], Budget(total=5000))
        assert (cut.price, cut.spare, sum(cut.tied)) == (uncut.price, uncut.spare, sum(uncut.tied))
        assert totals(parts, cut)[0] <= 5000


def test_ties_are_shared_out_and_spent():
    shards = make_shards(6, family=identical)
    price = corpus_price(shards, Budget(per_block=30))
    spent, _ = totals(shards, price)
    assert len(set(price.tied)) == 1
    assert 0 <= price.total - spent < 64


def test_more_than_enough_costs_nothing():
    shards = make_shards(2)
    price = corpus_price(shards, Budget(per_block=1000))
    assert price.price == 0
    for i, shard in enumerate(shards):
        best = shard.loss.min(axis=1)
        np.testing.assert_array_equal(shard.loss[np.arange(50), price.choose(shard, i) // 4 - 1], best)


def test_impossible_corpora_are_refused():
    shards = make_shards(2)
    with pytest.raises(ValueError, match="at least one shard"):
        corpus_price([], Budget(total=5))
    with pytest.raises(ValueError, match="399 tokens for 100 blocks is below the least they can take, 400"):
        corpus_price(shards, Budget(total=399))
    with pytest.raises(ValueError, match="not a rate"):
        corpus_price(shards, Budget(quality=0.1))
    other = ScoreTable.of_clips(np.zeros((1, 2, 3)), np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="differ in lengths"):
        corpus_price([other, shards[0]], Budget(per_block=40))
    with pytest.raises(ValueError, match="different passes"):
        summarise(other, 0, 0, 1, 3) + summarise(other, 0, 1, 1, 3)
