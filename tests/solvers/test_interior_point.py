"""The restricted master against HiGHS and against its own optimality conditions."""

import numpy as np
import pytest
from scipy.optimize import linprog

from covopt.solvers.interior_point import Curvature, solve_master


def instance(seed, m=40, n=12):
    rng = np.random.default_rng(seed)
    atoms = np.maximum(rng.standard_normal((m, 3)) @ rng.standard_normal((3, n)), 0) + 1e-3 * rng.random(
        (m, n)
    )
    return atoms, rng.standard_normal(n)


def start_for(atoms, targets, free):
    start = targets - targets.mean() if free else targets.copy()
    return 0.5 * start / np.abs(atoms @ start).max()


def best_dual(atoms, targets, free):
    result = linprog(
        -targets, A_ub=np.concatenate([atoms, -atoms]), b_ub=np.ones(2 * len(atoms)),
        A_eq=np.ones((1, len(targets))) if free else None, b_eq=[0.0] if free else None,
        bounds=(None, None), method="highs",
    )  # fmt: skip
    return -result.fun


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("offset_cost", [np.inf, 0.0])
def test_the_value_is_the_linear_programs(seed, offset_cost):
    atoms, targets = instance(seed)
    free = offset_cost == 0
    point = solve_master(atoms, targets, start_for(atoms, targets, free), offset_cost=offset_cost, tol=1e-10)
    expected = best_dual(atoms, targets, free)
    assert np.abs(atoms @ point.dual).max() <= 1 + 1e-12
    assert targets @ point.dual == pytest.approx(expected, rel=1e-8)
    weights = point.plus - point.minus
    assert np.abs(weights).sum() == pytest.approx(expected, rel=1e-7)
    np.testing.assert_allclose(atoms.T @ weights + point.offset, targets, atol=1e-7)
    if free:
        assert abs(point.dual.sum()) <= 1e-10 * np.abs(point.dual).sum()
    else:
        assert point.offset == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("offset_cost", [0.1, 1.0, 30.0])
def test_a_penalised_offset_satisfies_its_conditions(seed, offset_cost):
    atoms, targets = instance(seed)
    point = solve_master(atoms, targets, start_for(atoms, targets, False), offset_cost=offset_cost, tol=1e-10)
    weights = point.plus - point.minus
    primal = np.abs(weights).sum() + 0.5 * offset_cost * point.offset**2
    dual = targets @ point.dual - point.dual.sum() ** 2 / (2 * offset_cost)
    assert np.abs(atoms @ point.dual).max() <= 1 + 1e-12
    np.testing.assert_allclose(atoms.T @ weights + point.offset, targets, atol=1e-7)
    assert point.offset * offset_cost == pytest.approx(point.dual.sum(), rel=1e-9, abs=1e-9)
    assert primal == pytest.approx(dual, rel=1e-7)


def test_curvature_holds_the_dual_near_its_centre():
    atoms, targets = instance(0)
    start = start_for(atoms, targets, False)
    centre = solve_master(atoms, targets, start, tol=1e-8).dual
    other = 0.7 * centre
    stiff = Curvature(1e4 * np.eye(len(targets)), other)
    held = solve_master(atoms, targets, start, tol=1e-8, curvature=stiff)
    assert np.abs(held.dual - other).max() < 1e-3
    loose = Curvature(1e-6 * np.eye(len(targets)), other)
    free = solve_master(atoms, targets, start, tol=1e-8, curvature=loose)
    assert targets @ free.dual == pytest.approx(targets @ centre, rel=1e-6)


def test_a_warm_start_ends_at_the_same_value():
    atoms, targets = instance(3)
    start = start_for(atoms, targets, False)
    cold = solve_master(atoms, targets, start, tol=1e-9)
    warm = solve_master(atoms, targets, 0.99 * cold.dual, tol=1e-9, plus=cold.plus, minus=cold.minus)
    assert targets @ warm.dual == pytest.approx(targets @ cold.dual, rel=1e-7)
    assert warm.steps <= cold.steps


def test_a_loose_tolerance_stops_early_and_stays_feasible():
    atoms, targets = instance(4)
    start = start_for(atoms, targets, False)
    loose = solve_master(atoms, targets, start, tol=1e-2)
    tight = solve_master(atoms, targets, start, tol=1e-10)
    assert loose.steps < tight.steps
    assert np.abs(atoms @ loose.dual).max() <= 1
    assert targets @ loose.dual <= targets @ tight.dual * (1 + 1e-9)


def test_free_offset_with_columns_that_span_only_together_with_the_constant():
    # AᵀDA is singular, the saddle-point system is not
    atoms = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    targets = np.array([2.0, -1.0, 0.5])
    point = solve_master(atoms, targets, np.array([0.3, -0.3, 0.0]), offset_cost=0.0, tol=1e-10)
    assert targets @ point.dual == pytest.approx(best_dual(atoms, targets, True), rel=1e-8)
    np.testing.assert_allclose(atoms.T @ (point.plus - point.minus) + point.offset, targets, atol=1e-7)
