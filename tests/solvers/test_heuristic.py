"""Beyond the face budget: what the heuristic returns is bracketed by the exact optimum."""

import numpy as np
import pytest

import covopt
from covopt.api import generation as api
from covopt.oracles import steering, support
from covopt.oracles.choose import exact_oracle
from covopt.oracles.faces import FaceOracle
from covopt.oracles.support import bound_gauge
from covopt.problems.shallow import ShallowProblem
from covopt.solvers import brackets
from covopt.solvers.generation import generate
from covopt.solvers.heuristic import solve_heuristic
from covopt.status import Status
from tests.nightly import thinned
from tests.oracles.table import face_oracle


def instance(seed: int, n: int, d: int, offset_cost: float) -> ShallowProblem:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.standard_normal((n, d)), np.ones(n)])
    return ShallowProblem(rows / np.linalg.norm(rows, axis=1).max(), rng.uniform(-1, 1, n), offset_cost)


@pytest.mark.parametrize("offset_cost", [np.inf, 1.0, 0.0])
@pytest.mark.parametrize("seed", range(2))
def test_branch_and_bound_reaches_the_exact_optimum(seed, offset_cost):
    problem = instance(seed, 12, 2, offset_cost)
    exact = generate(problem, face_oracle(problem.rows), tol=1e-7)
    # the limit is that of nodes: a busy machine, or one that still compiles, takes as long as it takes
    found = solve_heuristic(problem, tol=1e-6, random_state=seed, pricing_s=600.0)
    assert found.status is Status.CERTIFIED
    assert found.gap <= 1e-6
    assert found.lower_bound <= exact.upper_bound * (1 + 1e-9)
    assert found.upper_bound >= exact.lower_bound * (1 - 1e-9)
    assert face_oracle(problem.rows).price(found.dual).upper_bound <= 1 + 1e-9


@pytest.mark.parametrize(
    ("offset_cost", "k"), thinned([(np.inf, 1), (1.0, 2), (0.0, 1), (np.inf, 2), (1.0, 1), (0.0, 2)], 2)
)
def test_bounds_enclose_the_exact_optimum_without_branch_and_bound(k, offset_cost, monkeypatch):
    monkeypatch.setattr(steering, "tree_limit", lambda *size, **effort: 1)
    monkeypatch.setattr(brackets, "FINAL_S", 1e-9)
    problem = instance(k, 9, 2, offset_cost)
    if k > 1:
        targets = np.random.default_rng(k).uniform(-1, 1, (9, k))
        problem = ShallowProblem(problem.rows, targets, offset_cost)
    oracle = exact_oracle(problem.rows, 0 if k == 1 else k)
    exact = generate(problem, oracle, tol=1e-6)
    seen = []
    # a budget of a few faces: the subset's arrangement is a small part of the whole
    found = solve_heuristic(problem, tol=1e-6, random_state=0, subset_budget=300, callback=seen.append)
    assert found.status is (Status.CERTIFIED if found.gap <= 1e-6 else Status.HEURISTIC)
    assert 0 < found.lower_bound <= exact.upper_bound * (1 + 1e-7)
    assert exact.lower_bound * (1 - 1e-9) <= found.upper_bound <= exact.upper_bound * 1.05
    assert oracle.price(found.dual).upper_bound <= 1 + 1e-9
    assert problem.dual_value(found.dual) == pytest.approx(found.lower_bound, rel=1e-12)
    assert all(state.lower_bound <= exact.upper_bound * (1 + 1e-7) for state in seen)


def test_several_outputs_on_orthogonal_rows_reach_the_closed_form():
    """X = I and (YYᵀ)^{1/2} ≥ 0 completely positive: R₂ = 2 Tr (YYᵀ)^{1/2}; one-hot classes of sizes 3, 2, 1."""
    targets = np.repeat(np.eye(3), [3, 2, 1], axis=0)
    found = solve_heuristic(ShallowProblem(np.eye(6), targets), tol=1e-6, random_state=0)
    assert found.status is Status.CERTIFIED
    assert found.upper_bound == pytest.approx(np.sqrt(3) + np.sqrt(2) + 1, rel=1e-6)


def test_min_norm_falls_back_and_says_so(monkeypatch):
    def scarce(rows, n_outputs, *, budget=400, beside=0.0):
        return FaceOracle(rows, budget=min(budget, 400))

    monkeypatch.setattr(api, "exact_oracle", scarce)
    monkeypatch.setattr(steering, "tree_limit", lambda *size, **effort: 1)
    monkeypatch.setattr(brackets, "FINAL_S", 0.0)
    monkeypatch.setattr(brackets, "SUBSET_BUDGET", 4e2)
    monkeypatch.setattr(support, "exact_oracle", scarce)
    monkeypatch.setattr(support, "tree_limit", lambda *size, **effort: 1)
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((14, 2)), rng.standard_normal(14)
    solution = covopt.min_norm(X, y)
    assert solution.status is Status.HEURISTIC
    assert "HEURISTIC" in solution.summary()
    assert "local search" in solution.solver
    monkeypatch.undo()
    exact = covopt.min_norm(X, y)
    assert solution.lower_bound <= exact.cost
    assert solution.cost >= exact.lower_bound
    assert all(state["lower_bound"] <= exact.cost for state in solution.history)
    assert covopt.verify(solution).ok
    assert len(solution.network) <= 14


def test_high_dimension_is_certified_by_branch_and_bound():
    """Faces are far too many in dimension 16, signs are not: a certificate, and verify finds the same."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 15)), rng.standard_normal(20)
    solution = covopt.min_norm(X, y, tol=1e-5)
    assert solution.status is Status.CERTIFIED
    assert solution.gap <= 1e-5
    checked = covopt.verify(solution)
    assert checked.ok
    assert solution.is_unique is None  # in more than eight dimensions no search sees all tight neurons


def test_branch_and_bound_then_a_relaxation_beyond_the_budget(monkeypatch):
    rng = np.random.default_rng(1)
    for dual in (rng.standard_normal(15), rng.standard_normal((15, 2))):
        rows = rng.standard_normal((15, 3))
        exact, was_exact, _ = bound_gauge(rows, dual)
        signs, was_found, _ = bound_gauge(rows, dual, effort=2e-08)
        assert was_exact
        assert was_found
        assert signs == pytest.approx(exact, rel=1e-9)
        with monkeypatch.context() as patch:
            patch.setattr(support, "tree_limit", lambda *size, **effort: 1)
            patch.setattr(support, "STARTS", 1)
            relaxed = bound_gauge(rows, dual, effort=2e-08).value
        assert exact * (1 - 1e-12) <= relaxed <= 10 * exact
        few = np.where((np.arange(15) < 2).reshape(-1, *[1] * (dual.ndim - 1)), dual, 0.0)
        supported, flag, _ = bound_gauge(rows, few, effort=2e-08)
        assert flag
        assert supported == pytest.approx(bound_gauge(rows, few)[0], rel=1e-9)


def test_an_interrupt_in_a_pricing_ends_the_solve(monkeypatch):
    real = steering.BranchAndBoundOracle.price
    calls = []

    def price(self, dual, **options):
        found = real(self, dual, **options)
        calls.append(1)
        self.interrupted = len(calls) == 3
        return found

    monkeypatch.setattr(steering.BranchAndBoundOracle, "price", price)
    found = solve_heuristic(instance(0, 12, 4, np.inf), tol=1e-9, random_state=0)
    assert found.status is Status.INTERRUPTED
    assert len(calls) == 3
    assert 0 < found.lower_bound <= found.upper_bound
