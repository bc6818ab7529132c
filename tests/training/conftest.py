"""One small corpus for all training tests."""

from pathlib import Path

import pytest
from training_makers import make_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("data") / "corpus")
