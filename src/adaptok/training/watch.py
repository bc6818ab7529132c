"""What one sees of a run: a progress line, `metrics.jsonl`, pictures, and TensorBoard where it is installed.

In: values of steps and validations. Out: files in the run folder that people can plot; a resumed run drops the lines
after its checkpoint first, so that every step is there once.
"""

import json
import logging
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from adaptok.video import OutputError, whole_file

METRICS = "metrics.jsonl"
log = logging.getLogger(__name__)


class Watch:
    """Follows one sitting; `active` is false in all processes but the first."""

    def __init__(self, folder: Path, log_every: int, console: Console, active: bool = True) -> None:
        self.folder = folder
        self.log_every = log_every
        self.active = active
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not (active and console.is_terminal),
        )
        self._task = self._bar.add_task("training", speed="")
        self._file: IO[str] | None = None
        self._board: Any = None
        self._clips = 0
        self._since = 0.0

    def begin(self, first: int, steps: int) -> None:
        """Open the files and forget what came after step `first`."""
        self._since = time.perf_counter()
        if not self.active:
            return
        path = self.folder / METRICS
        if path.exists():
            _drop_after(path, first)
        self._file = path.open("a", encoding="utf-8")
        self._board = _open_board(self.folder / "tensorboard", first)
        self._bar.update(self._task, total=steps, completed=first)

    def due(self, done: int) -> bool:
        """Whether this step is written."""
        return done % self.log_every == 0

    def step(self, done: int, values: Mapping[str, float], clips: int, seconds: float) -> None:
        """Note a training step; written every `log_every` steps."""
        self._clips += clips
        if self.due(done):
            now = time.perf_counter()
            speed = self._clips / max(now - self._since, 1e-9)
            self._clips, self._since = 0, now
            self._write("train", done, {**values, "clips_per_second": speed}, seconds)
            self._bar.update(self._task, speed=f"loss {values['loss']:.4f}  {speed:.1f} clips/s")
        self._bar.update(self._task, completed=done)

    def validation(self, done: int, values: Mapping[str, float], picture: bytes | None, seconds: float) -> None:
        """Note a validation and keep its picture."""
        self._write("val", done, values, seconds)
        if self.active and picture is not None:
            folder = self.folder / "pictures"
            folder.mkdir(exist_ok=True)
            with whole_file(folder / f"step-{done:07d}.png", overwrite=True) as file:
                file.write(picture)
            if self._board is not None:
                self._board.file_writer.add_summary(_image_summary(picture), done)
        shown = "  ".join(f"{name} {value:.3f}" for name, value in values.items())
        log.info("step %d: %s", done, shown)
        if not self._bar.disable:
            self._bar.console.print(f"step {done}: {shown}", markup=False, highlight=False)
        # Time spent on validation says nothing about the speed of training.
        self._clips, self._since = 0, time.perf_counter()

    def _write(self, kind: str, done: int, values: Mapping[str, float], seconds: float) -> None:
        if self._file is None:
            return
        line = {"kind": kind, "step": done, "seconds": round(seconds, 3), **values}
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            raise OutputError(f"cannot write {self.folder / METRICS}: {error.strerror or error}") from error
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, done)

    def __enter__(self) -> "Watch":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()


def _open_board(folder: Path, first: int) -> Any:
    """TensorBoard's writer where the package is installed, else None; what came after step `first` is hidden."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=first + 1)


def _image_summary(picture: bytes) -> Any:
    """A PNG as TensorBoard keeps it, so that nothing has to be encoded again."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    width, height = struct.unpack(">II", picture[16:24])
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=picture)
    return Summary(value=[Summary.Value(tag="val/picture", image=image)])


def _drop_after(path: Path, step: int) -> None:
    """Keep whole lines up to `step`; a line that a crash cut short goes too."""
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            continue
        if values["step"] <= step:
            kept.append(line + "\n")
    with whole_file(path, overwrite=True) as file:
        file.write("".join(kept).encode())
