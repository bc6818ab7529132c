"""Frame prediction: the first frames of a real video in, the same frames untouched and what might follow out.

A generator of given frames reads them as its condition, the last block filled up with the last frame, as in the paper.
Whole blocks among them are moreover known tokens of the sequence itself and are not generated again. A generator of
classes has only the latter, so it needs one whole block at least. Next on the walk: `metrics/`.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import UInt8

from adaptok.generation.generate import Director, Take, encode_all, frames_condition
from adaptok.generation.sequence import Codes, Prompt, class_ids
from adaptok.generation.settings import Sampling
from adaptok.stream.session import check_frames
from adaptok.video.clips import stretched

Images = UInt8[np.ndarray, "T H W 3"]
PAPERS_CONTEXT = 5


@dataclass(frozen=True, eq=False)
class Prediction:
    """A video whose beginning is real."""

    frames: Images
    """At the size of the given frames, which come first and are exactly as they were."""
    context: int
    """How many frames were given."""
    take: Take
    """What was generated, at the model's size."""


def predict(
    director: Director,
    frames: Images,
    sampling: Sampling,
    *,
    context: int = PAPERS_CONTEXT,
    total: int | None = None,
    label: int | None = None,
    seed: int = 0,
) -> Prediction:
    """Continue the first `context` of some frames to `total` frames, a clip where None."""
    check_frames(frames)
    g = director.codec.geometry
    total = g.frames if total is None else total
    check_context(director, context, len(frames), total)
    if sampling.blocks is not None:
        raise ValueError(
            f"a prediction is as long as its frames say ({total}): blocks {sampling.blocks} contradicts that"
        )
    given = frames[:context]
    prompt = context_prompt(director, stretched(given, g.height, g.width), label, seed)
    sampling = replace(sampling, blocks=-(-total // g.block_frames))
    (take,) = director.takes([prompt], sampling, batch=1)
    made = stretched(take.frames[context:total], *frames.shape[1:3])
    return Prediction(np.concatenate([given, made]), context, take)


def check_context(director: Director, context: int, there: int, total: int) -> None:
    """Refuse numbers of frames that make no sense."""
    g, config = director.codec.geometry, director.config
    if not 1 <= context < g.frames:
        raise ValueError(f"a context of {context} frames: a clip has {g.frames}, so 1 to {g.frames - 1} can be given")
    if context > there:
        raise ValueError(f"a context of {context} frames is asked for, the video has {there}")
    if total <= context:
        raise ValueError(f"{total} frames are asked for and {context} of them are given: nothing is left to predict")
    if config.classes and context < g.block_frames:
        raise ValueError(
            f"a context of {context} frames: generator {config.name!r} sees whole blocks only, {g.block_frames} frames"
        )


def context_prompt(director: Director, images: Images, label: int | None, seed: int) -> Prompt:
    """What is known of given frames at the model's size: a condition, and the tokens of whole blocks."""
    codec, config = director.codec, director.config
    whole = len(images) // codec.geometry.block_frames
    prefix = _told_blocks(director, images[: whole * codec.geometry.block_frames]) if whole else ()
    if config.classes:
        return Prompt(class_ids(config, label), seed, prefix)
    return Prompt(frames_condition(codec, config, images), seed, prefix)


def _told_blocks(director: Director, images: Images) -> tuple[Codes, ...]:
    """Whole blocks with as many tokens as the generator has ever seen: what follows can be no clearer than they are."""
    return tuple(codes[: director.config.longest] for codes in encode_all(director.codec, images))
