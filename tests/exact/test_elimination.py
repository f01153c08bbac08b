"""Elimination in integers against fractions, and ranks: what is as small as rounding counts as zero, all else not."""

from fractions import Fraction

import numpy as np
import pytest

from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.exact.elimination import (
    integer_row,
    integer_table,
    negative_direction,
    row_reduce,
)
from covopt.exact.rank import (
    ATOMS,
    COMPUTED,
    FOUND,
    exact_rank,
    null_space,
    numerical_rank,
    of_given,
    rank_at_least,
    row_span,
)


def tables():
    """Products of small integers, so that ranks are low: as fractions, integers, doubles of all sizes."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        m, n, r = rng.integers(1, 6, 3)
        product = rng.integers(-3, 4, (m, r)) @ rng.integers(-3, 4, (r, n))
        scale = [Fraction(int(a), int(b)) for a, b in rng.integers(1, 9, (m, 2))]
        noisy = product + 0.1 * rng.integers(0, 2, product.shape)
        yield [[s * int(x) for x in row] for s, row in zip(scale, product, strict=True)]
        yield from (product, noisy, np.ldexp(noisy, rng.integers(-60, 60, (m, 1))))


@pytest.mark.parametrize("table", list(tables()))
def test_echelon_form_and_rank_in_fractions(table):
    """The columns but for the last one: rows are combinations of it, beside what is left of the last one."""
    columns = len(table[0]) - 1
    found, pivots = row_reduce(table, columns)
    k, left = len(pivots), False
    assert all([row[p] for row in found[:k]] == [i == j for i in range(k)] for j, p in enumerate(pivots))
    assert all(not any(row[:p]) for row, p in zip(found, pivots, strict=False))
    assert pivots == sorted(pivots) and not any(any(row[:columns]) for row in found[k:])
    for row in table:
        given = np.array([Fraction(x) for x in row])
        rest = given - sum((given[p] * np.array(found[i]) for i, p in enumerate(pivots)), Fraction(0))
        assert not rest[:columns].any()
        left = left or bool(rest[-1])
    assert left == any(any(row) for row in found[k:])
    assert exact_rank(table) == k + left


def test_a_direction_is_found_where_one_is_negative_and_only_there():
    rng = np.random.default_rng(1)
    negative = 0
    for _ in range(60):
        n = int(rng.integers(1, 6))
        G = rng.integers(-2, 3, (n, n))
        M = G @ np.diag(rng.integers(-1 if rng.random() < 0.5 else 0, 2, n)) @ G.T
        scaled = [[Fraction(int(x), 3) for x in row] for row in M]
        v = negative_direction(scaled)
        if v is None:
            assert np.linalg.eigvalsh(M).min() > -1e-9
        else:
            negative += 1
            assert sum(v[i] * v[j] * scaled[i][j] for i in range(n) for j in range(n)) < 0
    assert 10 < negative < 50


def test_numbers_of_every_kind_become_integers():
    mixed = [0.25, np.float64(0.5), np.int64(3), 2, Fraction(1, 3)]
    assert integer_row(mixed) == ([3, 6, 36, 24, 4], 12)
    assert integer_table([[], []]) == ([[], []], 1)
    with pytest.raises((ValueError, OverflowError)):
        integer_row([np.inf])


def test_slacks_in_doubles_and_in_integers_have_the_same_signs():
    rng = np.random.default_rng(2)
    for _ in range(20):
        n = int(rng.integers(1, 5))
        A = rng.integers(0, 4, (n, n))
        A = A + A.T + np.diag(rng.integers(0, 9, n))
        d = [Fraction(int(a), int(b)) for a, b in rng.integers(1, 5, (n, 2))]
        exact = np.array([[Fraction(int(x)) for x in row] for row in A])
        big = 10**20 * exact
        plain = [2 * exact[i][i] * d[i] - sum(exact[i][j] * d[j] for j in range(n)) for i in range(n)]
        for matrix in (SymmetricMatrix(A.astype(float), exact), SymmetricMatrix(1e20 * A, big)):
            assert np.sign(matrix.slacks(d)).tolist() == [(x > 0) - (x < 0) for x in plain]


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_rounding_adds_no_direction_and_none_is_lost(rank, scale):
    rng = np.random.default_rng(rank)
    integers = rng.integers(-9, 10, (30, rank)) @ rng.integers(-9, 10, (rank, 6))
    assert exact_rank(integers.astype(float)) == rank
    rows = scale * (integers / 7.0)  # one rounding an entry
    assert len(row_span(rows)) == rank
    kernel = null_space(rows, COMPUTED)
    assert kernel.shape == (6, 6 - rank)
    assert np.abs(rows @ kernel).max(initial=0.0) <= 1e-12 * np.abs(rows).max()
    assert rank_at_least(rows) == rank


def test_every_share_separates_what_is_below_from_what_is_above():
    for share in (of_given((30, 6)), COMPUTED, ATOMS, FOUND):
        assert numerical_rank(np.array([5.0, 5.0 * share * 1.01, 5.0 * share * 0.99]), share) == 2
    assert of_given((30, 6)) < COMPUTED < ATOMS < FOUND
    assert numerical_rank(np.zeros(0), FOUND) == numerical_rank(np.zeros(3), FOUND) == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_safe_rank_is_never_above_the_exact_one(seed):
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((7, 1)) * 10.0 ** rng.integers(-18, 18)
    near = first * (
        1 + 2.0**-52 * rng.integers(-3, 4, (7, 3))
    )  # parallel but for a few units in the last place
    assert 1 == rank_at_least(near) <= exact_rank(near)
    assert rank_at_least(near, beside_constants=True) <= 1


def test_the_exact_rank_knows_doubles_from_decimals():
    assert exact_rank(np.array([[0.1, 0.3], [0.3, 0.9]])) == 2
    assert exact_rank([[Fraction(1, 10), Fraction(3, 10)], [Fraction(3, 10), Fraction(9, 10)]]) == 1
    assert exact_rank([]) == exact_rank(np.zeros((3, 2))) == 0
    rows = np.eye(5)[[0, 1, 1, 0, 4]]
    assert exact_rank(rows) == exact_rank(rows.T) == 3
