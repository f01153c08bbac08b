"""The group master against a general cone solver, on the conditions of optimality."""

import cvxpy as cp
import numpy as np
import pytest

from covopt.solvers.group_master import _Scaling, solve_group_master
from covopt.solvers.interior_point import basis_of_centred


def instance(n, k, m, seed):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])
    neurons = rng.standard_normal((m, 3))
    return np.maximum(rows @ neurons.T, 0.0).T, rng.standard_normal((n, k))


def reference(atoms, targets, offset_cost):
    weights, offset = cp.Variable((len(atoms), targets.shape[1])), cp.Variable((1, targets.shape[1]))
    outputs, cost = atoms.T @ weights, cp.sum(cp.norm(weights, 2, axis=1))
    if np.isfinite(offset_cost):
        outputs = outputs + np.ones((len(targets), 1)) @ offset
        cost = cost + 0.5 * offset_cost * cp.sum_squares(offset)
    program = cp.Problem(cp.Minimize(cost), [outputs == targets])
    program.solve(solver="CLARABEL")
    return program.value


@pytest.mark.parametrize("offset_cost", [np.inf, 2.0, 0.0])
@pytest.mark.parametrize(("n", "k", "m"), [(8, 2, 60), (12, 4, 100), (6, 7, 60)])
def test_against_clarabel(n, k, m, offset_cost):
    atoms, targets = instance(n, k, m, n)
    found = solve_group_master(atoms, targets, np.zeros((n, k)), offset_cost=offset_cost, tol=1e-9)
    penalty = 0.5 * offset_cost * found.offset @ found.offset if 0 < offset_cost < np.inf else 0.0
    primal = np.linalg.norm(found.weights, axis=1).sum() + penalty
    dual = np.vdot(found.dual, targets) - penalty
    assert primal == pytest.approx(dual, rel=1e-8)
    assert primal == pytest.approx(reference(atoms, targets, offset_cost), rel=1e-6)
    shift = found.offset if np.isfinite(offset_cost) else 0.0
    assert np.abs(atoms.T @ found.weights + shift - targets).max() < 1e-7
    assert np.linalg.norm(atoms @ found.dual, axis=1).max() < 1.0
    assert (found.masses >= np.linalg.norm(found.weights, axis=1)).all()
    if offset_cost == 0:
        assert np.abs(found.dual.sum(axis=0)).max() < 1e-9
    # complementarity: a neuron in use has its output along Λᵀa, of norm one
    used = np.linalg.norm(found.weights, axis=1) > 1e-3 * found.masses.max()
    units = found.weights[used] / np.linalg.norm(found.weights[used], axis=1, keepdims=True)
    assert np.abs((atoms @ found.dual)[used] - units).max() < 1e-3


def test_a_warm_start_ends_at_the_same_value_in_fewer_steps():
    atoms, targets = instance(12, 3, 150, 0)
    cold = solve_group_master(atoms, targets, np.zeros((12, 3)), tol=1e-8)
    warm = solve_group_master(
        atoms, targets, 0.999 * cold.dual, tol=1e-8, weights=cold.weights, masses=cold.masses
    )
    value = np.vdot(cold.dual, targets)
    assert np.vdot(warm.dual, targets) == pytest.approx(value, rel=1e-7)
    assert warm.steps < cold.steps


def test_a_deadline_in_the_past_stops_at_once():
    atoms, targets = instance(8, 2, 60, 1)
    assert solve_group_master(atoms, targets, np.zeros((8, 2)), deadline=0.0).steps == 1


def test_the_scaling_maps_the_dual_to_the_scaled_point():
    rng = np.random.default_rng(0)
    u = 0.5 * rng.standard_normal((20, 3)) / np.sqrt(3)
    u /= np.maximum(1.0, 1.1 * np.linalg.norm(u, axis=1, keepdims=True))
    v = rng.standard_normal((20, 3))
    tau = np.linalg.norm(v, axis=1) * (1 + rng.random(20))
    scaling = _Scaling(u, tau, v)
    s0, s1 = scaling.invert(np.ones(20), u)  # W⁻¹ s = W z
    np.testing.assert_allclose(s0, scaling.l0, rtol=1e-10)
    np.testing.assert_allclose(s1, scaling.l1, atol=1e-10)
    back0, back1 = scaling.apply(*scaling.invert(tau, v))
    np.testing.assert_allclose(back0, tau, rtol=1e-10)
    np.testing.assert_allclose(back1, v, atol=1e-10)
    x0, x1 = scaling.divide(tau, v)  # λ ∘ x = d
    np.testing.assert_allclose(scaling.l0 * x0 + np.sum(scaling.l1 * x1, axis=1), tau, rtol=1e-9)
    np.testing.assert_allclose(scaling.l0[:, None] * x1 + x0[:, None] * scaling.l1, v, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_basis_of_centred_vectors(n):
    basis = basis_of_centred(n)
    assert basis.shape == (n, n - 1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n - 1), atol=1e-14)
    assert np.abs(basis.sum(axis=0)).max(initial=0.0) < 1e-14
