from itertools import pairwise

import numpy as np
import pytest

from covopt.representations import RepresentationProblem, projected_gradient_descent, stationarity
from tests.experiments.trained import random_weights, train


def simplex(lam=1e-2, **options):
    rng = np.random.default_rng(0)
    X = 2 * np.linalg.cholesky(1.2 * np.eye(5) - 0.2) + 0.05 * rng.standard_normal((5, 5))
    Y = np.eye(5) + 0.1 * rng.standard_normal((5, 5))
    return RepresentationProblem(X, Y, lam=lam, bias=0.0, **options)


@pytest.mark.parametrize("direction", ["along", pytest.param("plain", marks=pytest.mark.slow)])
def test_descent_is_monotone_and_ends_where_training_of_the_weights_is_stationary(direction):
    problem = simplex()
    W = random_weights(problem, (12,), 5, 0)
    Z = problem.to_representations(W)
    found = projected_gradient_descent(problem, Z, direction=direction, max_iter=3000, tol=1e-6)
    values = [record["objective"] for record in found.history]
    assert all(b < a for a, b in pairwise(values))
    assert (found.stop, found.n_iter) == ("stationary", len(found.history) - 1)
    assert found.message == "the projected gradient is within tol"
    assert stationarity(problem, found.representations).value <= 1e-6
    assert max(problem.defects(found.representations)) < 1e-10
    reached = [problem.weight_objective(train(problem, (12,), seed)[0]) for seed in range(2)]
    assert min(reached) * 0.99 < found.objective < max(reached) * 1.1
    assert problem.weight_objective(problem.to_weights(found.representations)) == pytest.approx(
        found.objective
    )


def test_moving_along_descends_where_the_plain_projection_is_stuck():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((12, 3))
    problem = RepresentationProblem(X, np.abs(X[:, :2]) - X[:, 1:], lam=1e-2)
    Z = problem.to_representations(random_weights(problem, (3, 3), 2, 3))
    start = problem.objective(Z)
    along = projected_gradient_descent(problem, Z, max_iter=200)
    plain = projected_gradient_descent(problem, Z, direction="plain", max_iter=200)
    assert along.objective < 0.5 * start
    assert plain.stop == "no_descent"
    assert along.objective < plain.objective <= start
    assert along.ranks[1].rank < 12


def test_interpolation_finds_the_minimal_norm_of_proposition_14():
    root = np.array([[2.0, 0.5, 0.3], [0.5, 1.5, 0.4], [0.3, 0.4, 1.0]])
    problem = RepresentationProblem(np.eye(3), root, bias=0.0)
    start = [np.abs(np.random.default_rng(0).standard_normal((3, 6))), root]
    found = projected_gradient_descent(problem, start, max_iter=4000, tol=1e-7)
    assert found.objective == pytest.approx(2 * np.trace(root), rel=1e-6)
    assert (found.representations[-1] == root).all()


def test_tikhonov_needs_no_projection_and_a_run_can_be_stopped():
    problem, rng = simplex(tikhonov=1e-3), np.random.default_rng(1)
    Z = [rng.standard_normal((5, 8)), rng.standard_normal((5, 5))]
    found = projected_gradient_descent(problem, Z, max_iter=400, tol=1e-5)
    values = [record["objective"] for record in found.history]
    assert all(b < a for a, b in pairwise(values)) and found.objective < 0.2 * values[0]
    assert found.ranks[0].tikhonov == 1e-3
    problem = simplex()
    Z = problem.to_representations(random_weights(problem, (6,), 5, 0))
    assert projected_gradient_descent(problem, Z, max_iter=0).history[0]["step"] == 0.0
    assert projected_gradient_descent(problem, Z, max_iter=3).stop == "max_iter"
    stopped = projected_gradient_descent(problem, Z, callback=lambda record: record["objective"] > 0)
    assert (stopped.stop, stopped.n_iter, stopped.message) == ("callback", 1, "stopped by the callback")
