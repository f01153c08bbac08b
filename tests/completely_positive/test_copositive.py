"""Exact copositivity: known matrices, the closed form for n = 3, witnesses, zeros."""

from fractions import Fraction
from fractions import Fraction as F
from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.completely_positive.exclusion import is_copositive_exact, scan_copositive
from tests.completely_positive.bank import HOFFMAN_PEREIRA, HORN, S7, quadratic_form


def symmetric(n: int, low: int, high: int):
    size = n * (n + 1) // 2
    return st.lists(st.integers(low, high), min_size=size, max_size=size).map(lambda x: fill(n, x))


def fill(n: int, entries: list[int]) -> list[list[int]]:
    matrix = [[0] * n for _ in range(n)]
    for i, j, value in zip(*np.triu_indices(n), entries, strict=True):
        matrix[i][j] = matrix[j][i] = value
    return matrix


@pytest.mark.parametrize("S", [HORN, HOFFMAN_PEREIRA, S7], ids=["horn", "hoffman-pereira", "bomze"])
def test_exceptional_matrices_sit_on_the_boundary(S):
    scan = scan_copositive(S)
    assert scan.copositive
    assert scan.witness is None
    assert all(quadratic_form(S, u) == 0 for u in scan.zeros)
    assert np.linalg.eigvalsh(np.array(S, dtype=float))[0] < -0.1
    n = len(S)
    touched = {(i, j) for u in scan.zeros for i in range(n) for j in range(n) if u[i] and u[j]}
    for i, j in touched:
        lowered = [[Fraction(x) for x in row] for row in S]
        lowered[i][j] -= Fraction(1, 10**9)
        lowered[j][i] = lowered[i][j]
        below = scan_copositive(lowered)
        assert not below.copositive
        assert quadratic_form(lowered, below.witness) < 0


@given(st.lists(st.integers(-15, 15), min_size=3, max_size=3))
def test_closed_form_for_three(entries):
    a, b, c = (x / 10 for x in entries)
    if min(a, b, c) < -1:
        expected = False
    else:
        value = 1 + a + b + c + sqrt(2 * (1 + a) * (1 + b) * (1 + c))
        if abs(value) < 1e-9:
            return
        expected = value > 0
    x, y, z = entries
    assert is_copositive_exact([[10, x, y], [x, 10, z], [y, z, 10]]) is expected


@given(symmetric(4, -4, 6))
def test_against_a_grid(S):
    scan = scan_copositive(S)
    grid = np.array(list(product(range(5), repeat=4)))
    lowest = np.einsum("ki,ij,kj->k", grid, np.array(S), grid).min()
    if scan.copositive:
        assert lowest >= 0
        assert all(quadratic_form(S, u) == 0 and min(u) >= 0 for u in scan.zeros)
    else:
        assert min(scan.witness) >= 0
        assert quadratic_form(S, scan.witness) < 0


@given(symmetric(5, -2, 3), st.permutations(range(5)), st.lists(st.integers(1, 4), min_size=5, max_size=5))
def test_permutation_and_scaling(S, order, scale):
    moved = [[S[i][j] * scale[i] * scale[j] for j in order] for i in order]
    first, second = scan_copositive(S), scan_copositive(moved)
    assert first.copositive == second.copositive
    assert len(first.zeros) == len(second.zeros)
    assert first.isolated == second.isolated


def test_minimal_zeros_and_whether_they_are_isolated():
    scan = scan_copositive(HORN)
    assert set(scan.zeros) == {tuple(int(k in (i, (i + 1) % 5)) for k in range(5)) for i in range(5)}
    assert not scan.isolated
    scan = scan_copositive(S7)
    assert len(scan.zeros) == 14 and scan.isolated
    assert {(9, 17, 9, 0, 0, 0, 0), (3, 3, 0, 0, 1, 0, 0)} <= set(scan.zeros)
    for u, v in combinations(scan.zeros, 2):
        assert quadratic_form(S7, [a + b for a, b in zip(u, v, strict=True)]) > 0
    scan = scan_copositive([[1, -1, 0], [-1, 1, 0], [0, 0, 0]])
    assert set(scan.zeros) == {(1, 1, 0), (0, 0, 1)} and not scan.isolated


def test_small():
    fine = (
        [[0]],
        [[0, 0], [0, 0]],
        [[0, 1], [1, 0]],
        [[1, -1], [-1, 1]],
        [[F(1, 4), F(-1, 6)], [F(-1, 6), F(1, 9)]],
    )
    for S in fine:
        assert is_copositive_exact(S)
    for S in ([[-1]], [[0, -1], [-1, 0]], [[0, -1], [-1, 5]], [[1, -1], [-1, 1 - 2**-50]]):
        assert not is_copositive_exact(S)
