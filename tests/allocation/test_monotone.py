import numpy as np
from scipy.optimize import isotonic_regression

from adaptok.allocation import non_increasing


def test_projection_is_the_isotonic_regression():
    loss = np.random.default_rng(0).normal(size=(50, 12))
    expected = [isotonic_regression(row, increasing=False).x for row in loss]
    np.testing.assert_allclose(non_increasing(loss), expected, atol=1e-12)


def test_a_single_length_stays():
    np.testing.assert_array_equal(non_increasing(np.array([[3.0], [1.0]])), [[3.0], [1.0]])
