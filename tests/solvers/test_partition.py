"""Relaxed neurons as columns: activations enclose the true ones, and the dual that results proves more."""

import numpy as np
import pytest

from covopt.oracles.cones.moments import Box, quadratic_gauge
from covopt.oracles.local_search import LocalSearchOracle
from covopt.problems.regularised import constant_dual
from covopt.solvers.regularised.partition import relaxed_activations, towards_provable
from tests.solvers.test_regularised_heuristic import instance


@pytest.mark.parametrize("seed", range(5))
def test_activations_enclose_those_of_every_neuron_in_the_box(seed):
    random = np.random.default_rng(seed)
    r, n = 4, 30
    rows = random.standard_normal((n, r))
    centre, width = np.array([-1.0, 0.25, -0.5, 0.0]), np.array([0.0, 0.25, 0.5, 1.0])
    u = centre + width * random.uniform(-1.0, 1.0, r)
    w = u / np.linalg.norm(u)
    true = np.maximum(rows @ w, 0.0)
    for sign, dual in ((1.0, np.ones(n)), (-1.0, -np.ones(n)), (1.0, -np.ones(n))):
        box = Box(
            1.0,
            sign,
            0,
            -1.0,
            centre,
            width,
            w,
            np.outer(w, w),
            np.zeros(r),
            np.zeros(1),
            np.zeros((n, 4)),
            0,
        )
        found = relaxed_activations(rows, dual, box)
        assert np.all((found - true) * sign * dual >= -1e-12)
        assert np.abs(found).max() < 10.0


def test_the_dual_that_comes_back_proves_no_less():
    problem = instance("squared", 40, 9, lam=2e-3)
    dual = problem.project_dual(constant_dual(problem))
    search = LocalSearchOracle(problem.rows, random_state=0, n_starts=64)
    neurons = search.search(dual[:, 0], max_neurons=40).neurons
    moved = towards_provable(problem, dual, neurons, boxes=200, rounds=2)

    def proved(point):
        gauge = quadratic_gauge(problem.rows, point[:, 0], max_nodes=400).upper_bound
        return problem.scale_dual(point, gauge)[1]

    assert moved.shape == dual.shape
    assert proved(moved) >= proved(dual) * (1 - 1e-9)
