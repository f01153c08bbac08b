"""Programs over all cells and over given neurons, dual points of the semidefinite relaxation, backends."""

import os
import sys

import numpy as np
import pytest
from scipy.optimize import linprog

import covopt
from covopt.conic.cell_lp import cell_lp
from covopt.conic.programs import relaxed_dual
from covopt.errors import Status
from covopt.oracles.certified import certified_dual_norm
from covopt.problems.problem import Problem
from tests.cases import drawn, normal, outside


def bound(problem, **options):
    dual = relaxed_dual(problem, **options)
    return problem.scale_dual(dual, certified_dual_norm(problem.rows, dual).value)[1]


def test_doubly_nonnegative_but_not_completely_positive():
    # the pentagon: the doubly nonnegative bound is Tr (YYᵀ)^{1/2} = 5, the optimum 5.033991
    steps = np.arange(5)
    problem = Problem.through(np.eye(5), np.cos(4 * np.pi * (steps[:, None] - steps) / 5) ** 2)
    assert 5.0 * (1 - 1e-6) <= bound(problem) <= 5.033992


@pytest.mark.parametrize("offset_cost", [0.0, 0.7])
def test_vector_offsets(offset_cost):
    rng = np.random.default_rng(9)
    rows, targets = rng.standard_normal((6, 3)), rng.standard_normal((6, 2)) + 1.0
    problem = Problem.through(rows, targets, offset_cost)
    assert 0.0 < bound(problem) <= bound(Problem.through(rows, targets)) * (1 + 1e-2)
    if offset_cost == 0.0:
        dual = relaxed_dual(problem)
        np.testing.assert_allclose(dual.sum(axis=0), 0.0, atol=1e-10 * np.abs(dual).sum())


def test_more_rows_than_may_carry_dual(monkeypatch):
    monkeypatch.setattr("covopt.conic.programs.MOST_ROWS", 8)
    rows, targets = normal(3, (11, 2), 11)
    weights = np.arange(len(rows), dtype=float)
    dual = relaxed_dual(Problem.through(rows, targets), weights=weights)
    assert not dual[:3].any()
    assert dual[3:].all()


FAKE_MOSEK = """
class MosekException(Exception): pass
class Error(MosekException): pass
class conetype: pexp = 0
class Task:
    created = 0
    def __init__(self):
        type(self).created += 1
        raise Error("rescode.err_missing_license_file(1008): License cannot be located.")
"""

SCRIPT = """
import warnings
import cvxpy, mosek, numpy as np
from covopt.problems.problem import Problem
from covopt.conic.programs import solve_conic
assert "MOSEK" in cvxpy.installed_solvers()
problem, cells = Problem.through(np.array([[2.0]]), np.array([3.0])), np.array([[True], [False]])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert solve_conic(problem, cells, backend="clarabel").backend == "CLARABEL"  # names in any case
    assert mosek.Task.created == 0
    assert {solve_conic(problem, cells, backend="MOSEK").backend for _ in range(2)} == {"CLARABEL"}
    assert mosek.Task.created == 1
ours = [w for w in caught if w.category.__name__ == "SolverFallbackWarning"]
assert len(ours) == 1, caught
assert all(part in str(ours[0].message) for part in ("MOSEK cannot", "License cannot be located", "CLARABEL takes"))
"""


def test_an_unlicensed_wheel_is_probed_once_and_never_picked(tmp_path):
    (tmp_path / "mosek.py").write_text(FAKE_MOSEK)
    root = os.path.dirname(os.path.dirname(covopt.__file__))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])}
    done = outside(sys.executable, "-c", SCRIPT, env=env)
    assert done.returncode == 0, done.stderr


def vertex_directions(X, bias=1.0):
    lifted = np.column_stack([X, np.full(len(X), bias)])
    pairs = [np.cross(a, b) for i, a in enumerate(lifted) for b in lifted[:i]]
    return np.array([sign * pair for pair in pairs for sign in (1, -1)])


def reference_ranges(atoms, y):
    """Min and max of each mass over {‖z‖₁ ≤ optimum, A z = y}, in split variables, by another code path."""
    n = atoms.shape[1]
    both = np.hstack([atoms, -atoms])
    best = linprog(np.ones(2 * n), A_eq=both, b_eq=y, method="highs").fun
    ranges = np.empty((n, 2))
    for s in range(n):
        for side, sense in ((0, 1.0), (1, -1.0)):
            objective = np.zeros(2 * n)
            objective[[s, n + s]] = sense, -sense
            bound = {"A_ub": np.ones((1, 2 * n)), "b_ub": [best * (1 + 1e-9)]}
            answer = linprog(objective, A_eq=both, b_eq=y, method="highs", **bound)
            ranges[s, side] = sense * answer.fun
    return best, ranges


@pytest.mark.parametrize("n_samples", [4, 7, pytest.param(10, marks=pytest.mark.slow)])
def test_cost_and_ranges_match_a_reference(n_samples):
    X, y = normal(n_samples, (n_samples, 2), n_samples)
    directions = vertex_directions(X)
    answer = cell_lp(X, y, directions)
    atoms = np.maximum(np.column_stack([X, np.ones(n_samples)]) @ answer.directions.T, 0)
    cost, ranges = reference_ranges(atoms, y)
    assert answer.solver == "HIGHS"
    assert answer.status is Status.CERTIFIED
    assert answer.cost == pytest.approx(cost, rel=1e-8)
    assert answer.lower_bound == pytest.approx(cost, rel=1e-8)
    assert np.abs(atoms.T @ answer.dual).max() <= 1 + 1e-12
    assert answer.residual <= 1e-9 * np.abs(y).max()
    np.testing.assert_allclose(answer.ranges, ranges, atol=1e-5 * cost)
    assert (answer.ranges[:, 0] <= answer.masses).all() and (answer.masses <= answer.ranges[:, 1]).all()
    assert answer.is_unique == (np.ptp(ranges, axis=1).max() < 1e-5 * cost)


def test_dependent_samples_and_far_units():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((5, 2)), 2, axis=0)
    y = np.repeat(rng.standard_normal(5), 2)
    directions = vertex_directions(X[::2])
    one = cell_lp(X, y, directions)
    assert one.status is Status.CERTIFIED
    same = cell_lp(1e6 * X, 1e-4 * y, directions, bias=1e6)
    assert same.cost == pytest.approx(1e-10 * one.cost, rel=1e-7)


def test_length_of_directions_does_not_matter():
    rng, X, y = drawn(1, (5, 2), 5)
    directions = vertex_directions(X)
    scaled = directions * 10.0 ** rng.integers(-200, 150, size=(len(directions), 1))
    one, other = cell_lp(X, y, directions), cell_lp(X, y, scaled)
    np.testing.assert_allclose(other.masses, one.masses, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(other.directions, axis=1), 1.0)
