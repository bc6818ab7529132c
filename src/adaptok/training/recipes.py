"""Recipes in YAML: strict, with overrides.

In: a file, or the name of a recipe that ships with the package, and overrides such as `run.steps=100`. Out: checked
settings. An unknown field, a wrong type or a contradiction is a ValueError that names the field.
"""

from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter

from adaptok.config import checked, model_config_to_yaml, parsed, preset
from adaptok.generation.config import generator_preset

T = TypeVar("T")


def recipe_names() -> tuple[str, ...]:
    """Recipes that ship with the package."""
    folder = resources.files("adaptok") / "recipes"
    return tuple(sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".yaml")))


def load_recipe(kind: type[T], source: str | Path, overrides: Sequence[str] = ()) -> T:
    """Settings of type `kind` from a file or a shipped recipe's name, with `field.field=value` applied on top."""
    raw = _read(source)
    for override in overrides:
        _override(raw, override)
    if isinstance(raw.get("model"), str):
        raw["model"] = yaml.safe_load(model_config_to_yaml(preset(raw["model"])))
    if isinstance(raw.get("transformer"), str):
        raw["transformer"] = asdict(generator_preset(raw["transformer"]).transformer)
    return checked(kind, raw, str(source))


def recipe_yaml(settings: object) -> str:
    """The text that `load_recipe` reads back to the same value."""
    plain = TypeAdapter(type(settings)).dump_python(settings, mode="json")
    return yaml.safe_dump(plain, sort_keys=False)


def _read(source: str | Path) -> dict[str, Any]:
    path = Path(source)
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    elif str(source) in recipe_names():
        text = (resources.files("adaptok") / "recipes" / f"{source}.yaml").read_text(encoding="utf-8")
    else:
        raise ValueError(f"{source} is neither a file nor a recipe; there are {', '.join(recipe_names())}")
    raw = parsed(text, str(source))
    if not isinstance(raw, dict):
        raise ValueError(f"{source} is not a recipe: it holds {type(raw).__name__}, not named fields")
    return raw


def _override(raw: dict[str, Any], override: str) -> None:
    """Set one nested value; whether the field exists is checked with all others."""
    name, equals, text = override.partition("=")
    if not equals or not name:
        raise ValueError(f"an override looks like run.steps=100, got {override!r}")
    *parents, last = name.split(".")
    place = raw
    for parent in parents:
        inner = place.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ValueError(f"override {override!r}: {parent} is a single value and has no fields")
        place = inner
    place[last] = parsed(text, f"override {override!r}")
