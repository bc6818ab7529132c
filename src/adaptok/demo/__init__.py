"""What adaptive tokenization does to one clip. The walk: `passage` -> `figure`, `film`, `page` -> `show`."""

from adaptok.demo.passage import BlockNumbers, Passage, Shown
from adaptok.demo.show import Demo, make_demo, sample_clip

__all__ = ["BlockNumbers", "Demo", "Passage", "Shown", "make_demo", "sample_clip"]
