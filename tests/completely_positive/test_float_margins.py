"""Floats at the edge of what is decided: a bound that holds for every matrix within the tolerance holds there too."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from covopt.completely_positive.certificate import verify_cp_rank
from covopt.completely_positive.exclusion import is_negative, negative_entry, separated
from covopt.completely_positive.lower import rank_bound
from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.rank import cp_rank

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
    rows = {"rows": (found.factor * (1 + 2e-13)).tolist()}
    reasons = tuple(replace(r, data=r.data | rows) if r.method == "factor" else r for r in found.reasons)
    bent = [
        check
        for check in verify_cp_rank(replace(found, tol=1e-14, reasons=reasons))
        if check.name == "factor"
    ]
    assert bent and not any(check.ok for check in bent)


def test_exact_entries_and_floats_are_the_same_matrix():
    found = cp_rank([[2, 1], [1, 2]])
    moved = np.nextafter(found.matrix.values, 3.0)
    bent = replace(found, matrix=SymmetricMatrix(moved, found.matrix.exact))
    assert verify_cp_rank(bent)[0].detail == "the exact entries differ from the floats"
