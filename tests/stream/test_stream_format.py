"""The specification's worked example is what the code writes, and its overhead figures are what the code costs."""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from stream_makers import HEADER, block_ends, is_prefix, random_blocks, read, stored

from adaptok.stream import StreamHeader, TokenBlock

SPECIFICATION = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")

EXAMPLE = StreamHeader(
    model="demo",
    fingerprint="c0ffee",
    frames=4,
    blocks=2,
    tokens=5,
    codebook=1000,
    height=16,
    width=24,
    source_height=17,
    source_width=25,
    fps=Fraction(30000, 1001),
    time_base=Fraction(1, 30000),
    budget="3",
    has_timestamps=True,
    candidates=(0, 5),
    score_bytes=2,
)


def _example_blocks():
    facts = [
        ((0, 1001), [1.5, 0.25], [1, 2, 999]),
        ((2002, 3003), [1, 0.5], [512, 7]),
        ((4504,), [2, 0], [0, 1, 2, 3, 4]),
    ]
    return [
        TokenBlock(
            index=index,
            frames=len(times),
            timestamps=times,
            scores=np.array(scores, np.float32),
            codes=np.array(codes, np.int32),
        )
        for index, (times, scores, codes) in enumerate(facts)
    ]


def test_the_worked_example():
    dump = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} ?)+)$", SPECIFICATION, re.MULTILINE)
    data = bytes.fromhex("".join(dump))
    assert data == stored(EXAMPLE, _example_blocks(), 2)
    found, reader = read(data)
    assert reader.header == EXAMPLE
    assert len(found) == 3
    assert is_prefix(found, _example_blocks())


def test_the_layouts_of_the_example_add_up():
    ends = block_ends(EXAMPLE, _example_blocks(), 2)
    assert len(EXAMPLE.to_bytes()) == 80
    assert ends == [109, 109, 130]
    assert len(stored(EXAMPLE, _example_blocks(), 2)) == 165


def overhead(codebook: int, per_record: int, count: int, kept: int | None = 64) -> tuple[float, float]:
    """Bytes that are not codes, in percent of those that are: of the records alone, and of the whole file."""
    header = replace(HEADER, codebook=codebook, fingerprint="00" * 32, model="adaptok-small", tokens=64)
    blocks = [replace(block, frames=4) for block in random_blocks(header, count, kept=kept)]
    codes = sum(block.kept for block in blocks) * header.code_bits / 8
    records = block_ends(header, blocks, per_record)[-1] - len(header.to_bytes())
    return 100 * (records / codes - 1), 100 * (len(stored(header, blocks, per_record)) / codes - 1)


@pytest.mark.parametrize("codebook", [1024, 4096])
@pytest.mark.parametrize("per_record", [1, 2, 4, 8, 16])
def test_the_table_of_overheads(codebook, per_record):
    records, whole = overhead(codebook, per_record, 1000)
    row = re.search(rf"^\| {per_record} \|(.*%) \|$", SPECIFICATION, re.MULTILINE)
    assert row is not None
    columns = [cell.strip() for cell in row.group(1).split("|")]
    place = 1 if codebook == 4096 else 3
    assert columns[place : place + 2] == [f"{records:.2f} %", f"{whole:.2f} %"]
    assert whole < 2 or per_record < 4
