"""Configurations: strict in, exact out, and the sizes the paper states."""

import pytest
import torch

import adaptok
from adaptok.bundle import build
from adaptok.config import model_config_from_yaml, model_config_to_yaml

GOOD = model_config_to_yaml(adaptok.preset("tiny"))


@pytest.mark.parametrize("name", adaptok.presets())
def test_presets_round_trip(name: str) -> None:
    config = adaptok.preset(name)
    assert model_config_from_yaml(model_config_to_yaml(config), "text") == config
    assert config.name == name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  prior:", "  priors:", "tokenizer.priors: Unexpected"),
        ("codebook_size: 32768", "codebook_size: many", "tokenizer.quantizer.codebook_size: .*integer"),
        ("patch_size: 8", "patch_size: 7", "height 64 is not a multiple of patch_size 7"),
        ("law: uniform", "law: cauchy", "tokenizer.lengths.law: .*'full', 'uniform' or 'gaussian'"),
        ("  step: 4", "  step: 5", "tokens_per_block 64 is not a multiple of scorer step 5"),
        ("smooth: 5", "smooth: 16", r"smooth must lie in 0\.\.15"),
        ("heads: 6", "heads: 5", "width 192 is not a multiple of heads 5"),
        ("name: tiny", "name: [", "not valid YAML"),
        ("max: 64", "max: 65", "max 65 is more than tokens_per_block 64"),
    ],
)
def test_a_wrong_field_is_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=message):
        model_config_from_yaml(GOOD.replace(old, new), "text")


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nothing\.yaml: top level"):
        model_config_from_yaml("", "nothing.yaml")


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no preset 'huge'; there are .*tiny"):
        adaptok.preset("huge")


def millions(module: torch.nn.Module | None) -> float:
    return sum(p.numel() for p in module.parameters()) / 1e6 if module is not None else 0.0


@pytest.mark.parametrize(("name", "total"), [("s", 59), ("l", 259), ("xl", 913)])
def test_sizes_of_the_paper(name: str, total: float) -> None:
    """The paper's table of variants counts tokenizer and scorer without the training-time prior."""
    with torch.device("meta"):
        bundle = build(name)
    counted = millions(bundle.tokenizer) - millions(bundle.tokenizer.prior) + millions(bundle.scorer)
    assert abs(counted / total - 1) < 0.035


def test_sizes_of_the_large_preset_in_parts() -> None:
    """The table of hyper-parameters: 195 M tokenizer with its prior, 89 M scorer."""
    with torch.device("meta"):
        bundle = build("l")
    assert abs(millions(bundle.tokenizer) / 195 - 1) < 0.02
    assert abs(millions(bundle.scorer) / 89 - 1) < 0.02
