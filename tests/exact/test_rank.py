"""The rank rule: what is as small as rounding counts as zero, and what is clearly not does not."""

from fractions import Fraction

import numpy as np
import pytest

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
