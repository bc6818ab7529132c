"""Settings: names are known, and what a model cannot do is said before anything is computed."""

import re
from dataclasses import replace

import pytest
import torch
from evaluation_makers import GEOMETRY

from adaptok.bundle import Bundle
from adaptok.config import Geometry
from adaptok.evaluation import Point, Settings
from tiny_models import tiny_bundle, tiny_config


def bundle(geometry: Geometry = GEOMETRY, scorer: bool = True) -> Bundle:
    config = tiny_config(geometry, depth=1)
    return tiny_bundle(config if scorer else replace(config, scorer=None), dtype=torch.float32)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strategies": ("best",)}, "unknown strategy 'best'; known are ipal, fixed,"),
        ({"metrics": ("vmaf",)}, "unknown metric 'vmaf'; known are psnr,"),
        ({"metrics": ()}, "nothing to measure"),
        ({"scorings": ("fvd",)}, "unknown scoring metric 'fvd'"),
        ({"strategies": ("oracle",), "scorings": ()}, "the oracle needs a scoring metric"),
        ({"references": ("vp9",)}, "unknown reference 'vp9'; known are h264, av1"),
        ({"scope": "live"}, "unknown scope 'live'; known are clip, batch, index"),
        ({"windows": 0}, "windows must be at least 1, got 0"),
        ({"videos": 0}, "videos must be at least 1, got 0"),
        ({"resamples": 1}, "resamples must be at least 2, got 1"),
    ],
)
def test_wrong_names_and_numbers(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings(**wrong)


def test_defaults_follow_the_model() -> None:
    assert Settings().fitted(bundle()).budgets == (2.0, 4.0, 6.0)
    assert Settings().fitted(bundle()).strategies == ("fixed", "ipal")
    assert Settings().fitted(bundle(scorer=False)).strategies == ("fixed",)
    assert Settings(budgets=(8, 4, 4.0)).fitted(bundle()).budgets == (4.0, 8.0)


@pytest.mark.parametrize("budget", [1, 9])
def test_a_budget_no_block_can_have(budget: int) -> None:
    with pytest.raises(ValueError, match=f"a budget of {budget} tokens per block is outside 2 to 8"):
        Settings(budgets=(budget,)).fitted(bundle())


def test_what_the_model_is_too_small_for() -> None:
    short = replace(GEOMETRY, frames=6)
    with pytest.raises(ValueError, match="fvd needs clips of at least 9 frames, the model's have 6"):
        Settings().fitted(bundle(short))
    small = replace(GEOMETRY, height=24)
    with pytest.raises(ValueError, match="lpips needs frames of at least 31×31, the model's are 24×32"):
        Settings().fitted(bundle(small))
    with pytest.raises(ValueError, match="perceptual needs frames of at least 31×31"):
        Settings(metrics=("psnr",), strategies=("oracle",)).fitted(bundle(small))
    assert Settings(metrics=("psnr", "ssim")).fitted(bundle(small))


def test_a_model_without_scorer() -> None:
    with pytest.raises(ValueError, match="this model has no scorer; strategy 'ipal' needs one"):
        Settings(strategies=("fixed", "ipal")).fitted(bundle(scorer=False))
    assert Settings(strategies=("motion", "oracle")).fitted(bundle(scorer=False))


def test_points_lie_curve_by_curve() -> None:
    settings = Settings(
        budgets=(4, 2), strategies=("ipal", "oracle"), scorings=("mse", "psnr"), references=("h264",), metrics=("psnr",)
    ).fitted(bundle())
    assert [(point.curve, point.budget) for point in settings.points()] == [
        (curve, budget) for curve in ("ipal", "oracle (mse)", "oracle (psnr)", "h264") for budget in (2.0, 4.0)
    ]
    assert settings.targets() == settings.points()
    assert replace(settings, metrics=("fvd",)).targets()[0] == Point("original", 0.0)
