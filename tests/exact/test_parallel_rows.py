"""Rows on one ray or line are found whatever their scale, and rows beside them are left alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.exact.parallel_rows import (
    LINE,
    RAY,
    first_of_each,
    group_by,
    group_equal_rows,
    group_rays,
    merge_lines,
)


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
        moved[0] *= 1 + 3 * RAY
        assert len(set(group_rays(np.stack([unit, moved]))[0])) == 2


def test_a_column_in_small_units_still_tells_rays_apart():
    rows = np.array([[1.0, 1e-20], [1.0, 2e-20], [2.0, 2e-20]])
    assert group_rays(rows)[0].tolist() == [2, 1, 2]


def test_overflow_and_zeros_are_no_trouble():
    rows = np.array([[1e300, -1e300], [1e-300, -1e-300], [0.0, 0.0]])
    assert group_rays(rows)[0].tolist() == [0, 0, -1]


@given(st.integers(0, 10_000))
def test_groups_are_those_of_comparing_every_pair(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 6, int(rng.integers(1, 30))) + 1e-3 * rng.random()
    key = np.floor(values / 3)  # items of one key need not be the same
    found = group_by(key, lambda i, j: values[i] == values[j], 0.5)
    assert found.tolist() == [values.tolist().index(v) for v in values.tolist()]
    assert group_equal_rows(values[:, None]).tolist() == found.tolist()


def test_the_first_of_each_is_kept_in_order():
    vectors = np.array([[0.6, 0.8], [1.0, -1e-12], [0.6 + 1e-12, 0.8], [1.0, 0.0], [1.0, 1e-6]])
    assert first_of_each(vectors).tolist() == [0, 1, 4]
    assert first_of_each(vectors, 5).tolist() == [0, 1]


def test_tiny_rows_are_lines_like_others():
    rows = np.array([[1.0, 2.0], [0.5, 1.0], [-3.0, 1.0]])
    small = np.array([1e-200, 1e-180, 1e-210])[:, None] * rows
    with np.errstate(all="raise", under="ignore"):
        lines, line_of, ratio = merge_lines(small)
    assert line_of.tolist() == merge_lines(rows)[1].tolist()
    assert np.allclose(ratio[:, None] * lines[line_of] / small, 1.0)
