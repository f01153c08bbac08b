"""Products to twice the digits, of points far from the origin: outputs of networks, coordinates, and their memory."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np

import covopt
from covopt.exact.far_rows import coordinates, outputs_of_far
from tests.oracles.table import objects


def test_targets_whose_squares_no_double_holds():
    """A third of a second apart in microseconds since 1970: no crash, and what is stated holds."""
    inputs = np.array([1.7e15, 1700000000356390.2, 1700000000712780.5])
    targets = np.array([-2.7e149, -7.5e149, -2.5e149])
    solution = covopt.min_norm(inputs[:, None], targets, output_bias="free")
    assert solution.status.code in ("certified", "gap")
    assert covopt.verify(solution).ok


def test_outputs_to_twice_the_digits_are_those_of_fractions():
    rng = np.random.default_rng(1)
    rows = np.column_stack([1.7e18 + rng.integers(0, 2**20, 6), rng.standard_normal(6), np.ones(6)])
    hidden = rng.standard_normal((5, 3))
    hidden[:, 2] = (
        rng.standard_normal(5) - 1.7e18 * hidden[:, 0]
    )  # heights are small differences of large products
    weights, targets, shift = rng.standard_normal((5, 2)), rng.standard_normal((6, 2)), rng.standard_normal(2)
    found = outputs_of_far(rows, hidden, weights, 0.1, shift, targets)
    true = np.maximum(objects(rows) @ objects(hidden).T, 0) @ objects(weights) + Fraction(0.1) * objects(
        shift
    )
    assert (abs(objects(found) - true) <= abs(true) / 2**51).all()
    doubles = np.maximum(rows @ hidden.T, 0.0) @ weights + 0.1 * shift
    assert np.abs(doubles - found).max() > 1.0  # what they are computed with twice the digits for


def test_where_products_overflow_nothing_is_believed():
    rows, hidden, targets = np.array([[1e160, 1.0]]), np.array([[1e150, -1e300]]), np.ones((1, 1))
    found = outputs_of_far(rows, hidden, np.ones((1, 1)), 1.0, np.zeros(1), targets)
    assert not np.abs(found - targets) <= 1e-9


def test_products_with_their_errors_are_made_in_blocks():
    """1500 points and as many neurons took a dozen arrays of 18 MB, three times a limit of .05 GiB."""
    rng = np.random.default_rng(0)
    rows, basis = rng.standard_normal((1500, 3)), rng.standard_normal((3, 1500))
    tracemalloc.start()
    try:
        found = coordinates(rows, basis)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * found.nbytes
    assert np.allclose(found, rows @ basis, rtol=1e-12, atol=1e-12)
