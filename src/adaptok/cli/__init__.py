"""The command line: a table of typed functions, one file per verb, no logic.

In: arguments. Out: exit code 0 when fine, 1 with one line of reason when something failed, 2 on wrong usage.
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO

import tyro

from adaptok._version import __version__
from adaptok.cli.decode import decode
from adaptok.cli.demo import demo
from adaptok.cli.encode import encode
from adaptok.cli.evaluate import evaluate
from adaptok.cli.generate import generate
from adaptok.cli.info import info
from adaptok.cli.options import UsageError
from adaptok.cli.predict import predict
from adaptok.cli.reconstruct import reconstruct
from adaptok.cli.tokenize import tokenize
from adaptok.cli.train import train, train_generator, train_scorer, train_tokenizer
from adaptok.cli.truncate import truncate
from adaptok.cli.weights import weights

VERBS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "encode": encode,
    "decode": decode,
    "info": info,
    "truncate": truncate,
    "reconstruct": reconstruct,
    "evaluate": evaluate,
    "tokenize": tokenize,
    "generate": generate,
    "predict": predict,
    "train": train,
    "weights": weights,
}

GROUPS: dict[str, dict[str, Callable[..., Any]]] = {
    "train": {"tokenizer": train_tokenizer, "scorer": train_scorer, "generator": train_generator},
}


def main() -> None:
    """Entry point of the `adaptok` command."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"adaptok {__version__}\n")
        return
    warnings.showwarning = _one_line_warning
    # A polite kill unwinds like Ctrl-C, so that no half-written file stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    verbs, prog = VERBS, "adaptok"
    about = "Adaptive, temporally causal video tokenizer. `adaptok --version` prints the version."
    if arguments and arguments[0] in GROUPS:
        verbs, prog, about = GROUPS[arguments[0]], f"adaptok {arguments[0]}", VERBS[arguments[0]].__doc__ or ""
        arguments = arguments[1:]
    try:
        tyro.extras.subcommand_cli_from_dict(verbs, prog=prog, description=about, args=arguments)
    except BrokenPipeError:
        # The reader of our output has gone, as in `adaptok info x | head`: nothing is wrong, and nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"adaptok: {error}\n")
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        sys.stderr.write("adaptok: interrupted\n")
        sys.exit(130)


def _one_line_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, line
    (file or sys.stderr).write(f"adaptok: warning: {message}\n")
