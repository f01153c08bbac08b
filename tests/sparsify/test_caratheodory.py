import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.sparsify.reduction import caratheodory


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 40), st.integers(1, 12))
def test_same_outputs_no_higher_cost_few_columns(seed, n, m, rank):
    rng = np.random.default_rng(seed)
    atoms = np.maximum(rng.standard_normal((n, min(rank, n))) @ rng.standard_normal((min(rank, n), m)), 0)
    weights = rng.standard_normal(m) * (rng.random(m) < 0.9)
    fewer = caratheodory(atoms, weights)
    size = np.abs(atoms).sum() * max(1.0, np.abs(weights).max())
    np.testing.assert_allclose(atoms @ fewer, atoms @ weights, atol=1e-10 * max(size, 1.0))
    assert np.abs(fewer).sum() <= np.abs(weights).sum() * (1 + 1e-9) + 1e-12
    assert (fewer * weights >= 0).all(), "signs stay"
    assert np.count_nonzero(fewer) <= n
    assert np.count_nonzero(fewer) <= np.linalg.matrix_rank(atoms, tol=1e-9) + np.count_nonzero(
        np.abs(atoms).max(axis=0) == 0
    )


def test_independent_columns_stay():
    rng = np.random.default_rng(0)
    atoms, weights = rng.random((8, 5)), rng.standard_normal(5)
    np.testing.assert_array_equal(caratheodory(atoms, weights), weights)


def test_copies_collapse_onto_the_cheapest():
    fewer = caratheodory(np.array([[1.0, 2.0, 4.0]]), np.array([4.0, 2.0, 1.0]))
    assert np.count_nonzero(fewer) == 1
    assert fewer.sum() == pytest.approx(3.0)  # 12 = 4 · 3


def test_nothing_comes_from_nothing():
    assert caratheodory(np.zeros((3, 0)), np.zeros(0)).shape == (0,)
    assert not caratheodory(np.ones((3, 2)), np.zeros(2)).any()
