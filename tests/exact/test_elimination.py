"""Elimination in integers, ranks, rows on one ray: what is as small as rounding counts as zero, all else not."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.data import Data
from covopt.exact.elimination import negative_direction, row_reduce
from covopt.exact.rank import (
    COMPUTED,
    LINE,
    exact_rank,
    group_by,
    group_equal_rows,
    group_rays,
    merge_lines,
    null_space,
    rank_at_least,
    row_span,
)
from covopt.exact.rounding import ROUNDING


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


@pytest.mark.parametrize("seed", range(20))
def test_the_safe_rank_is_never_above_the_exact_one(seed):
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((7, 1)) * 10.0 ** rng.integers(-18, 18)
    # parallel but for a few units in the last place
    near = first * (1 + 2.0**-52 * rng.integers(-3, 4, (7, 3)))
    assert 1 == rank_at_least(near) <= exact_rank(near)
    assert rank_at_least(near, beside_constants=True) <= 1
    for n in range(2, 12):  # whose mean is off by its rounding
        assert rank_at_least(np.full((n, 1), 0.1), beside_constants=True) == 0


# ---- rows on one ray or line are found whatever their scale, and rows beside them are left alone.
def multiples(seed, dimension):
    """Rows on few lines, each a rounded multiple of one direction, and the line of each."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    kinds = rng.integers(0, 5, n)
    directions = rng.standard_normal((5, dimension)) * 10.0 ** rng.integers(-6, 7, dimension)
    factors = rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-3, 3, n)
    return directions[kinds] * factors[:, None], kinds, factors


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 8, 60]))
def test_rounded_multiples_are_one_line_and_one_ray(seed, dimension):
    rows, kinds, factors = multiples(seed, dimension)
    lines, line_of, ratio = merge_lines(rows)
    assert ((line_of[:, None] == line_of) == (kinds[:, None] == kinds)).all()
    np.testing.assert_array_equal(lines, rows[[np.flatnonzero(line_of == g)[0] for g in range(len(lines))]])
    np.testing.assert_allclose(ratio[:, None] * lines[line_of], rows, rtol=1e-14)
    longest, share = group_rays(rows)
    alike = (kinds[:, None] == kinds) & ((factors > 0)[:, None] == (factors > 0))
    assert ((longest[:, None] == longest) == alike).all()
    np.testing.assert_allclose(share[:, None] * rows[longest], rows, rtol=1e-13)
    assert ((share > 0) & (share <= 1)).all()


@pytest.mark.parametrize("dimension", [2, 5])
def test_what_is_beside_a_line_or_a_ray_is_another_one(dimension):
    rng = np.random.default_rng(dimension)
    for _ in range(50):
        unit = rng.standard_normal(dimension)
        unit /= np.linalg.norm(unit)
        aside = rng.standard_normal(dimension)
        aside -= aside @ unit * unit
        aside /= np.linalg.norm(aside)
        pair = np.stack([unit, 3.0 * (unit + 3 * LINE * aside)])
        assert len(merge_lines(pair)[0]) == 2
        moved = unit.copy()
        moved[0] *= 1 + 3 * ROUNDING
        assert len(set(group_rays(np.stack([unit, moved]))[0])) == 2


@given(st.integers(0, 10_000))
def test_groups_are_those_of_comparing_every_pair(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 6, int(rng.integers(1, 30))) + 1e-3 * rng.random()
    key = np.floor(values / 3)  # items of one key need not be the same
    found = group_by(key, lambda i, j: values[i] == values[j], 0.5)
    assert found.tolist() == [values.tolist().index(v) for v in values.tolist()]
    assert group_equal_rows(values[:, None]).tolist() == found.tolist()


def test_tiny_rows_are_lines_like_others():
    rows = np.array([[1.0, 2.0], [0.5, 1.0], [-3.0, 1.0]])
    small = np.array([1e-200, 1e-180, 1e-210])[:, None] * rows
    with np.errstate(all="raise", under="ignore"):
        lines, line_of, ratio = merge_lines(small)
    assert line_of.tolist() == merge_lines(rows)[1].tolist()
    assert np.allclose(ratio[:, None] * lines[line_of] / small, 1.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 1.0]))
def test_rank_and_basis_do_not_depend_on_units(r, seed, bias):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, r)) @ rng.standard_normal((r, 5))
    units = 10.0 ** rng.integers(-60, 61, 5)
    data, scaled = (Data.validate(x, np.zeros(25), bias=bias) for x in (X, X * units))
    assert data.rank == scaled.rank == r + (bias > 0)
    assert np.allclose(scaled.basis.T @ scaled.basis, np.eye(scaled.rank), atol=1e-14)
    lifted = data.lifted
    assert np.allclose(lifted @ data.basis @ data.basis.T, lifted, atol=1e-12)
