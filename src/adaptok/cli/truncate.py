"""`adaptok truncate`: fewer tokens out of an existing stream, without the model."""

from typing import Annotated

import tyro

from adaptok.cli.options import Source, Spend, Target, tell


def truncate(
    source: Source,
    target: Target,
    *,
    spend: Annotated[Spend, tyro.conf.arg(name="")] = Spend(),
    force: bool = False,
) -> None:
    """Drop tails of an existing token stream; optimal where it stores scores.

    Args:
        source: An .adtk file, or - for standard input.
        target: Where the shorter stream goes; - for standard output.
        spend: Tokens to keep.
        force: Overwrite an existing file.
    """
    from adaptok.stream.cut import truncate_file

    before, after, allowed, damage = truncate_file(source, target, spend.budget, overwrite=force)
    if damage is not None:
        tell(f"warning: {damage}")
    tell(f"{before} tokens cut to {after}")
    if allowed is not None and after < min(allowed, before):
        tell(f"note: {allowed} were allowed: no lengths add up to more of them")
