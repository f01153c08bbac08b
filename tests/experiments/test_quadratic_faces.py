"""Lower bounds of quadratic forms over the faces of orthants, against explicit points in fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from covopt.experiments.membership import minimise

KINDS = ("plain", "tied", "near zero", "small")


def exact_value(A, B, point):
    z = [Fraction(float(x)) for x in point]
    positive = [max(x, Fraction(0)) for x in z]
    form = sum(
        Fraction(float(matrix[i, j])) * v[i] * v[j]
        for matrix, v in ((A, z), (B, positive))
        for i, j in product(range(len(z)), repeat=2)
        if matrix[i, j]
    )
    return form / sum(x * x for x in z)


def problem(rng, kind):
    n = int(rng.integers(3, 5))
    A, B = rng.standard_normal((2, n, n))
    if kind == "tied":  # eigenvalues of multiplicity, up to rounding
        A = np.eye(n) * rng.integers(-1, 2) + 10.0 ** rng.uniform(-17, -9) * A
        B = np.zeros((n, n)) if rng.random() < 0.5 else -A
    if kind == "near zero":  # the lowest eigenvector lies beside the wall of a face
        direction = np.where(np.arange(n) == 0, 1.0, 10.0 ** rng.uniform(-16, -10))
        A = -np.outer(direction, direction)
    if kind == "small":
        B *= 10.0 ** rng.uniform(-17, -9)
    return 0.5 * (A + A.T), 0.5 * (B + B.T)


@pytest.mark.parametrize("kind", KINDS)
def test_no_point_is_below_a_bound(kind):
    rng, tight = np.random.default_rng(KINDS.index(kind)), 0
    for _ in range(12):
        A, B = problem(rng, kind)
        found = minimise(A, B)
        assert found.lower_bound <= found.values[0]
        points = np.concatenate([found.points[:8], rng.standard_normal((6, len(A))), np.eye(len(A))])
        for point in (*points, *-points):
            assert exact_value(A, B, point) >= Fraction(found.lower_bound)
        tight += found.lower_bound >= found.values[0] - 1e-7 * (np.linalg.norm(A) + np.linalg.norm(B))
    assert tight >= 9


def test_the_minimum_against_sampling_and_horns_matrix():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A, B = (m + m.T for m in rng.standard_normal((2, 4, 4)))
        found, z = minimise(A, B), rng.standard_normal((5000, 4))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        positive = np.maximum(z, 0)
        sampled = np.einsum("fn,nm,fm->f", z, A, z) + np.einsum("fn,nm,fm->f", positive, B, positive)
        assert found.lower_bound == pytest.approx(found.values[0], abs=1e-9)
        assert found.lower_bound <= found.values[0] + 1e-12 and found.values[0] <= sampled.min() + 1e-9
    horn = np.array(
        [[1.0 if min(abs(i - j), 5 - abs(i - j)) != 1 else -1.0 for j in range(5)] for i in range(5)]
    )
    assert -1e-9 <= minimise(np.zeros((5, 5)), horn).lower_bound <= 1e-9  # copositive, with zeros
