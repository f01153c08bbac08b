import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.solvers.regularised.active_set import VIOLATION, solve_sparse

TOL = 1.01 * VIOLATION  # summed in another order


def value(atoms, targets, weights):
    return 0.5 * float(np.square(targets - atoms.T @ weights).sum()) + float(np.abs(weights).sum())


def check_optimal(atoms, targets, weights):
    products = atoms @ (targets - atoms.T @ weights)
    assert np.abs(products).max() <= 1 + TOL
    used = weights != 0
    np.testing.assert_allclose(products[used], np.sign(weights[used]), atol=TOL)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_columns_in_pairs_and_repeated(seed):
    """σ(w·x) − σ(−w·x) is linear: pairs depend on one another as soon as there are more of them than inputs."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.standard_normal((12, 2)), np.ones(12)])
    units = rng.standard_normal((9, 3))
    units = np.concatenate([units, -units, units[:3]])
    atoms = np.ascontiguousarray(np.maximum(units @ rows.T, 0.0))
    targets = 30.0 * rng.standard_normal(12)
    check_optimal(atoms, targets, solve_sparse(atoms, targets))


@given(seed=st.integers(0, 10**6), share=st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_any_start_ends_at_the_same_value(seed, share):
    rng = np.random.default_rng(seed)
    atoms, targets = np.abs(rng.standard_normal((30, 10))), 20.0 * rng.standard_normal(10)
    start = np.where(rng.random(30) < share, rng.standard_normal(30), 0.0)
    cold, warm = solve_sparse(atoms, targets), solve_sparse(atoms, targets, start)
    check_optimal(atoms, targets, warm)
    assert value(atoms, targets, warm) == pytest.approx(value(atoms, targets, cold), rel=1e-9)


def test_nothing_to_do():
    assert not solve_sparse(np.eye(3), np.array([0.5, -0.9, 0.0])).any()
    assert not solve_sparse(np.zeros((2, 3)), np.ones(3)).any()
    assert solve_sparse(np.zeros((0, 3)), np.ones(3)).shape == (0,)


def test_a_column_that_nearly_depends_on_an_active_one_takes_its_place():
    atoms = np.array([[1.0, 0.0], [1.0, 1e-6]])
    targets = np.array([10.0, 1e5])
    found = solve_sparse(atoms, targets, np.array([9.0, 0.0]))
    check_optimal(atoms, targets, found)
    assert value(atoms, targets, found) <= value(atoms, targets, np.array([9.0, 0.0])) * (1 + 1e-12)
