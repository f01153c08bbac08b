import numpy as np
import pytest

from covopt.conic import all_cells as conic
from covopt.conic.all_cells import cell_matrix, facets, solve_conic
from covopt.data import Data
from covopt.problems.problem import Problem
from covopt.problems.reduction import reduce_data
from tests.bank.arrangement import all_cells
from tests.bank.problems import PROBLEMS


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "case", [p for p in PROBLEMS if p.loss is None and p.targets.shape[1] == 1], ids=lambda case: case.name
)
def test_facets_describe_the_same_cells(case):
    problem = reduce_data(Data.validate(case.X, case.targets, bias=case.bias), case.output_bias)[0]
    if not len(problem.rows):
        return
    cells = all_cells(problem.rows)
    few = facets(problem.rows, cells)
    rng = np.random.default_rng(0)
    points = rng.standard_normal((2 * len(cells), problem.rows.shape[1]))
    every = np.broadcast_to(problem.rows.any(axis=1), cells.shape)
    full = (cell_matrix(problem.rows, cells, every) @ points.ravel()).reshape(2 * len(cells), -1).min(axis=1)
    # cells and their facets only: a cone in r dimensions that is pointed has at least r of them
    assert (few.sum(axis=1) >= problem.rows.shape[1]).all()
    cell, _ = np.nonzero(few)
    slack = cell_matrix(problem.rows, cells, few) @ points.ravel()
    inside = np.full(2 * len(cells), np.inf)
    np.minimum.at(inside, np.concatenate([cell, cell + len(cells)]), slack)
    scale = np.abs(points).max()
    np.testing.assert_array_equal(inside >= -1e-9 * scale, full >= -1e-9 * scale)


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


def test_the_penalised_offset_equals_the_dual_sum():
    problem = Problem.through(np.array([[1.0, 1.0], [0.0, 1.0], [-1.0, 1.0]]), np.array([0.2, 1.0, 0.0]), 2.0)
    point = solve_conic(problem, all_cells(problem.rows))
    assert point.dual.sum() == pytest.approx(2.0 * point.offset, abs=1e-7)
