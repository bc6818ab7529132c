"""A stream's facts for people and programs: what `adaptok info` shows."""

from typing import Any

import numpy as np

from adaptok.stream.convert import open_stream


def about(source: str) -> dict[str, Any]:
    """Header fields and totals over all whole blocks."""
    with open_stream(source) as reader:
        header = reader.header
        blocks = reader.coded() if header.entropy_coded else iter(reader)
        counts = [(block.frames, block.kept) for block in blocks]
        kept = np.array([k for _, k in counts], dtype=np.int64)
        frames = sum(f for f, _ in counts)
        seconds = float(frames / header.fps)
        tokens = int(kept.sum())
        return {
            "model": header.model,
            "fingerprint": header.fingerprint,
            "source_size": f"{header.source_height}x{header.source_width}",
            "model_size": f"{header.height}x{header.width}",
            "frames": frames,
            "fps": float(header.fps),
            "seconds": round(seconds, 3),
            "variable_frame_rate": header.has_timestamps,
            "blocks": len(counts),
            "blocks_per_clip": header.blocks,
            "frames_per_block": header.frames_per_block,
            "codebook": header.codebook,
            "tokens": tokens,
            "tokens_per_block": round(tokens / max(len(counts), 1), 2),
            "least_and_most": [int(kept.min()), int(kept.max())] if len(kept) else [],
            "most_possible": header.tokens,
            "bits_per_second": round(tokens * header.code_bits / seconds, 1) if seconds else 0.0,
            "budget": header.budget,
            "scores_stored": bool(header.candidates),
            "entropy_coded": header.entropy_coded,
            "complete": reader.complete,
            "damage": reader.damage,
        }
