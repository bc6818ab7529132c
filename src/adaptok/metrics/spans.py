"""One mechanism for per-frame, per-block and per-video values: means over spans of consecutive frames.

In: two videos (B,3,T,H,W) and a metric on images. Out: one value per frame (B,T), then per span (B,G),
where G is T over the span's length: 1 for each frame, a block's length for each block, None for the whole
video (G = 1). Next on the walk: pixels.py.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

ImageMetric = Callable[[Tensor, Tensor], Tensor]
"""Two batches of images (N,3,H,W) to one value each (N,)."""


def check_pair(a: Tensor, b: Tensor) -> None:
    """Two tensors that are compared have one shape; broadcasting would hide a mistake."""
    if a.shape != b.shape:
        raise ValueError(f"cannot compare tensors of shapes {tuple(a.shape)} and {tuple(b.shape)}")


def per_frame(metric: ImageMetric, a: Float[Tensor, "B C T H W"], b: Float[Tensor, "..."]) -> Float[Tensor, "B T"]:
    """A metric on images applied to every frame."""
    check_pair(a, b)
    batch = a.shape[0]
    values = metric(a.transpose(1, 2).flatten(0, 1), b.transpose(1, 2).flatten(0, 1))
    return values.unflatten(0, (batch, -1))


def mean_over_spans(values: Float[Tensor, "B T"], frames: int | None) -> Float[Tensor, "B G"]:
    """Mean of each run of `frames` consecutive frames; None is all of them."""
    total = values.shape[1]
    span = total if frames is None else frames
    if span < 1 or total % span:
        raise ValueError(f"{total} frames cannot be cut into spans of {span} frames")
    return values.unflatten(1, (-1, span)).mean(dim=2)
