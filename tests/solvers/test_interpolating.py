"""Descent to a network through the points: it meets them, costs no less than the optimum, with few neurons."""

import numpy as np
import pytest

from covopt.problems.shallow import ShallowProblem
from covopt.solvers.heuristic import solve_heuristic
from covopt.solvers.interpolating import InterpolatingDescent


@pytest.mark.parametrize("offset_cost", [np.inf, 0.5, 0.0])
@pytest.mark.parametrize("k", [0, 2])
def test_it_meets_the_points_at_little_more_than_the_least_cost(k, offset_cost):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((12, 6)) / 5.0
    targets = rng.uniform(-1.0, 1.0, (12, k) if k else 12)
    problem = ShallowProblem(rows, targets, offset_cost)
    descent = InterpolatingDescent(problem, 0)
    point = list(descent.run(3))[-1]
    assert np.abs(problem.residual(point.neurons, point.weights, point.offset)).max() <= 1e-9
    assert problem.primal_value(point.weights, point.offset) == point.upper_bound
    least = solve_heuristic(problem, tol=1e-6, random_state=0)
    assert least.lower_bound * (1.0 - 1e-9) <= point.upper_bound <= 1.1 * least.upper_bound


def test_a_wide_table_is_met_by_few_neurons():
    """Sixty neurons move until they meet 200 points: output weights alone could not."""
    rng = np.random.default_rng(0)
    rows, targets = rng.standard_normal((200, 60)), rng.standard_normal(200)
    problem = ShallowProblem(rows / np.linalg.norm(rows, axis=1).max(), targets)
    point = next(InterpolatingDescent(problem, 0).run())
    assert 0 < len(point.neurons) <= 60
    assert np.abs(problem.residual(point.neurons, point.weights)).max() <= 1e-9
