"""One id out of many: the probabilities asked for, and never a forbidden id."""

import numpy as np
import pytest
import torch
from generation_makers import class_config, frame_config, random_generator, random_prompt
from scipy.stats import chisquare

from adaptok.generation import Sampling, sample_blocks
from adaptok.generation.choice import Draws, choose

LOGITS = torch.tensor([1.0, 0.0, -1.0, 2.0, 0.5])


def counts(sampling: Sampling, may_end: bool = True, must_end: bool = False, draws: int = 4000) -> np.ndarray:
    heights = torch.from_numpy((np.arange(draws) + 0.5) / draws)
    chosen = choose(
        LOGITS.expand(draws, -1),
        heights,
        torch.full((draws,), may_end),
        torch.full((draws,), must_end),
        sampling,
    )
    return np.bincount(chosen.numpy(), minlength=5) / draws


def test_probabilities_are_those_of_the_softmax() -> None:
    assert np.abs(counts(Sampling()) - LOGITS.double().softmax(0).numpy()).max() < 1e-3
    for temperature in (0.5, 1.0, 3.0):
        wanted = (LOGITS[:-1].double() / temperature).softmax(0).numpy()
        found = counts(Sampling(temperature=temperature), may_end=False)
        assert np.abs(found - np.append(wanted, 0)).max() < 1e-3


def test_top_k_and_top_p_keep_the_likeliest_codes() -> None:
    assert (counts(Sampling(top_k=2)) > 0).tolist() == [True, False, False, True, True]
    assert (counts(Sampling(top_k=99)) > 0).all()
    # Of the codes 0.64 and 0.24 are the largest: together 0.88.
    assert (counts(Sampling(top_p=0.6)) > 0).tolist() == [False, False, False, True, True]
    assert (counts(Sampling(top_p=0.8)) > 0).tolist() == [True, False, False, True, True]
    assert (counts(Sampling(top_p=1e-9), may_end=False) > 0).sum() == 1


@pytest.mark.parametrize("sharp", [{"temperature": 0.2}, {"top_k": 1}, {"top_p": 0.1}, {"temperature": 4.0}])
def test_blocks_end_as_often_as_the_generator_says(sharp: dict[str, float]) -> None:
    wanted = LOGITS.double().softmax(0)[-1].item()
    assert counts(Sampling(**sharp))[-1] == pytest.approx(wanted, abs=1e-3)  # type: ignore[arg-type]


def test_the_end_of_a_block_as_its_length_allows() -> None:
    assert counts(Sampling(), may_end=False)[4] == 0
    assert counts(Sampling(), must_end=True).tolist() == [0, 0, 0, 0, 1]
    assert counts(Sampling(top_k=1, top_p=0.1), must_end=True).tolist() == [0, 0, 0, 0, 1]


def test_extreme_heights_choose_ids_that_have_weight() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(2, -1)
    no = torch.tensor([False, False])
    heights = torch.tensor([0.0, 1.0 - 2**-53], dtype=torch.float64)
    assert choose(logits, heights, ~no, no, Sampling()).tolist() == [1, 3]


def test_draws_are_uniform_and_belong_to_a_seed() -> None:
    a, b, c = ([draws.next() for _ in range(1000)] for draws in map(Draws, (1, 1, 2)))
    assert a == b != c
    assert chisquare(np.histogram(a, bins=10, range=(0, 1))[0]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": 0.0}, "temperature must be above 0, got 0"),
        ({"temperature": float("nan")}, "temperature must be above 0"),
        ({"top_k": -1}, "top_k must be at least 0"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"guidance": -1.0}, "guidance must be at least 0"),
        ({"guidance": float("nan")}, "guidance must be at least 0 and finite, got nan"),
        ({"guidance_from": 5, "guidance_until": 4}, "no interval"),
        ({"tokens_per_block": 3, "max_tokens": 4}, "contradict"),
        ({"blocks": 0}, "blocks must be at least 1"),
    ],
)
def test_wrong_requests_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tokens_per_block": 7}, "7 to 7 tokens per block are asked for; 1 to 6 are possible"),
        ({"min_tokens": 0}, "0 to 6 tokens"),
        ({"min_tokens": 5, "max_tokens": 4}, "5 to 4 tokens"),
        ({"overlap": 3, "blocks": 9}, "overlap must lie in 0..2"),
    ],
)
def test_requests_that_a_generator_cannot_fulfil(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong).rules(class_config())  # type: ignore[arg-type]


def test_bounds_are_the_generators_own_unless_others_are_given() -> None:
    config = class_config(min_tokens=2, max_tokens=4)
    assert [(r.low, r.high) for r in (Sampling().rules(config), Sampling(max_tokens=1).rules(config))] == [
        (2, 4),
        (1, 1),
    ]
    rules = Sampling(min_tokens=5).rules(config)
    assert (rules.low, rules.high) == (5, 5)


def test_what_only_classes_can() -> None:
    frames = random_generator(frame_config())
    prompt = random_prompt(frames.config, 0)
    with pytest.raises(ValueError, match="guidance 2 needs classes"):
        list(sample_blocks(frames, [prompt], Sampling(guidance=2.0)))
    with pytest.raises(ValueError, match="needs the tokenizer"):
        list(sample_blocks(frames, [prompt], Sampling(blocks=4)))


def test_prompts_that_do_not_fit() -> None:
    generator = random_generator(class_config())
    with pytest.raises(ValueError, match="3 blocks are given, at most 2"):
        list(sample_blocks(generator, [random_prompt(generator.config, 0, 3)], Sampling()))
    with pytest.raises(ValueError, match="a condition has 13 ids"):
        list(sample_blocks(generator, [random_prompt(frame_config(), 0)], Sampling()))
    with pytest.raises(ValueError, match="batch must be at least 1"):
        list(sample_blocks(generator, [random_prompt(generator.config, 0)], Sampling(), batch=0))
    with pytest.raises(ValueError, match="training mode"):
        list(sample_blocks(generator.train(), [random_prompt(generator.config, 0)], Sampling()))


def test_no_prompts_no_blocks() -> None:
    assert list(sample_blocks(random_generator(class_config()), [], Sampling())) == []
