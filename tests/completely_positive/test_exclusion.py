"""Matrices that are not completely positive, and near misses that are."""

import numpy as np
from bank import ring

import covopt
from covopt.completely_positive.certificate import CPStatus, verify_cp_rank
from covopt.completely_positive.exclusion import indefinite_comparison
from covopt.completely_positive.matrix import read_matrix


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
