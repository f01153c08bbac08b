"""Relaxed neurons as columns: activations enclose the true ones, and the dual that results proves more."""

import numpy as np
import pytest

from covopt.oracles.cones.cover import Cover, relaxed_activations
from covopt.oracles.cones.moments import Box, quadratic_gauge
from covopt.oracles.local_search import LocalSearchOracle
from covopt.problems.regularised import constant_dual
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.master.newton import solve_restricted
from covopt.solvers.master.objective import Fit, Interpolation
from covopt.solvers.partition import for_a_cover, towards_provable
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
            np.zeros(n, np.uint8),
            0,
        )
        found = relaxed_activations(rows, dual, box)
        assert np.all((found - true) * sign * dual >= -1e-12)
        assert np.abs(found).max() < 10.0


def test_a_cover_bounds_one_dual_after_the_other_and_forgets_boxes_that_are_cut():
    random = np.random.default_rng(0)
    rows, duals = random.standard_normal((25, 9)), random.standard_normal((3, 25))
    search = LocalSearchOracle(rows, random_state=0, n_starts=64)
    cover = Cover(rows, duals[0])
    for dual in duals:
        gauge = cover.bound(dual)
        assert gauge >= np.abs(search.search(dual, max_neurons=1).values).max()
        cover.price(dual)
        # a column is what a box takes for a neuron: hardly above the bound, and its dual hardly below it
        assert np.abs(cover.columns @ dual).max() <= gauge * (1 + 1e-6)
    coarse, columns = cover.bound(dual), len(cover.columns)
    cover.refine(dual, 60)
    assert len(cover.boxes) == 60 and len(cover.columns) < columns
    assert cover.bound(dual) < coarse


@pytest.fixture(scope="module")
def tight():
    """A problem, its first dual, and neurons that it is steep at."""
    problem = instance("squared", 40, 9, lam=2e-3)
    dual = problem.project_dual(constant_dual(problem))
    search = LocalSearchOracle(problem.rows, random_state=0, n_starts=64)
    return problem, dual, search.search(dual[:, 0], max_neurons=40).neurons


def test_the_dual_that_comes_back_proves_no_less(tight):
    problem, dual, neurons = tight
    moved = towards_provable(Fit(problem), dual, neurons, search_boxes=400, boxes=80)

    def proved(point):
        gauge = quadratic_gauge(problem.rows, point[:, 0], max_nodes=400).upper_bound
        return problem.scale_dual(point, gauge)[1]

    assert moved.shape == dual.shape
    assert proved(moved) >= proved(dual) * (1 - 1e-9)


def test_without_time_the_dual_stays(tight):
    problem, dual, neurons = tight
    assert for_a_cover(Fit(problem), dual, neurons, time_s=-1.0) is dual
    flat = ShallowProblem(np.eye(9), np.ones(9))  # its gauge is proved by the first cover
    view, dual = Interpolation(flat), np.ones((9, 1))
    assert for_a_cover(view, dual, np.ones((1, 9)) / 3.0) is dual


def test_a_network_that_interpolates_gets_a_dual_that_proves_more():
    random = np.random.default_rng(2)
    problem = ShallowProblem(random.standard_normal((30, 9)), random.standard_normal(30))
    neurons = random.standard_normal((300, 9))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    view = Interpolation(problem)
    dual = solve_restricted(view, problem.atoms(neurons).T, np.zeros((30, 1)), tol=1e-3).dual
    moved = for_a_cover(view, dual, neurons, boxes=72)

    def proved(point):
        gauge = quadratic_gauge(problem.rows, point[:, 0], max_nodes=200).upper_bound
        return problem.scale_dual(point[:, 0], gauge)[1]

    assert proved(moved) > 1.1 * proved(dual)
