import os
import pickle

import numpy as np
import pytest

from adaptok.metrics.unpickle import ADMITTED, read_arrays


class Malicious:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


def test_reads_nested_arrays():
    tree = {"a": {"b": np.ones((2, 3), np.float32)}, "c": np.zeros(4, np.float32)}
    found = read_arrays(pickle.dumps(tree, protocol=4))
    assert list(found) == ["a/b", "c"]
    assert np.array_equal(found["a/b"], tree["a"]["b"])


@pytest.mark.parametrize("home", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_reads_what_either_numpy_wrote(home):
    data = pickle.dumps({"a": np.ones(3, np.float32)}, protocol=3)
    ours = b"numpy._core.multiarray" if b"numpy._core.multiarray" in data else b"numpy.core.multiarray"
    assert np.array_equal(read_arrays(data.replace(ours, home.encode()))["a"], [1, 1, 1])


def test_admits_three_names_and_no_more():
    assert {name for _, name in ADMITTED} == {"ndarray", "dtype", "_reconstruct"}


@pytest.mark.parametrize(
    "call",
    [
        (os.system, "touch pwned"),
        (eval, "__import__('os').system('touch pwned')"),
        (getattr, "text", "upper"),
        (np.load, "pwned"),
        (bytearray, 8),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_refuses_to_call_anything(call, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"a": Malicious(*call)}, protocol=protocol)
    with pytest.raises(ValueError, match="which is not an array"):
        read_arrays(data)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("found", "what"),
    [
        ([1, 2], "the outermost object is a list"),
        ({"a": {"b": 3}}, "a/b is a int"),
        ({"a": np.ones(2)}, "a is a float64 array"),
        ({"a": np.array([None], object)}, "a is a object array"),
    ],
)
def test_refuses_other_content(found, what):
    with pytest.raises(ValueError, match=what):
        read_arrays(pickle.dumps(found, protocol=4))


def test_damaged_stream():
    data = pickle.dumps({"a": np.ones(1000, np.float32)}, protocol=4)
    for end in (0, 1, 10, 100, len(data) - 1):
        with pytest.raises(ValueError, match="not a pickle of plain arrays"):
            read_arrays(data[:end])
