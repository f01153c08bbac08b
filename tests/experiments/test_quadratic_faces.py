"""Lower bounds of quadratic forms over faces, against explicit points in fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from covopt.errors import BudgetError, InputError
from covopt.experiments.membership import Place, check_membership, cone_membership
from covopt.experiments.quadratic_faces import QuadraticFaces

KINDS = ("plain", "tied", "near zero", "cluster", "parallel", "axes")


def exact_value(rows, A, B, point):
    w = [Fraction(float(x)) for x in point]
    z = [sum((Fraction(float(a)) * b for a, b in zip(row, w, strict=True)), Fraction(0)) for row in rows]
    positive = [max(x, Fraction(0)) for x in z]
    form = sum(
        Fraction(float(matrix[i, j])) * v[i] * v[j]
        for matrix, v in ((A, z), (B, positive))
        for i, j in product(range(len(z)), repeat=2)
        if matrix[i, j]
    )
    return form / sum(x * x for x in w)


def problem(rng, kind):
    n, r = (4, 4) if kind == "axes" else (int(rng.integers(5, 7)), int(rng.integers(2, 4)))
    rows = np.eye(n) if kind == "axes" else np.linalg.qr(rng.standard_normal((n, r)))[0]
    A, B = rng.standard_normal((2, n, n))
    if kind == "tied":  # eigenvalues of multiplicity, up to rounding
        A = np.eye(n) * rng.integers(-1, 2) + 10.0 ** rng.uniform(-17, -9) * A
        B = np.zeros((n, n)) if rng.random() < 0.5 else -A
    if kind == "near zero":  # the lowest eigenvector lies beside the wall of a face
        direction = rows @ np.where(np.arange(r) == 0, 1.0, 10.0 ** rng.uniform(-16, -10))
        A = -np.outer(direction, direction)
    if kind == "cluster":
        rows[1] = rows[0] + 10.0 ** rng.uniform(-15, -5) * rng.standard_normal(r)
    if kind == "parallel":
        rows[1], rows[2] = -0.3 * rows[0], 0.0
    return rows, 0.5 * (A + A.T), 0.5 * (B + B.T)


@pytest.mark.parametrize("kind", KINDS)
def test_no_point_is_below_a_proved_bound(kind):
    rng, proved, tight = np.random.default_rng(KINDS.index(kind)), 0, 0
    for _ in range(12):
        rows, A, B = problem(rng, kind)
        faces = QuadraticFaces(rows)
        found = faces.minimise(A, B)
        assert found.lower_bound <= found.values[0]
        if not faces.proved:
            continue
        proved += 1
        w = np.concatenate([found.points[:8], rng.standard_normal((6, rows.shape[1])), np.eye(rows.shape[1])])
        for point in (*w, *-w):
            assert exact_value(rows, A, B, point) >= Fraction(found.lower_bound)
        sizes = np.linalg.norm(A) + np.linalg.norm(B)
        tight += found.lower_bound >= found.values[0] - 1e-7 * sizes * np.linalg.norm(rows) ** 2
    assert proved >= (2 if kind == "cluster" else 12)
    assert tight >= 0.75 * proved


def test_nearly_dependent_inputs_are_said_to_be():
    line = np.linspace(-1.0, 1.0, 4)
    X = np.column_stack([line, line**2, np.ones(4)])
    K = np.eye(4) @ X @ X.T
    found = cone_membership(K, 2.0 * K, X=X)
    assert found.status is Place.OUT
    assert found.proved
    assert check_membership(found, K, 2.0 * K, X=X)
    # on a grid three rows depend on each other exactly, their orthonormal images only to rounding
    grid = np.array([[i, j, 1.0] for i in range(3) for j in range(2)])
    K = grid @ grid.T
    found = cone_membership(K, 2.0 * K, X=grid)
    assert found.status is Place.OUT
    assert not found.proved


def test_a_budget_is_kept():
    with pytest.raises(BudgetError, match="more than 100 faces"):
        QuadraticFaces(np.eye(6), budget=100)
    assert QuadraticFaces(np.eye(3)).n_faces == 26
    with pytest.raises(InputError, match="full column rank; received 1 lines in dimension 2"):
        QuadraticFaces(np.ones((3, 2)))
