import os
import subprocess
import sys
import textwrap
import warnings

import cvxpy as cp
import pytest

import covopt
from covopt.conic import backends
from covopt.conic.backends import BACKENDS, FALLBACKS, available_backends, resolve_backend, run_backend
from covopt.errors import SolverFallbackWarning, SolverUnavailableError


@pytest.fixture
def fresh(monkeypatch):
    """The process has not asked for anything yet; MOSEK does not answer."""
    monkeypatch.setattr(backends, "WARNED", set())

    def why(name):
        return "it is simulated to be unlicensed" if name in FALLBACKS else None

    monkeypatch.setattr(backends, "why_unavailable", why)


def tiny_problem():
    point = cp.Variable(2)
    return cp.Problem(cp.Minimize(cp.norm(point, 2)), [point[0] + point[1] == 1])


def test_fallback_warns_once(fresh):
    with pytest.warns(SolverFallbackWarning, match="MOSEK cannot be used: it is simulated.*CLARABEL"):
        assert resolve_backend("MOSEK") == "CLARABEL"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_backend("mosek") == resolve_backend("clarabel") == "CLARABEL"  # names in any case
        assert "MOSEK" not in available_backends()


def test_without_fallback_it_is_an_error(monkeypatch):
    monkeypatch.setattr(backends, "why_unavailable", lambda name: "gone" if name == "SCS" else None)
    with pytest.raises(SolverUnavailableError, match="SCS cannot be used: gone; available here: CLARABEL"):
        resolve_backend("SCS")


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
from covopt.conic.all_cells import solve_conic
assert "MOSEK" in cvxpy.installed_solvers()
problem, cells = Problem.through(np.array([[2.0]]), np.array([3.0])), np.array([[True], [False]])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert solve_conic(problem, cells).backend == "CLARABEL"
    assert mosek.Task.created == 0
    assert solve_conic(problem, cells, backend="MOSEK").backend == "CLARABEL"
    assert mosek.Task.created == 1
ours = [w for w in caught if w.category.__name__ == "SolverFallbackWarning"]
assert len(ours) == 1 and "License cannot be located" in str(ours[0].message), caught
"""


def test_an_unlicensed_wheel_is_probed_once_and_never_picked(tmp_path):
    (tmp_path / "mosek.py").write_text(FAKE_MOSEK)
    root = os.path.dirname(os.path.dirname(covopt.__file__))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
