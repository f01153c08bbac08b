"""Matrices that are not completely positive, and near misses that are."""

from fractions import Fraction

import numpy as np
import pytest
from bank import ring
from known_matrices import quadratic_form

import covopt
from covopt.completely_positive.certificate import CPStatus
from covopt.completely_positive.checking import verify_cp_rank
from covopt.completely_positive.exclusion import indefinite_comparison
from covopt.completely_positive.matrix import read_matrix
from covopt.exact.elimination import modular_rank, negative_direction
from covopt.exact.rank import exact_rank


def test_dominance_is_settled_without_rounding_or_elimination():
    """A path's EᵀE has a singular comparison matrix; one part in 10¹² less is indefinite."""
    n = 12
    laplacian = 2 * np.eye(n, dtype=int) + np.eye(n, k=1, dtype=int) + np.eye(n, k=-1, dtype=int)
    laplacian[0, 0] = laplacian[-1, -1] = 1
    assert indefinite_comparison(read_matrix(laplacian)) is None
    less = (laplacian * 10**12).tolist()
    less[5][5] -= 1
    found = indefinite_comparison(read_matrix(less))
    assert found.method == "comparison"


def test_a_component_decides_for_the_whole():
    A = np.zeros((8, 8))
    A[:3, :3] = 1.5
    A[3:, 3:] = ring(5, 1.7, 1.0)
    found = covopt.cp_rank(A)
    assert found.status is CPStatus.NOT_CP
    assert found.reasons[0].vertices == (3, 4, 5, 6, 7)
    assert all(check.ok for check in verify_cp_rank(found))
    v = np.random.default_rng(0).random(6)
    A = np.outer(v, v)
    A[0, 0] *= 1 - 1e-13  # rounding is no reason
    found = covopt.cp_rank(A)
    assert (found.status, found.lower) == (CPStatus.EXACT, 1)


@pytest.mark.parametrize("seed", range(20))
def test_exact_definiteness_against_eigenvalues(seed):
    rng = np.random.default_rng(seed)
    B = rng.integers(-3, 4, (int(rng.integers(1, 6)), 5))
    M = B.T @ B - (seed % 2) * np.diag(rng.integers(0, 2, 5))
    exact = [[Fraction(int(x)) for x in row] for row in M]
    vector = negative_direction(exact)
    smallest = np.linalg.eigvalsh(M.astype(float))[0]
    if vector is None:
        assert smallest > -1e-9
    else:
        assert quadratic_form(exact, vector) < 0
        assert smallest < 0
    assert exact_rank(exact) == modular_rank(M.tolist()) == np.linalg.matrix_rank(M)
    n, m, r = rng.integers(1, 8, 3)
    M = (rng.integers(-3, 4, (n, r)) * (rng.random((n, r)) < 0.5)) @ rng.integers(-3, 4, (r, m))
    assert modular_rank(M.tolist()) == exact_rank([[Fraction(int(e)) for e in row] for row in M])
