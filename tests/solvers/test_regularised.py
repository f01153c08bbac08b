"""The regularised problem: constants, units, the active set, and starts from what is near."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.data import Data
from covopt.exact.rank import FOUND
from covopt.losses import Huber, make_loss
from covopt.problems.problem import Problem
from covopt.problems.reduction import reduce_fit
from covopt.solvers import path_follower
from covopt.solvers.active_set import solve_sparse
from tests.cases import drawn

NAMES = ("squared", "huber", "logistic", "hinge", "squared-hinge", "softmax-cross-entropy")
BIASES = ("none", "penalized", "free")


def targets_for(name, n, rng):
    y = rng.standard_normal(n)
    y[:3] = [1.0, -1.0, 0.5]
    if name == "softmax-cross-entropy":
        return np.concatenate([[0, 1, 2], rng.integers(0, 3, n - 3)])
    return y if name in ("squared", "huber") else np.where(y > 0, 1.0, -1.0)


def reduced(name, lam, output_bias, seed=0, n=12, weighted=False):
    rng, X = drawn(seed, (n, 2))
    loss = make_loss(name)
    loss.encode_targets(targets_for(name, n, rng), rng.uniform(0.5, 2, n) if weighted else None)
    data = Data.validate(X, loss.targets, interpolates=False)
    return reduce_fit(data, loss, lam, output_bias)[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("output_bias", BIASES)
def test_the_best_constant(name, output_bias):
    problem = reduced(name, 1e-2, output_bias, weighted=True)
    B = problem.best_constant()
    n, q = len(problem.rows), problem.n_outputs

    def value(point):
        return problem.primal_value(np.tile(point, (n, 1)), np.zeros((0, q)), point)

    if output_bias == "none":
        assert not B.any()
        return
    rng = np.random.default_rng(0)
    for step in rng.standard_normal((20, q)):
        assert value(B) <= value(B + 1e-3 * step) * (1 + 1e-12)


@given(seed=st.integers(0, 10**6), delta=st.floats(1e-4, 10.0), price=st.sampled_from([0.0, 0.1, 10.0]))
@settings(max_examples=20, deadline=None)
def test_the_best_constant_of_the_huber_loss_in_the_tails(seed, delta, price):
    """With weights, or a small delta, no sample need be near the median, and the curvature vanishes there."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    loss = Huber(delta)
    loss.encode_targets(np.round(2.0 * rng.standard_normal(n), 1), 10.0 ** rng.uniform(-4, 0, n))
    problem = Problem(np.ones((n, 1)), loss, 1.0, offset_cost=price)

    def value(b):
        return problem.primal_value(np.full((n, 1), b), np.zeros((0, 1)), np.array([b]))

    ends = [loss.targets - delta, loss.targets + delta, np.linspace(-8.0, 8.0, 101)]
    least = min(value(b) for b in np.concatenate([np.ravel(e) for e in ends]))
    assert value(problem.best_constant()[0]) <= least + 1e-12 * max(1.0, least)


def test_targets_keep_their_units_and_rows_their_place():
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [3.0, 0.0]])
    loss = make_loss("squared")
    loss.encode_targets(100 * rng.standard_normal(4), [1, 1, 0, 1])
    data = Data.validate(X, loss.targets, bias=0.0, interpolates=False)
    problem, reduction = reduce_fit(data, loss, 0.1, "none")
    assert reduction.keep.tolist() == [0, 1, 3]
    assert reduction.target_scale == 1.0
    assert not problem.rows[0].any()
    np.testing.assert_array_equal(problem.loss.targets, loss.targets[[0, 1, 3]])


TOL = 1.01 * FOUND  # summed in another order


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


def test_a_column_that_nearly_depends_on_an_active_one_takes_its_place():
    atoms = np.array([[1.0, 0.0], [1.0, 1e-6]])
    targets = np.array([10.0, 1e5])
    found = solve_sparse(atoms, targets, np.array([9.0, 0.0]))
    check_optimal(atoms, targets, found)
    assert value(atoms, targets, found) <= value(atoms, targets, np.array([9.0, 0.0])) * (1 + 1e-12)


def table(loss, n=25, seed=0):
    rng, X = drawn(seed, (n, 2))
    y = rng.standard_normal(n) + 2.0 * np.maximum(X[:, 0], 0)
    return X, (y if loss == "squared" else np.where(y > 0.5, "b", "a"))


def parallel():
    """Repeated and parallel points, and rows of zeros."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.standard_normal((6, 2)), np.zeros((2, 2))])
    X = np.concatenate([X, X, 2.0 * X, -X])
    return X, rng.standard_normal(len(X))


@pytest.mark.parametrize(
    ("points", "options"),
    [(table("squared"), {"sample_weight": np.linspace(0.0, 3.0, 25)}), (parallel(), {"bias": 0.0})],
)
def test_every_point_of_a_path_is_the_optimum_found_from_scratch(points, options):
    for s in covopt.path(*points, n_lams=4, eps=1e-3, **options):
        assert s.status.code == "certified" and (s.history or not len(s.network))
        assert s.objective == pytest.approx(covopt.fit(*points, lam=s.lam, **options).objective, rel=2e-6)
        assert covopt.verify(s).ok


def test_when_the_rounds_do_not_help_the_interior_points_go_on(monkeypatch):
    X, y = table("squared")
    first = covopt.fit(X, y, lam=1e-2)
    monkeypatch.setattr(path_follower.PathFollower, "run", lambda self: False)
    found = covopt.fit(X, y, lam=5e-3, start=first)
    assert found.status.code == "certified"


def test_the_curvature_is_what_makes_the_last_rounds_few(monkeypatch):
    """Without it neurons in the interior of a face are approached by ever more columns."""
    X, y = table("squared", n=60, seed=5)
    curved = covopt.path(X, y, n_lams=8)
    monkeypatch.setattr(path_follower.PathFollower, "_curvature", lambda *_: None)
    plain = covopt.path(X, y, n_lams=8)
    assert sum(len(s.history) for s in curved) < sum(len(s.history) for s in plain)


def test_what_the_tolerance_just_allows_is_certified():
    """At 0.99 λ_max the gap of the constant is (1 − 0.99)²: rounding in the certificate must not refuse it."""
    rng = np.random.default_rng(3)
    for seed in range(8):
        X, y = np.random.default_rng(seed).standard_normal((9, 1)), rng.standard_normal(9)
        found = covopt.fit(X, y, lam=0.99 * covopt.lambda_max(X, y), tol=1e-4)
        assert found.status.code == "certified"


@pytest.mark.parametrize("start", [np.nan, 1e200])
def test_numbers_that_overflow_are_no_bounds(start):
    X, y = table("squared")
    first = covopt.fit(X, y, lam=1e-2)
    first.network.output_weights.setflags(write=True)
    first.network.output_weights[:] = start
    with np.errstate(all="ignore"):
        found = covopt.fit(X, y, lam=5e-3, start=first)
    assert found.status.code == "certified"
