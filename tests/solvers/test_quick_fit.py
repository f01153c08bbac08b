"""Few neurons found greedily: never worse than the constant, close to the optimum, what large tables get in time."""

import numpy as np
import pytest

import covopt
from covopt.api.fit_task import FitTask
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.support import bound_gauge
from covopt.problems.regularised import best_constant
from covopt.solvers.regularised.quick import fit_quickly

OPTIONS = [
    ("squared", "none", 1),
    ("squared", "none", 2),
    ("huber", "penalized", 1),
    ("logistic", "free", 1),
    ("hinge", "none", 1),
    ("softmax-cross-entropy", "none", 3),
]


def _problem(loss, output_bias, q, n=40, lam=0.01):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 2)) * [1.0, 30.0] + [0.0, 2000.0]
    y = np.abs(X[:, 0]) + 0.01 * X[:, 1]
    if loss in ("logistic", "hinge"):
        y = y > np.median(y)
    elif q == 3:
        y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    elif q > 1:
        y = np.column_stack([y, X[:, 0]])
    task = FitTask(X, y, loss, 1.0, output_bias, None, "variation", "auto", 1e-4, None)
    return X, y, task.reduced(lam)[0]


@pytest.mark.parametrize(("loss", "output_bias", "q"), OPTIONS)
def test_better_than_the_constant_and_close_to_the_optimum(loss, output_bias, q):
    X, y, problem = _problem(loss, output_bias, q, n=40 if q == 1 else 20)
    point = fit_quickly(problem, time_limit_s=None, random_state=0)
    constant = best_constant(problem)
    n = len(problem.rows)
    nothing = problem.primal_value(np.tile(constant, (n, 1)), np.zeros((0, problem.n_outputs)), constant)
    fitted = problem.fitted(point.neurons, point.weights, point.offset)
    assert point.upper_bound == pytest.approx(problem.primal_value(fitted, point.weights, point.offset))
    assert 0 < len(point.neurons) <= n
    exact = covopt.fit(X, y, lam=0.01, loss=loss, output_bias=output_bias, tol=1e-2)
    share = (point.upper_bound * problem.strength - exact.lower_bound) / (
        nothing * problem.strength - exact.lower_bound
    )
    assert -1e-9 <= share < 0.35
    np.testing.assert_allclose(np.linalg.norm(point.neurons, axis=1), 1.0)


def test_no_time_is_one_neuron_that_is_better_than_none():
    _, _, problem = _problem("squared", "free", 1)
    point = fit_quickly(problem, time_limit_s=1e-9)
    assert len(point.neurons) == 1
    offset = best_constant(problem)
    none = problem.fitted(np.zeros((0, 3)), np.zeros((0, 1)), offset)
    assert point.upper_bound < problem.primal_value(none, np.zeros((0, 1)), offset)


def test_without_a_budget_nothing_is_searched():
    rng = np.random.default_rng(0)
    rows, dual = rng.standard_normal((200, 6)), rng.standard_normal(200)
    found = bound_gauge(rows, dual, budget=0.0)
    assert not found.exact
    assert found.value == pytest.approx(gauge_bound(rows, dual), rel=1e-6)


def test_a_table_beyond_reach_gets_neurons_and_a_bound():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(1990, 2021, 3000), rng.standard_normal((3000, 3))])
    y = np.abs(X[:, 1]) + 0.1 * (X[:, 0] - 2005)
    found = covopt.fit(X, y, lam=0.01, output_bias="free", time_limit_s=5.0)
    assert 0 < len(found.network) <= 60
    assert found.loss_value < 0.5 * np.var(y)
    assert 0.0 <= found.lower_bound <= found.objective


def test_one_proof_instead_of_all_faces_in_every_round():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 5)), rng.standard_normal(20)
    found = covopt.fit(X, y, lam="0.1max", tol=1e-5)
    assert found.status == "certified"
    assert found.solver == "column-generation with boxes"
    assert covopt.verify(found).ok
