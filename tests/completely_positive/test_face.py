"""Exact copositivity, and the face certificate: published CP-ranks, witnesses, mutations, matrices without one."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from covopt.completely_positive.exclusion import is_copositive_exact, scan_copositive
from covopt.completely_positive.face import check_face_certificate, face_certificate, inner, separate
from covopt.completely_positive.factorisation import atoms_needed, fewest_atoms
from covopt.completely_positive.matrix import read_matrix
from tests.cases import cases
from tests.completely_positive.bank import (
    HOFFMAN_PEREIRA,
    HORN,
    M7,
    M7_TILDE,
    M8,
    M9,
    M11,
    NOT_CP,
    S7,
    quadratic_form,
    twelve,
)


def symmetric(n: int, low: int, high: int):
    entries = arrays(np.int64, (n, n), elements=st.integers(low, high))
    return entries.map(lambda A: (np.triu(A) + np.triu(A, 1).T).tolist())


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


# -------- the face certificate: published CP-ranks, exact checks, mutations, matrices without one.
@pytest.fixture(scope="module")
def found():
    return face_certificate(M7)


@pytest.mark.parametrize(
    ("A", "rank", "n_zeros"),
    [
        (M7, 14, 14),
        (M7_TILDE, 14, 14),
        (M8, 18, 18),
        (M9, 26, 27),
        pytest.param(M11, 32, 33, marks=pytest.mark.slow),
        pytest.param(twelve(), 37, 64, marks=pytest.mark.slow),
    ],
    ids=["M7", "M7~", "M8", "M9", "M11", "M12"],
)
def test_published_ranks(A, rank, n_zeros):
    certificate = face_certificate(A)
    assert (certificate.lower, certificate.upper) == (rank, rank)
    assert len(certificate.zeros) == n_zeros
    assert certificate.factor.shape == (rank, len(A))
    assert (certificate.factor >= 0).all()
    assert np.abs(certificate.factor.T @ certificate.factor - np.array(A)).max() < 1e-12 * np.max(A)
    assert inner(A, certificate.S) == 0
    assert check_face_certificate(A, certificate) == []


def _with(rows, i, j, value):
    changed = [list(row) for row in rows]
    changed[i][j] = changed[j][i] = value
    return tuple(map(tuple, changed))


@pytest.mark.parametrize(
    ("mutate", "claim"),
    cases("changes of a face's certificate, and what is said", Fraction=Fraction, _with=_with, replace=replace),
)  # fmt: skip
def test_mutations_are_rejected(found, mutate, claim):
    assert any(claim in violated for violated in check_face_certificate(M7, mutate(found)))


def test_exact_entries_are_never_rounded(found):
    near = [[Fraction(x) for x in row] for row in M7]
    near[0][0] += Fraction(1, 2**60)
    assert face_certificate(near) is None
    differs = "Σ w_k u_k u_kᵀ differs from A at [0, 0]"
    assert check_face_certificate(near, found) == ["⟨A, S⟩ is not zero", differs]
    assert check_face_certificate(np.array(near, dtype=float), found) == []  # 2⁻⁶⁰ is no part of a double


def test_without_a_certificate(caplog):
    caplog.set_level("INFO", logger="covopt.completely_positive.face")
    assert face_certificate(np.eye(4) + 1) is None
    assert "A is off the boundary" in caplog.text
    assert face_certificate(NOT_CP["nie"]) is None
    assert "not completely positive" in caplog.text
    B = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    caplog.clear()
    assert face_certificate(B.T @ B) is None  # (x₀ + x₁ − x₂ − x₃)² vanishes on it, and on a whole cone
    assert "the zeros of S are not isolated" in caplog.text


@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_nothing_separates_a_completely_positive_matrix(seed):
    rng = np.random.default_rng(seed)
    B = rng.integers(0, 3, (6, 5))
    A = B.T @ B + np.diag(np.all(B == 0, axis=0))
    assert separate(A) is None
    certificate = face_certificate(A)
    if certificate is not None:
        assert check_face_certificate(A, certificate) == []
        assert np.linalg.matrix_rank(A) <= certificate.lower <= 6 + int(np.all(B == 0, axis=0).sum())


def _fewest_by_brute_force(A: np.ndarray, atoms: np.ndarray) -> int:
    table = np.array([np.outer(u, u).ravel() for u in atoms]).T
    for size in range(1, len(atoms) + 1):
        for chosen in combinations(range(len(atoms)), size):
            part = table[:, chosen]
            weights, _, rank, _ = np.linalg.lstsq(part, A.ravel())
            if rank == size and weights.min() > -1e-9 and np.abs(part @ weights - A.ravel()).max() < 1e-8:
                return size
    raise AssertionError


@given(st.integers(0, 10**6))
def test_fewest_atoms_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    atoms = np.unique(rng.integers(0, 3, (8, 3)), axis=0)
    atoms = atoms[atoms.any(1)]
    chosen = rng.choice(len(atoms), size=min(4, len(atoms)), replace=False)
    A = sum(int(rng.integers(1, 4)) * np.outer(atoms[k], atoms[k]) for k in chosen)
    exact = read_matrix(A).fractions()
    expected = _fewest_by_brute_force(A.astype(float), atoms.astype(float))
    found = fewest_atoms(exact, atoms.tolist())
    lower = atoms_needed(exact, atoms.tolist())
    assert 1 <= lower <= sum(w > 0 for w in found) == expected
    table = np.array([np.outer(u, u).ravel() for u in atoms])
    assert np.linalg.matrix_rank(table) < len(atoms) or lower == expected
    assert sum(w * np.outer(u, u) for w, u in zip(found, atoms, strict=True)).tolist() == A.tolist()


def test_a_certificate_is_of_its_matrix_and_of_its_multiples_and_comes_back(found):
    assert [list(row) for row in found.S] == S7 and found.lower == found.upper  # as published
    weights = [w for w in found.weights if w > 0]
    assert len(weights) == 14 and all(w.denominator < 100 for w in weights)
    assert type(found).from_dict(found.to_dict()) == found
    assert face_certificate([[Fraction(x, 7) for x in row] for row in M7]).lower == 14
    for other, claim in (
        (M7_TILDE, "Σ w_k u_k u_kᵀ differs"),
        (np.eye(6), "S is not a symmetric matrix of order 6"),
    ):
        assert claim in check_face_certificate(other, found)[-1]
    ring = [[2, 1, 0, 1], [1, 2, 1, 0], [0, 1, 2, 1], [1, 0, 1, 2]]  # singular, with more rows than its rank
    certificate = face_certificate(ring)
    assert (np.linalg.matrix_rank(ring), certificate.lower, certificate.upper) == (3, 4, 4)
    assert set(certificate.zeros) == {(1, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1), (1, 0, 0, 1)}
    A = read_matrix([[2, 1], [1, 2]]).fractions()
    assert fewest_atoms(A, [(1, 0), (0, 1)]) is None is fewest_atoms(A, [])
    assert atoms_needed(A, [(1, 0), (0, 1)]) == 0


def test_separation():
    HORNED = [[6, 4, 1, 1, 4], [4, 6, 4, 1, 1], [1, 4, 6, 4, 1], [1, 1, 4, 6, 4], [4, 1, 1, 4, 6]]
    assert inner(HORNED, HORN) == 0 and separate(HORNED) is None
    # ⟨Horn, I⟩ > 0: a little less of the identity is still positive definite, and no longer completely positive
    for A in (*NOT_CP.values(), (np.array(HORNED) - 0.02 * np.eye(5)).tolist()):
        assert np.linalg.eigvalsh(np.array(A, dtype=float))[0] > -1e-12
        S = separate(A)
        assert inner(A, S) < 0 and is_copositive_exact(S)
