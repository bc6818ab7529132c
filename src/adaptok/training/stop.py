"""Ctrl-C and SIGTERM as a wish: the step at hand is finished and saved before the run ends.

A second signal is not waited for: it interrupts at once, as usual.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether somebody asked the run to end."""

    asked: bool = False


@contextmanager
def watch_signals() -> Iterator[StopRequest]:
    """Collect the first signal; outside the main thread, where Python delivers none, nothing is changed."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(_number: int, _frame: FrameType | None) -> None:
        request.asked = True
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
