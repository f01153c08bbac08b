"""The regularised problem: its constants, its units, and starts from what is near."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.data import Data
from covopt.losses import Huber, make_loss
from covopt.oracles.cascade import exact_oracle
from covopt.problems.problem import Problem
from covopt.problems.regularised import reduce_fit
from covopt.solvers.generation import Generation
from tests.cases import drawn, unit

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
@given(seed=st.integers(0, 1000), output_bias=st.sampled_from(BIASES))
def test_every_dual_point_is_a_bound(name, seed, output_bias):
    """Weak duality at random networks and duals."""
    rng = np.random.default_rng(seed)
    problem = reduced(name, 10.0 ** rng.uniform(-4, -1), output_bias, seed)
    n, q = len(problem.rows), problem.n_outputs
    dual = problem.project_dual(rng.standard_normal((n, q)))
    if output_bias == "free":
        assert np.abs(dual.sum(axis=0)).max() <= 1e-9 * max(1.0, np.abs(dual).max())
    oracle = exact_oracle(problem.rows, 0 if q == 1 else q)
    gauge = oracle.price(dual[:, 0] if q == 1 else dual).upper_bound
    scaled, lower = problem.scale_dual(dual, gauge)
    np.testing.assert_allclose(scaled * np.vdot(dual, dual), dual * np.vdot(scaled, dual), atol=1e-9)
    units = unit(rng.standard_normal((4, 3)))
    weights = rng.standard_normal((4, q)) * rng.uniform(0, 1)
    offset = rng.standard_normal(q) if problem.has_offset else np.zeros(q)
    assert lower <= problem.primal_value(problem.fitted(units, weights, offset), weights, offset) + 1e-9
    # the multiple is the best one
    for factor in (0.5, 0.9, 0.99):
        assert problem.dual_value(scaled * factor) <= lower + 1e-9 * (1 + abs(lower))


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


def test_a_warm_start_needs_fewer_steps():
    cold = reduced("squared", 1e-3, "none", n=30)
    oracle = exact_oracle(cold.rows, 0)
    first = Generation(reduced("squared", 1.1e-3, "none", n=30), oracle, tol=1e-6).solve()
    warm = Generation(cold, oracle, tol=1e-6, warm=first.warm).solve()
    plain = Generation(cold, oracle, tol=1e-6).solve()
    assert warm.status.code == plain.status.code == "certified"
    assert len(warm.history) < len(plain.history)
    assert warm.upper_bound == pytest.approx(plain.upper_bound, rel=2e-6)


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
