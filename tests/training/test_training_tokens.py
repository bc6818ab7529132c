"""The token corpus: what is in it, that it can be gone on with, and what is noticed when it is broken."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("pyarrow")

from generator_makers import codec_of, make_tokens
from pyarrow import parquet
from training_makers import write_video

from adaptok.training import TokenizeConfig, tokenize
from adaptok.training.frames import decode
from adaptok.training.listing import list_videos
from adaptok.training.token_corpus import open_corpus, part_path, read_facts
from adaptok.video import centre_cropped
from tiny_models import tiny_bundle


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_tokens(tmp_path_factory.mktemp("tokens"), corpus)


def test_rows_are_what_the_tokenizer_says(made: tuple[Path, Path], corpus: Path) -> None:
    model, tokens = made
    codec, facts = codec_of(model), read_facts(part_path(tokens, "train", 0))
    assert facts.tokenizer == codec.fingerprint
    assert (facts.blocks, facts.tokens_per_block, facts.codebook_size, facts.parts) == (3, 6, 32, 3)
    assert (facts.candidates, facts.budget, facts.context_blocks) == ((2, 4, 6), "per_block=3.0", 2)
    table = parquet.read_table(part_path(tokens, "train", 1))
    assert table.column_names == ["video", "clip", "mirrored", "label", "lengths", "codes", "scores", "context"]
    row = table.to_pylist()[2]
    entry = list_videos(corpus, "train")[2]
    assert (row["video"], row["label"], row["clip"], row["mirrored"]) == (entry.name, entry.label, 6, False)
    images = centre_cropped(decode(entry, 12), 8, 12)[6:12]
    video = torch.from_numpy(images).permute(3, 0, 1, 2)[None].float() / 255
    codes = codec.bundle.tokenizer.encode(video).codes[0].numpy()
    kept = [block[:n].tolist() for block, n in zip(codes, row["lengths"], strict=True)]
    assert row["codes"] == [code for block in kept for code in block]
    assert len(row["scores"]) == 3 * 3
    assert len(row["context"]) == 2 * 6
    assert row["context"][:6] == codes[0].tolist(), "a whole given block has the tokens it has in the clip"


def test_clips_of_a_part_share_the_budget(made: tuple[Path, Path]) -> None:
    corpus = open_corpus(made[1], "train")
    assert len(corpus) == 6 * 3 * 2
    assert corpus.lengths.mean() == 3
    assert len(np.unique(corpus.lengths.sum(axis=1))) > 1, "lengths adapt between clips, not only within them"
    assert [len(block) for block in corpus.blocks(7)] == corpus.lengths[7].tolist()
    assert sum(len(block) for i in range(len(corpus)) for block in corpus.blocks(i)) == len(corpus.codes)


def test_a_stopped_run_goes_on(made: tuple[Path, Path], corpus: Path, tmp_path: Path) -> None:
    model, tokens = made
    shutil.copytree(tokens, tmp_path / "t")
    missing = part_path(tmp_path / "t", "train", 1)
    missing.unlink()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "t").rglob("*.parquet")}
    options = TokenizeConfig(context=3, videos_per_part=2, mirror=True)
    done = tokenize(codec_of(model), corpus, tmp_path / "t", options)
    assert (done.parts, done.kept, done.clips) == (5, 4, 12)
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())
    assert parquet.read_table(missing).equals(parquet.read_table(part_path(tokens, "train", 1)))
    with pytest.raises(ValueError, match="holds tokens of other videos, options or another model"):
        tokenize(codec_of(model), corpus, tmp_path / "t", TokenizeConfig(context=3, videos_per_part=2))


def test_unreadable_and_short_videos_are_reported_and_skipped(tmp_path: Path) -> None:
    write_video(tmp_path / "v" / "good.mp4", seed=1)
    write_video(tmp_path / "v" / "short.mp4", seed=2, count=4)
    (tmp_path / "v" / "bad.mp4").write_bytes(b"not a video")
    tiny_bundle(dtype=torch.float32).save(tmp_path / "m")
    for again in (False, True):
        done = tokenize(codec_of(tmp_path / "m"), tmp_path / "v", tmp_path / "t", TokenizeConfig(splits=("all",)))
        assert done.kept == again
        assert [line.split(":")[0] for line in done.skipped] == ["bad.mp4", "short.mp4"]
        assert "it has 4 frames, a clip has 6" in done.skipped[1]
    assert set(open_corpus(tmp_path / "t", "all").names) == {"good.mp4"}


def test_options_choose_clips(corpus: Path, tmp_path: Path) -> None:
    tiny_bundle(dtype=torch.float32).save(tmp_path / "m")
    options = TokenizeConfig(splits=("val",), stride=5, clips=2, tokens_per_block=4.0, max_per_block=4)
    tokenize(codec_of(tmp_path / "m"), corpus, tmp_path / "t", options)
    found = open_corpus(tmp_path / "t", "val")
    assert len(found) == 3 * 2
    assert (found.lengths == 4).all()
    assert found.facts.context_blocks == 0
    with pytest.raises(ValueError, match="a context of 6 frames: a clip has 6"):
        tokenize(codec_of(tmp_path / "m"), corpus, tmp_path / "u", TokenizeConfig(context=6))


def test_a_tokenizer_without_scorer_gives_equal_lengths(corpus: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from tiny_models import tiny_config

    tiny_bundle(replace(tiny_config(), scorer=None), dtype=torch.float32).save(tmp_path / "m")
    tokenize(codec_of(tmp_path / "m"), corpus, tmp_path / "t", TokenizeConfig(splits=("val",)))
    assert (open_corpus(tmp_path / "t", "val").lengths == 3).all()


def broken(made: tuple[Path, Path], folder: Path) -> Path:
    shutil.copytree(made[1], folder / "t")
    return folder / "t"


def test_a_truncated_part(made: tuple[Path, Path], tmp_path: Path) -> None:
    tokens = broken(made, tmp_path)
    part = part_path(tokens, "train", 1)
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"part-00001.parquet is cut short or damaged: [^\n]*$"):
        open_corpus(tokens, "train")


def test_every_byte_that_is_lost_is_noticed(made: tuple[Path, Path], tmp_path: Path) -> None:
    tokens = broken(made, tmp_path)
    part = part_path(tokens, "val", 0)
    data = part.read_bytes()
    for keep in range(0, len(data), 97):
        part.write_bytes(data[:keep])
        with pytest.raises(ValueError, match="cut short or damaged"):
            open_corpus(tokens, "val")


def test_a_missing_part_and_a_foreign_one(made: tuple[Path, Path], tmp_path: Path) -> None:
    tokens = broken(made, tmp_path)
    part_path(tokens, "train", 2).unlink()
    with pytest.raises(ValueError, match="has 2 of 3 parts: adaptok tokenize goes on"):
        open_corpus(tokens, "train")
    shutil.copy(part_path(tokens, "val", 0), part_path(tokens, "train", 2))
    with pytest.raises(ValueError, match="was not made together with"):
        open_corpus(tokens, "train")
    with pytest.raises(ValueError, match="no token corpus at .*test: make one with adaptok tokenize"):
        open_corpus(tokens, "test")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("codes", [[1, 2]], "has 2 codes, its blocks say"),
        ("codes", None, "codes are outside 0..31: 0 to 99"),
        ("lengths", [[1, 2]], "lengths must have 3 values in every row"),
    ],
)
def test_rows_that_contradict_themselves(
    made: tuple[Path, Path], tmp_path: Path, column: str, values: list[list[int]] | None, message: str
) -> None:
    import pyarrow

    tokens = broken(made, tmp_path)
    path = part_path(tokens, "val", 0)
    table = parquet.read_table(path)
    rows = table[column].to_pylist()
    if values is None:
        rows[0] = [99] + [0] * (len(rows[0]) - 1)
    else:
        rows[0] = values[0]
    place = table.column_names.index(column)
    kind = table.schema.field(column)
    parquet.write_table(table.set_column(place, kind, pyarrow.array(rows, kind.type)), path)
    with pytest.raises(ValueError, match=message):
        open_corpus(tokens, "val")


def test_other_parquet_is_no_corpus(tmp_path: Path) -> None:
    import pyarrow

    path = part_path(tmp_path, "train", 0)
    path.parent.mkdir()
    parquet.write_table(pyarrow.table({"a": [1]}), path)
    with pytest.raises(ValueError, match="not a token corpus of this program"):
        open_corpus(tmp_path, "train")
