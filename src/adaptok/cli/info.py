"""`adaptok info`: what a token stream holds."""

import sys

from adaptok.cli.options import Source


def info(source: Source, *, json: bool = False) -> None:
    """Show what an .adtk token stream holds.

    Args:
        source: An .adtk file, or - for standard input.
        json: Print JSON instead of a table.
    """
    import json as json_library

    from adaptok.stream.about import about

    facts = about(source)
    if json:
        sys.stdout.write(json_library.dumps(facts, indent=1) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)
