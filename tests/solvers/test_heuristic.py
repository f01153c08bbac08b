"""Beyond the face budget: what the heuristic returns is bracketed by the exact optimum."""

import numpy as np
import pytest

import covopt
from covopt import api
from covopt.certificates import duality
from covopt.errors import BudgetError
from covopt.oracles import support
from covopt.oracles.faces import FaceOracle
from covopt.oracles.support import bound_gauge
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.heuristic import solve_heuristic
from covopt.status import Status


def instance(seed: int, n: int, d: int, offset_cost: float) -> ShallowProblem:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.standard_normal((n, d)), np.ones(n)])
    return ShallowProblem(rows / np.linalg.norm(rows, axis=1).max(), rng.uniform(-1, 1, n), offset_cost)


@pytest.mark.parametrize("offset_cost", [np.inf, 1.0, 0.0])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_enclose_the_exact_optimum(seed, offset_cost):
    problem = instance(seed, 12, 2, offset_cost)
    exact = ColumnGeneration(problem, FaceOracle(problem.rows), tol=1e-7).solve()
    # a budget of a few faces: the subset's arrangement is a small part of the whole
    found = solve_heuristic(problem, tol=1e-6, random_state=seed, subset_budget=500)
    assert found.status is Status.HEURISTIC
    assert 0 < found.lower_bound <= exact.upper_bound * (1 + 1e-7)
    assert exact.lower_bound * (1 - 1e-9) <= found.upper_bound <= exact.upper_bound * 1.05
    assert FaceOracle(problem.rows).price(found.dual).upper_bound <= 1 + 1e-9
    assert problem.dual_value(found.dual) == pytest.approx(found.lower_bound, rel=1e-12)


def test_min_norm_falls_back_and_says_so(monkeypatch):
    def scarce(rows, n_outputs):
        return FaceOracle(rows, budget=2000)

    monkeypatch.setattr(api, "exact_oracle", scarce)
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((25, 2)), rng.standard_normal(25)
    solution = covopt.min_norm(X, y, time_limit_s=20)
    assert solution.status is Status.HEURISTIC
    assert "HEURISTIC" in solution.summary()
    assert "local search" in solution.solver
    assert all(state["lower_bound"] == 0.0 for state in solution.history)
    monkeypatch.undo()
    exact = covopt.min_norm(X, y)
    assert solution.lower_bound <= exact.cost
    assert solution.cost >= exact.lower_bound
    assert covopt.verify(solution).ok
    assert len(solution.network) <= 25


def test_high_dimension_has_a_valid_bracket():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 15)), rng.standard_normal(20)
    solution = covopt.min_norm(X, y, time_limit_s=15)
    assert solution.status is Status.HEURISTIC
    assert 0.3 * solution.cost < solution.lower_bound < solution.cost
    assert covopt.verify(solution).ok
    assert solution.is_unique is None
    assert "out of reach" in solution.uniqueness.reason
    with pytest.raises(BudgetError, match="faces per pricing"):
        solution.tight_set()


def test_relaxed_gauge_is_used_beyond_the_budget():
    rng = np.random.default_rng(1)
    rows, dual = rng.standard_normal((15, 3)), rng.standard_normal(15)
    exact, was_exact = bound_gauge(rows, dual)
    relaxed, was_relaxed = bound_gauge(rows, dual, budget=10)
    assert was_exact
    assert not was_relaxed
    assert exact <= relaxed <= 10 * exact
    few = np.where(np.arange(15) < 2, dual, 0.0)
    supported, flag = bound_gauge(rows, few, budget=10)
    assert flag
    assert supported == pytest.approx(bound_gauge(rows, few)[0], rel=1e-12)
    assert support.DEFAULT_FACE_BUDGET == duality.DEFAULT_FACE_BUDGET
