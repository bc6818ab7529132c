"""Pixels to patches and back: the first and last step of the walk.

In: video (B,3,t,H,W) of whole blocks. Out: patch vectors in time, row, column order (next: positions.py); and the
inverse, where each row of the decoder's output becomes one t×p×p×3 piece of the picture.
"""

from jaxtyping import Float
from torch import Tensor, nn

from adaptok.config import Geometry
from adaptok.shapes import Tokens, Video


class PatchEmbedding(nn.Module):
    """A linear map of each patch, kept as a convolution whose stride is its kernel."""

    def __init__(self, geometry: Geometry, width: int) -> None:
        super().__init__()
        kernel = (geometry.patch_frames, geometry.patch_size, geometry.patch_size)
        self.proj = nn.Conv3d(3, width, kernel_size=kernel, stride=kernel)

    def forward(self, video: Video) -> Tokens:
        """(B,3,t,H,W) to (B,N,D)."""
        return self.proj(video).flatten(2).transpose(1, 2)


class PatchOutput(nn.Module):
    """From decoder rows to pixels."""

    def __init__(self, geometry: Geometry, width: int) -> None:
        super().__init__()
        self.geometry = geometry
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.linear = nn.Linear(width, geometry.patch_values)

    def forward(self, rows: Tokens) -> Video:
        """(B,N,D) to (B,3,t,H,W)."""
        return unpatchify(self.linear(self.norm(rows)), self.geometry)


def unpatchify(patches: Float[Tensor, "B N values"], geometry: Geometry) -> Video:
    """Each patch is laid out as (time, row, column, channel)."""
    t, p = geometry.patch_frames, geometry.patch_size
    _, h, w = geometry.grid
    x = patches.unflatten(1, (-1, h, w)).unflatten(-1, (t, p, p, 3))
    # B T' H' W' t p p C  ->  B C T' t H' p W' p
    x = x.permute(0, 7, 1, 4, 2, 5, 3, 6)
    return x.flatten(6, 7).flatten(4, 5).flatten(2, 3)
