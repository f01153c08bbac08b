"""Floats at the edge of what is decided: a bound that holds for every matrix within the tolerance holds there too."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from covopt.completely_positive.checking import verify_cp_rank
from covopt.completely_positive.exclusion import is_negative, negative_entry, separated
from covopt.completely_positive.lower import rank_bound
from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.moment_model import moment_model
from covopt.completely_positive.moments import rigorous_value
from covopt.completely_positive.rank import cp_rank
from covopt.exact.rank import exact_rank, rank_at_least
from covopt.exact.singular import singular_values_between

TOL = 1e-9


def around(value, steps=200):
    """Doubles next to a number, on both sides."""
    return value + np.arange(-steps, steps + 1) * np.spacing(value)


def test_the_rank_of_every_matrix_within_the_tolerance():
    """[[1, a], [a, 1]] is within tol of a matrix of rank one, as soon as 1 − tol ≤ a + tol."""
    for entry in around(1.0 - 2.0 * TOL):
        found = rank_bound(SymmetricMatrix(np.array([[1.0, entry], [entry, 1.0]])), TOL)
        if 1 - Fraction(TOL) <= Fraction(float(entry)) + Fraction(TOL):
            assert found == 1
    apart = 1.0 - 2.0 * TOL - 1e-12
    assert rank_bound(SymmetricMatrix(np.array([[1.0, apart], [apart, 1.0]])), TOL) == 2


def test_a_negative_direction_of_every_matrix_within_the_tolerance():
    """With diagonal 2 the margin of v = (1, −1) is tol (√2 + √2)², a rational number."""
    v, margin = [Fraction(1), Fraction(-1)], 8 * Fraction(TOL)
    told = 0
    for entry in around(2.0 + 4.0 * TOL):
        matrix = SymmetricMatrix(np.array([[2.0, entry], [entry, 2.0]]))
        exact = 4 - 2 * Fraction(float(entry)) < -margin
        found = is_negative(matrix, v, TOL), separated(matrix, [[1, -1], [-1, 1]], TOL)
        assert exact or found == (False, False)
        told += found == (True, True)
    assert told > 150


def test_a_negative_entry_is_compared_without_rounding():
    for entry in around(np.sqrt(6.0) * TOL):
        found = negative_entry(SymmetricMatrix(np.array([[2.0, -entry], [-entry, 3.0]])), TOL)
        assert (found is not None) == (Fraction(float(entry)) ** 2 > 6 * Fraction(TOL) ** 2)


def test_a_factor_has_to_fit_the_tolerance_that_is_stated():
    B = np.random.default_rng(0).uniform(0.1, 1.0, (3, 3))
    found = cp_rank(B.T @ B, tol=1e-9, time_limit_s=5)
    assert all(check.ok for check in verify_cp_rank(found))
    (reading,) = found.readings
    bent = replace(found, tol=1e-14, readings=(replace(reading, factor=reading.factor * (1 + 2e-13)),))
    factor = next(check for check in verify_cp_rank(bent) if check.name == "factor")
    assert not factor.ok


def test_exact_entries_and_floats_are_the_same_matrix():
    found = cp_rank([[2, 1], [1, 2]])
    moved = np.nextafter(found.matrix.values, 3.0)
    bent = replace(found, matrix=SymmetricMatrix(moved, found.matrix.exact))
    assert verify_cp_rank(bent)[0].detail == "the exact entries differ from the floats"


def eigenvalues_below(matrix, level):
    """How many eigenvalues of a symmetric matrix of fractions are below a level: Sylvester's inertia."""
    n = len(matrix)
    left = [[matrix[i][j] - (level if i == j else 0) for j in range(n)] for i in range(n)]
    count = 0
    for k in range(n):
        if left[k][k] == 0:
            return None
        count += left[k][k] < 0
        for i in range(k + 1, n):
            factor = left[i][k] / left[k][k]
            left[i] = [a - factor * b for a, b in zip(left[i], left[k], strict=True)]
    return count


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5)])
def test_singular_values_are_not_believed_but_bounded(shape):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal(shape)
        A[:, -1] = A[:, 0] + 10.0 ** rng.uniform(-17, -1) * A[:, -1]
        low, n = singular_values_between(A)[0], min(shape)
        exact = [[Fraction(float(x)) for x in row] for row in (A if shape[0] <= shape[1] else A.T)]
        gram = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in exact] for a in exact]
        for k, value in enumerate(low):
            below = eigenvalues_below(gram, Fraction(float(value)) ** 2) if value > 0 else 0
            assert below is None or below <= n - 1 - k
        assert np.linalg.svd(A, compute_uv=False) == pytest.approx(low, rel=1e-9, abs=1e-12)
        assert rank_at_least(A) <= exact_rank(A)
        shifted = A + 2.0 ** rng.integers(0, 60)
        least = rank_at_least(shifted, beside_constants=True)
        first, *others = fractions(shifted)
        assert least <= exact_rank([[x - y for x, y in zip(row, first, strict=True)] for row in others])


def fractions(matrix):
    return [[Fraction(float(x)) for x in row] for row in matrix]


@pytest.mark.parametrize("level", [1, 2])
def test_no_dual_point_beats_the_rows_of_a_factor(level):
    """Whatever the dual, p rows are not excluded for a matrix that has a factor of p rows."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        B = rng.uniform(0, 1, (2, 3)) * (rng.uniform(size=(2, 3)) < 0.8) + 0.01
        A = B.T @ B
        model = moment_model(A / np.sqrt(np.outer(np.diag(A), np.diag(A))), level, "strong", 1e-12)
        for size in (1e-12, 1e-6, 1.0, 1e6, 1e12):
            z = size * rng.standard_normal(model.b.shape)
            z[: model.n_equal] = -np.abs(z[: model.n_equal])
            assert rigorous_value(model, z) <= 2.0
