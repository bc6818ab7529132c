"""`adaptok demo`: what adaptive tokenization does to a clip."""

from pathlib import Path

from adaptok.cli.options import progress_bar


def demo(
    *,
    video: Path | None = None,
    out: Path = Path("adaptok-demo"),
    model: str = "tiny",
    threads: int | None = None,
) -> None:
    """Encode a clip at three budgets, decode it, and write a folder to look at.

    The folder gets a picture, a film side by side, a page with all numbers and the token streams. No network is needed.

    Args:
        video: Your own video, of which the first seconds are used; the bundled clip if not given.
        out: The folder; files of an earlier demo in it are replaced.
        model: An embedded model's name, a folder, or a hub id.
        threads: CPU threads; PyTorch's default if not given.
    """
    from rich.console import Console
    from rich.table import Table

    from adaptok.cli.options import Machine
    from adaptok.demo import make_demo
    from adaptok.demo.page import HEADS, summary

    codec = Machine(model=model, threads=threads).codec()
    with progress_bar("tokenizing") as progress:
        made = make_demo(codec, out, video, progress)
    height, width = made.clip.images.shape[1:3]
    console = Console()
    console.print(f"{made.clip.name}: {len(made.clip.images)} frames of {width}×{height}", highlight=False)
    table = Table(*HEADS)
    for line in summary(made.passages):
        table.add_row(*line)
    console.print(table)
    if made.note:
        console.print(made.note)
    where = f"look at {out / 'tokens.png'}, {out / 'side_by_side.mp4'} and {out / 'index.html'}"
    console.print(where, highlight=False, soft_wrap=True)
