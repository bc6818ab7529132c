"""One small evaluation that many tests look at, and what it is made of."""

from pathlib import Path

import pytest
from evaluation_makers import SETTINGS, make_cheap, make_videos, small_codec

from adaptok import Codec
from adaptok.evaluation import Evaluation, evaluate


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Networks that cost nothing."""
    make_cheap(monkeypatch, tmp_path / "cache")


@pytest.fixture(scope="session")
def codec() -> Codec:
    return small_codec()


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_videos(tmp_path_factory.mktemp("data") / "videos", 5)


@pytest.fixture(scope="session")
def finished(codec: Codec, videos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Evaluation, Path]:
    """Five videos, two strategies at two budgets, four metrics; and the folder of the results."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        make_cheap(patch, folder / "cache")
        found = evaluate(codec, videos, folder / "out", SETTINGS)
    assert found is not None
    return found, folder / "out"


@pytest.fixture
def found(finished: tuple[Evaluation, Path]) -> Evaluation:
    return finished[0]


@pytest.fixture
def out(finished: tuple[Evaluation, Path]) -> Path:
    return finished[1]
