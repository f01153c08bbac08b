import numpy as np

from covopt.conic import all_cells as conic
from covopt.conic.all_cells import solve_conic
from covopt.problems.problem import Problem
from tests.bank.arrangement import all_cells


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
