"""Programs over all cells, and dual points of the semidefinite relaxation, beside known optima."""

import numpy as np
import pytest

from covopt.conic import all_cells as conic
from covopt.conic.all_cells import solve_conic
from covopt.conic.relaxation import relaxed_dual
from covopt.oracles.support import bound_gauge
from covopt.problems.problem import Problem
from tests.bank.arrangement import all_cells

pytest.importorskip("cvxpy")


def test_what_is_dropped_is_a_small_share(monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((8, 2)), np.ones(8)])
    problem = Problem.through(rows, rng.standard_normal(8), 0.0)
    cells, found = all_cells(problem.rows), []
    for share in (0.0, 1e-3):
        monkeypatch.setattr(conic, "DROP", share)
        found.append(solve_conic(problem, cells).weights)
    everything, weights = found
    assert len(weights) < len(everything)
    assert np.abs(weights).sum() >= (1 - 1e-3) * np.abs(everything).sum()


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
    monkeypatch.setattr("covopt.conic.relaxation.MOST_ROWS", 8)
    rng = np.random.default_rng(3)
    rows, targets = rng.standard_normal((11, 2)), rng.standard_normal(11)
    weights = np.arange(len(rows), dtype=float)
    dual = relaxed_dual(Problem.through(rows, targets), weights=weights)
    assert not dual[:3].any()
    assert dual[3:].all()
