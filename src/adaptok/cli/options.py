"""Options that several verbs share, as typed groups; the help text is under each field."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from adaptok.allocation import Budget
    from adaptok.generation import Director
    from adaptok.stream.codec import Codec
    from adaptok.stream.convert import Progress, RawVideo
    from adaptok.stream.spending import Spending

Source = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
Target = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]


class UsageError(ValueError):
    """Options that contradict each other or cannot be read: exit code 2."""


@dataclass(frozen=True, kw_only=True)
class Spend:
    """How many tokens to spend: at most one kind of budget; half of all tokens if none is given."""

    tokens_per_block: float | None = None
    """Average tokens per block."""
    tokens: int | None = None
    """Tokens of the whole video."""
    bits_per_second: float | None = None
    """Bits per second of video."""
    tokens_per_second: float | None = None
    """Tokens per second of video."""
    quality: float | None = None
    """Fewest tokens whose mean predicted loss is at or below this."""
    min_per_block: int | None = None
    """Fewest tokens of any block."""
    max_per_block: int | None = None
    """Most tokens of any block."""

    def budget(self, default: float) -> "Budget":
        """The budget, or an average of `default` tokens per block."""
        from adaptok.allocation import Budget

        given = (self.tokens_per_block, self.tokens, self.bits_per_second, self.tokens_per_second, self.quality)
        average = default if all(value is None for value in given) else self.tokens_per_block
        if sum(value is not None for value in given) > 1:
            raise UsageError(
                "at most one of --tokens-per-block, --tokens, --bits-per-second, --tokens-per-second, --quality"
            )
        return Budget(
            per_block=average,
            total=self.tokens,
            bits_per_second=self.bits_per_second,
            tokens_per_second=self.tokens_per_second,
            quality=self.quality,
            min_per_block=self.min_per_block,
            max_per_block=self.max_per_block,
        )


@dataclass(frozen=True, kw_only=True)
class Allocate(Spend):
    """How many tokens to spend, and how to share them out."""

    strategy: Literal["ipal", "fixed", "bithr", "bidelta", "ilp", "motion"] = "ipal"
    """How tokens are shared out; ipal is optimal under the predicted scores."""
    scope: Literal["clip", "video", "live"] | None = None
    """Which blocks share a budget: those of a clip (default), of the video, or a running window (live)."""
    window: int = 32
    """Blocks over which a live budget holds."""

    def spending(self, codec: "Codec") -> "Spending":
        """As the codec takes it."""
        from adaptok.stream.spending import Spending

        budget = self.budget(codec.geometry.tokens_per_block / 2)
        scope = self.scope or ("clip" if budget.total is None else "video")
        return Spending(budget=budget, strategy=self.strategy, scope=scope, window=self.window)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where and how to run."""

    model: str = "tiny"
    """An embedded model's name, a folder, or a hub id."""
    device: str | None = None
    """Device of the model, such as cpu, cuda or mps; where the weights are if not given."""
    seed: int = 0
    """Seed of everything random."""
    threads: int | None = None
    """CPU threads; PyTorch's default if not given."""

    def codec(self) -> "Codec":
        """Load the model."""
        import torch

        from adaptok.load import load

        torch.manual_seed(self.seed)
        if self.threads is not None:
            if self.threads < 1:
                raise UsageError(f"--threads must be at least 1, got {self.threads}")
            torch.set_num_threads(self.threads)
        return load(self.model, self.device)


@dataclass(frozen=True, kw_only=True)
class Studio:
    """A generator, its tokenizer, and where they run."""

    model: str | None = None
    """The generator: an embedded one's name or a folder; tiny-ar (predict: tiny-fp) if not given."""
    tokenizer: str = "tiny"
    """The tokenizer whose tokens it speaks: an embedded model's name, a folder, or a hub id."""
    device: str | None = None
    """Device of both, such as cpu, cuda or mps; where the weights are if not given."""
    seed: int = 0
    """Seed of the first sample; the others follow."""
    threads: int | None = None
    """CPU threads; PyTorch's default if not given."""

    def director(self, default: str) -> "Director":
        """Load both models and check that they belong together."""
        from adaptok.bundle import on_device
        from adaptok.generation import Director, open_generator

        generator = open_generator(self.model or default)
        machine = Machine(model=self.tokenizer, device=self.device, seed=self.seed, threads=self.threads)
        return Director(generator if self.device is None else on_device(generator, self.device), machine.codec())


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Raw RGB frames on standard input say nothing of themselves."""

    raw: str | None = None
    """Size of raw frames as HEIGHTxWIDTH."""
    fps: str = "25"
    """Rate of raw frames, such as 25 or 30000/1001."""

    def video(self) -> "RawVideo | None":
        """What is known of raw input."""
        from adaptok.stream.convert import RawVideo
        from adaptok.stream.header import MAX_AREA, MAX_SIDE

        if self.raw is None:
            return None
        try:
            height, width = (int(part) for part in self.raw.lower().split("x"))
            fps = Fraction(self.fps)
        except (ValueError, ZeroDivisionError):
            raise UsageError(f"--raw {self.raw} --fps {self.fps}: HEIGHTxWIDTH and a rate are expected") from None
        if min(height, width) < 1 or fps <= 0:
            raise UsageError(f"--raw {self.raw} --fps {self.fps}: sizes and rate must be positive")
        if max(height, width) > MAX_SIDE or height * width > MAX_AREA:
            raise UsageError(f"--raw {self.raw}: frames have at most {MAX_SIDE} rows or columns and {MAX_AREA} pixels")
        return RawVideo(height=height, width=width, fps=fps)


@contextmanager
def progress_bar(what: str) -> Iterator["Progress | None"]:
    """A bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def tell(text: str) -> None:
    """A line for people; standard output is for data."""
    sys.stderr.write(f"{text}\n")
