"""Streams on disk: growing, appended to, without index, and every way in which a path can be wrong."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from stream_makers import HEADER, block_ends, is_prefix, random_blocks, stored

from adaptok.stream import (
    StreamError,
    TokenReader,
    TokenWriter,
    append_tokens,
    create_tokens,
    open_tokens,
)
from adaptok.video import OutputError


def test_a_stream_is_read_while_it_is_written(tmp_path):
    blocks = random_blocks(HEADER, 9)
    path = tmp_path / "live.adtk"
    with path.open("wb") as file, TokenWriter(file, HEADER) as writer, path.open("rb") as other:
        reader = TokenReader(other)
        seen = []
        for number, block in enumerate(blocks):
            assert list(reader) == []
            assert f"{number} blocks are whole" in (reader.damage or "")
            writer.write(block)
            new = list(reader)
            assert len(new) == 1
            seen += new
        writer.close()
        assert list(reader) == []
        assert reader.complete
        assert reader.damage is None
    assert is_prefix(seen, blocks)


def test_half_a_record_is_waited_for(tmp_path):
    blocks = random_blocks(HEADER, 3)
    data, ends = stored(HEADER, blocks), block_ends(HEADER, blocks)
    path = tmp_path / "slow.adtk"
    path.write_bytes(data[: ends[0] + 5])
    with open_tokens(path) as reader:
        assert len(list(reader)) == 1
        with path.open("ab") as file:
            file.write(data[ends[0] + 5 :])
        assert len(list(reader)) == 2
        assert reader.damage is None


def test_appending_equals_writing_at_once(tmp_path):
    whole = random_blocks(HEADER, 150)
    path = tmp_path / "a.adtk"
    for start, stop in ((0, 70), (70, 71), (71, 150)):
        opened = create_tokens(path, HEADER) if start == 0 else append_tokens(path)
        with opened as writer:
            assert writer.blocks == start
            for block in whole[start:stop]:
                writer.write(block)
    assert path.read_bytes() == stored(HEADER, whole)


def test_appending_continues_what_was_never_closed(tmp_path):
    blocks = random_blocks(HEADER, 9)
    path = tmp_path / "a.adtk"
    path.write_bytes(stored(HEADER, blocks[:5], closed=False))
    with append_tokens(path) as writer:
        for block in blocks[5:]:
            writer.write(block)
    assert path.read_bytes() == stored(HEADER, blocks)


def test_appending_drops_damage_only_when_told(tmp_path):
    blocks = random_blocks(HEADER, 9)
    path = tmp_path / "a.adtk"
    data, ends = stored(HEADER, blocks), block_ends(HEADER, blocks)
    path.write_bytes(data[: ends[4] - 1])
    with (
        pytest.raises(StreamError, match="cannot append: the stream was cut.* 4 blocks are whole"),
        append_tokens(path),
    ):
        pass
    assert path.read_bytes() == data[: ends[4] - 1]
    with append_tokens(path, drop_damage=True) as writer:
        for block in blocks[4:]:
            writer.write(block)
    assert path.read_bytes() == data


def test_without_index_a_seek_reads_the_way_and_remembers_it(tmp_path):
    blocks = random_blocks(HEADER, 300)
    path = tmp_path / "a.adtk"
    data = stored(HEADER, blocks)
    path.write_bytes(data[:-1])
    with open_tokens(path) as reader:
        assert reader.end() is None
        reader.seek(250)
        assert is_prefix(list(reader)[:1], [replace(blocks[250])])
        assert reader.damage == "the last bytes of the stream are damaged; no block is lost"
        reader.seek(130)
        assert next(iter(reader)).index == 130


def test_a_created_stream_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.adtk"

    def interrupted():
        with create_tokens(path, HEADER) as writer:
            writer.write(random_blocks(HEADER, 2)[0])
            assert not path.exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with create_tokens(path, HEADER):
        pass
    with pytest.raises(OutputError, match="exists; it is replaced only when asked for"), create_tokens(path, HEADER):
        pass
    with create_tokens(path, replace(HEADER, model="second"), overwrite=True):
        pass
    with open_tokens(path) as reader:
        assert reader.header.model == "second"


@pytest.mark.parametrize("missing", ["nowhere.adtk", "", "text.adtk"])
def test_paths_that_are_no_streams_give_one_line(tmp_path, missing):
    (tmp_path / "text.adtk").write_text("hello")
    with pytest.raises(StreamError) as caught:
        open_tokens(tmp_path / missing)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(StreamError), append_tokens(tmp_path / missing):
        pass


def test_a_real_pipe(tmp_path):
    blocks = random_blocks(HEADER, 9)
    program = "import sys, adaptok.stream as s; print([b.kept for b in s.TokenReader(sys.stdin.buffer)])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=stored(HEADER, blocks),
        capture_output=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout.decode().strip() == str([block.kept for block in blocks])


def test_a_full_disk_leaves_nothing(tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    header = replace(HEADER, tokens=4096)
    block = replace(random_blocks(header, 1)[0], frames=4, codes=np.zeros(4096, np.int32))

    def fill():
        with create_tokens(tmp_path / "a.adtk", header) as writer:
            for index in range(10):
                writer.write(replace(block, index=index))

    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OutputError, match=r"cannot write .*a\.adtk: "):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
