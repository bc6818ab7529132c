"""Clips side by side: offline encoding in batches, which keeps all cores, or a GPU, busy.

In: frames in order. Out: the blocks that one session would give, in order, `batch` clips computed at a time: one clip
of a small model has matrices too small for many threads to share. Only where the blocks of a clip share a budget are
clips independent; other scopes go through the video in order, and so does what is left behind the last whole clip.
Products of another shape may round the last bit of a score differently.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np
import torch

from adaptok.allocation import Pace
from adaptok.bundle import Bundle
from adaptok.stream.block import TokenBlock
from adaptok.stream.session import EncoderSession, motion_of, token_blocks
from adaptok.stream.spending import Spending
from adaptok.video.clips import stretched, to_video
from adaptok.video.frame import Frame


def encode_frames(
    bundle: Bundle, frames: Iterable[Frame], spending: Spending, pace: Pace, stamped: bool, batch: int
) -> Iterator[TokenBlock]:
    """Blocks of a whole video; with timestamps in them where `stamped`."""
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    g = bundle.config.tokenizer.geometry
    source, rest, first = iter(frames), list[Frame](), 0
    while batch > 1 and spending.scope == "clip" and (some := list(islice(source, batch * g.frames))):
        whole = len(some) // g.frames
        if whole:
            yield from encode_clips(bundle, some[: whole * g.frames], spending, pace, stamped, first)
        rest, first = some[whole * g.frames :], first + whole * g.blocks
    session = EncoderSession(bundle, spending, pace, first)
    for frame in chain(rest, source):
        yield from session.push(frame.image[None], [frame.pts] if stamped else None)
    yield from session.finish()


@torch.inference_mode()
def encode_clips(
    bundle: Bundle, frames: Sequence[Frame], spending: Spending, pace: Pace, stamped: bool, first: int
) -> list[TokenBlock]:
    """Blocks of whole clips, the first of them number `first` of the video."""
    spending.check(bundle.scorer)
    g = bundle.config.tokenizer.geometry
    images = stretched(np.stack([frame.image for frame in frames]), g.height, g.width)
    clips = images.reshape(-1, g.frames, *images.shape[1:])
    video = torch.cat([to_video(clip) for clip in clips]).to(bundle.tokenizer.quantizer.codebook.device)
    encoding = bundle.tokenizer.encode(video)
    starts = range(0, g.frames, g.block_frames)
    motion = [[motion_of(clip[s - 1] if s else None, clip[s : s + g.block_frames]) for s in starts] for clip in clips]
    kept, scores = spending.clips(bundle.scorer, encoding, np.array(motion), pace)
    blocks = range(0, len(frames), g.block_frames)
    return token_blocks(
        first,
        [g.block_frames] * len(blocks),
        [tuple(frame.pts for frame in frames[s : s + g.block_frames]) if stamped else None for s in blocks],
        encoding.codes.flatten(0, 1).cpu().numpy(),
        kept.reshape(-1),
        None if scores is None else scores.reshape(len(blocks), -1),
    )
