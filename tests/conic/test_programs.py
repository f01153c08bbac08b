"""Programs over all cells, dual points of the semidefinite relaxation beside known optima, and their backends."""

import os
import subprocess
import sys
import textwrap

import cvxpy as cp
import numpy as np
import pytest

import covopt
from covopt.conic.programs import BACKENDS, relaxed_dual, resolve_backend, run_backend
from covopt.oracles.support import bound_gauge
from covopt.problems.problem import Problem


def bound(problem, **options):
    dual = relaxed_dual(problem, **options)
    return problem.scale_dual(dual, bound_gauge(problem.rows, dual).value)[1]


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
    rng = np.random.default_rng(3)
    rows, targets = rng.standard_normal((11, 2)), rng.standard_normal(11)
    weights = np.arange(len(rows), dtype=float)
    dual = relaxed_dual(Problem.through(rows, targets), weights=weights)
    assert not dual[:3].any()
    assert dual[3:].all()


def tiny_problem():
    point = cp.Variable(2)
    return cp.Problem(cp.Minimize(cp.norm(point, 2)), [point[0] + point[1] == 1])


def test_tolerance_is_raised_to_what_the_backend_can_do():
    assert BACKENDS["SCS"](1e-15, None)["eps_abs"] == 1e-8
    assert BACKENDS["CLARABEL"](1e-7, 3.0) == {
        "tol_gap_abs": 1e-7,
        "tol_gap_rel": 1e-7,
        "tol_feas": 1e-7,
        "max_iter": 500,
        "time_limit": 3.0,
    }
    nested = BACKENDS["MOSEK"](1e-9, 3.0)
    assert nested["mosek_params"]["MSK_DPAR_OPTIMIZER_MAX_TIME"] == 3.0


def test_limit_is_a_status_and_says_so():
    problem = tiny_problem()
    run_backend(problem, resolve_backend("CLARABEL"), tol=1e-9, max_iter=1)
    assert problem.status == "user_limit"


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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
