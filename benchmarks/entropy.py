"""What does entropy coding under the model's prior save on real video?

    python benchmarks/entropy.py videos/manifest.csv [--model tiny] [--frames 32] [--videos 43]

The first frames of held-out videos, encoded at a quarter, a half and all of the tokens: bytes of the codes under the
prior against bytes of the same codes packed at a fixed number of bits, block by block as a stream stores them. Every
block is decoded again and compared. Writes results/entropy.json.
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

import adaptok
import machine
from adaptok.evaluation.clips import spread
from adaptok.stream.codec import Codec
from adaptok.stream.entropy import EntropyCoder
from adaptok.training.frames import decode
from adaptok.training.listing import list_videos
from adaptok.video import centre_cropped


def bytes_of(codec: Codec, images: np.ndarray, per_block: float) -> tuple[int, int]:
    """Bytes under the prior, and packed."""
    there, back = (EntropyCoder(codec.bundle.tokenizer) for _ in range(2))
    coded = packed = 0
    for block in codec.encode(images, adaptok.Budget(per_block=per_block)).blocks:
        stored = there.encode(block)
        assert np.array_equal(back.decode(stored).codes, block.codes)
        coded += len(stored.payload)
        packed += -(-block.kept * codec.bits_per_token // 8)
    return coded, packed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--frames", type=int, default=32)
    parser.add_argument("--videos", type=int, default=43)
    options = parser.parse_args()
    codec = adaptok.load(options.model)
    g = codec.geometry
    totals = {g.tokens_per_block // share: np.zeros(2, int) for share in (4, 2, 1)}
    entries = spread(list_videos(options.data, "val"), options.videos)
    for entry in track(entries, "videos", console=Console(stderr=True), transient=True):
        images = centre_cropped(decode(entry, max(g.height, g.width))[: options.frames], g.height, g.width)
        for per_block, total in totals.items():
            total += bytes_of(codec, images, per_block)
    rows = {
        per_block: {
            "coded_bytes": int(coded),
            "packed_bytes": int(packed),
            "percent": round(100 * int(coded) / int(packed), 1),
        }
        for per_block, (coded, packed) in totals.items()
    }
    Console().print(rows)
    machine.save("entropy", {**machine.describe(), "fingerprint": codec.fingerprint, "tokens_per_block": rows})


if __name__ == "__main__":
    main()
