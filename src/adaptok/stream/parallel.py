"""Clips side by side: offline encoding that keeps all cores busy.

In: frames in order. Out: the blocks one session would give, in order, with `workers` clips under way at a time, one
thread each (another number of threads may round the last bit of a score otherwise). Small models gain: their matrices
are too small for many threads to share. Only where the blocks of a clip share a budget are clips independent; other
scopes go through the video in order.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice

import numpy as np
import torch

from adaptok.allocation import Pace
from adaptok.bundle import Bundle
from adaptok.stream.block import TokenBlock
from adaptok.stream.session import EncoderSession
from adaptok.stream.spending import Spending
from adaptok.video.frame import Frame


def encode_frames(
    bundle: Bundle, frames: Iterable[Frame], spending: Spending, pace: Pace, stamped: bool, workers: int
) -> Iterator[TokenBlock]:
    """Blocks of a whole video; with timestamps in them where `stamped`."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if workers == 1 or spending.scope != "clip":
        session = EncoderSession(bundle, spending, pace)
        for frame in frames:
            yield from session.push(frame.image[None], [frame.pts] if stamped else None)
        yield from session.finish()
        return
    g = bundle.config.tokenizer.geometry

    def encode(clip: Sequence[Frame], first_block: int) -> list[TokenBlock]:
        session = EncoderSession(bundle, spending, pace, first_block)
        images = np.stack([frame.image for frame in clip])
        return [*session.push(images, [frame.pts for frame in clip] if stamped else None), *session.finish()]

    waiting: deque[Future[list[TokenBlock]]] = deque()
    source, first_block = iter(frames), 0
    with _pool(workers) as pool:
        while clip := list(islice(source, g.frames)):
            waiting.append(pool.submit(encode, clip, first_block))
            first_block += g.blocks
            if len(waiting) > workers:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


@contextmanager
def _pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that compute on one core each."""
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
