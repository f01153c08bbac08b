"""Outputs to twice the digits, of points far from the origin."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import covopt
from covopt.exact.outputs import misses, offset_of


def test_targets_whose_squares_no_double_holds():
    """A third of a second apart in microseconds since 1970: no crash, and what is stated holds."""
    inputs = np.array([1.7e15, 1700000000356390.2, 1700000000712780.5])
    targets = np.array([-2.7e149, -7.5e149, -2.5e149])
    solution = covopt.min_norm(inputs[:, None], targets, output_bias="free")
    assert solution.status.code in ("certified", "gap")
    assert covopt.verify(solution).ok


def test_outputs_to_twice_the_digits_are_those_of_fractions():
    rng = np.random.default_rng(1)
    lifted = np.column_stack([1.7e18 + rng.integers(0, 2**20, 6), rng.standard_normal(6), np.ones(6)])
    hidden = rng.standard_normal((5, 3))
    hidden[:, 2] = (
        rng.standard_normal(5) - 1.7e18 * hidden[:, 0]
    )  # heights are small differences of large products
    weights, targets, bias = rng.standard_normal((5, 2)), rng.standard_normal((6, 2)), rng.standard_normal(2)
    offset = offset_of(0.1, bias)
    found = misses(lifted, hidden, weights, offset, targets)
    for z, y, row in zip(lifted, targets, found, strict=True):
        heights = [max(0, sum(Fraction(a) * Fraction(b) for a, b in zip(z, w, strict=True))) for w in hidden]
        for k in range(2):
            true = sum(h * Fraction(v) for h, v in zip(heights, weights[:, k], strict=True))
            true += Fraction(0.1) * Fraction(bias[k]) - Fraction(y[k])
            assert abs(Fraction(row[k]) - true) <= abs(true) / 2**48
    doubles = np.maximum(lifted @ hidden.T, 0.0) @ weights + 0.1 * bias - targets
    assert np.abs(doubles - found).max() > 1.0  # what they are computed with twice the digits for
