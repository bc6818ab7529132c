"""What a budget does to a video: original, reconstruction and tokens side by side, and a row of numbers per block.

In: a codec, a video file, how to spend. Out: a comparison video and one `BlockReport` per block, in constant memory.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from adaptok.stream.codec import Codec
from adaptok.stream.convert import Progress, encode_blocks
from adaptok.stream.spending import Spending
from adaptok.video.compare import ComparisonWriter
from adaptok.video.frame import Frame
from adaptok.video.reader import open_video


@dataclass(frozen=True)
class BlockReport:
    """One block in numbers."""

    index: int
    frames: int
    kept: int
    score: float | None
    """What the scorer predicted for the kept length."""
    psnr: float
    """At the source's size, over the block's real frames."""


def compare_file(
    codec: Codec,
    source: str,
    target: str,
    spending: Spending,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[BlockReport]:
    """Encode, decode and write the comparison video."""
    if "-" in (source, target):
        raise ValueError("a comparison is made of files: - is neither its source nor its target")
    reports: list[BlockReport] = []
    with open_video(source) as video:
        info = video.info
        waiting: deque[Frame] = deque()

        def remembered() -> Iterator[Frame]:
            for frame in video:
                waiting.append(frame)
                yield frame

        header = codec.header(info.height, info.width, info.fps, info.time_base)
        session = codec.decoder(header)
        most = codec.geometry.tokens_per_block
        with ComparisonWriter(
            target,
            height=info.height,
            width=info.width,
            fps=info.fps,
            time_base=info.time_base,
            most=most,
            overwrite=overwrite,
        ) as writer:
            for block in encode_blocks(codec, remembered(), spending, info, source, progress):
                shown = session.push(block)
                originals = [waiting.popleft() for _ in range(block.frames)]
                for frame, image in zip(originals, shown, strict=True):
                    writer.write(frame.image, image, frame.pts, block=block.index, kept=block.kept)
                truth = np.stack([frame.image for frame in originals])
                reports.append(
                    BlockReport(
                        block.index,
                        block.frames,
                        block.kept,
                        predicted_score(block.scores, header.candidates, block.kept),
                        psnr(truth, shown),
                    )
                )
    return reports


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """In decibels; infinite for equal pictures."""
    error = np.square(a.astype(np.float64) - b).mean() / 255**2
    return float("inf") if error == 0 else float(-10 * np.log10(error))


def predicted_score(scores: np.ndarray | None, candidates: tuple[int, ...], kept: int) -> float | None:
    """What the scorer said of the length a block has; None where it said nothing of that."""
    return float(scores[candidates.index(kept)]) if scores is not None and kept in candidates else None
