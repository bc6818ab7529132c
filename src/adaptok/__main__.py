"""`python -m adaptok` is the `adaptok` command."""

from adaptok.cli import main

main()
