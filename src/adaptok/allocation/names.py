"""Strategies and scopes by the names that command lines and configs use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from adaptok.allocation.bidelta import bidelta
from adaptok.allocation.bithr import bithr
from adaptok.allocation.fixed import fixed
from adaptok.allocation.ipal import ipal
from adaptok.allocation.motion import motion
from adaptok.allocation.problem import Allocation, ScoreTable, Strategy, Target
from adaptok.allocation.scope import Scope, batch, clip, index

Named = TypeVar("Named")


def ilp(table: ScoreTable, target: Target) -> Allocation:
    """The reference strategy; its solver takes a while to import, so that waits for the first use."""
    from adaptok.allocation.ilp import ilp as reference

    return reference(table, target)


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {"ipal": ipal, "fixed": fixed, "bithr": bithr, "bidelta": bidelta, "ilp": ilp, "motion": motion}
)
SCOPES: Mapping[str, Scope] = MappingProxyType({"clip": clip, "batch": batch, "index": index})


def strategy_named(name: str) -> Strategy:
    """The strategy called `name`, or a ValueError that lists them."""
    return _named("strategy", STRATEGIES, name)


def scope_named(name: str) -> Scope:
    """The scope called `name`, or a ValueError that lists them."""
    return _named("scope", SCOPES, name)


def _named(kind: str, table: Mapping[str, Named], name: str) -> Named:
    if name not in table:
        raise ValueError(f"unknown {kind} {name!r}; known are {', '.join(table)}")
    return table[name]
