"""Descent to a network through the points: it meets them, costs no less than the optimum, with few neurons."""

import numpy as np
import pytest

from covopt.problems.problem import Problem
from covopt.solvers import interpolating
from covopt.solvers.both_layers import descend
from covopt.solvers.improve import Improvement
from covopt.solvers.interpolating import InterpolatingDescent
from covopt.solvers.searching import search
from covopt.status import Status


@pytest.mark.thinned(4)
@pytest.mark.parametrize("offset_cost", [np.inf, 0.5, 0.0])
@pytest.mark.parametrize("k", [0, 2])
def test_it_meets_the_points_at_little_more_than_the_least_cost(k, offset_cost):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((7, 4)) / 5.0
    targets = rng.uniform(-1.0, 1.0, (7, k) if k else 7)
    problem = Problem.through(rows, targets, offset_cost)
    descent = InterpolatingDescent(problem, 0)
    point = list(descent.run(3))[-1]
    assert problem.missed(*point.network) <= 1e-9
    assert problem.network_value(point.weights, point.offset) == point.upper_bound
    least = search(problem, tol=1e-6, random_state=0)[0]
    assert least.lower_bound * (1.0 - 1e-9) <= point.upper_bound <= 1.1 * least.upper_bound


def test_a_wide_table_is_met_by_few_neurons():
    """Sixty neurons move until they meet 200 points: output weights alone could not."""
    rng = np.random.default_rng(0)
    rows, targets = rng.standard_normal((200, 60)), rng.standard_normal(200)
    problem = Problem.through(rows / np.linalg.norm(rows, axis=1).max(), targets)
    point = next(InterpolatingDescent(problem, 0).run())
    assert 0 < len(point.neurons) <= 60
    assert problem.missed(*point.network) <= 1e-9


@pytest.mark.parametrize("met", [True, False])
def test_a_descent_that_is_ended_in_its_first_steps_goes_through_the_points(monkeypatch, met):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((60, 4)), np.ones(60)])
    problem = Problem.through(rows, np.abs(rows).sum(axis=1) + 0.3 * rng.standard_normal(60))
    whole = Improvement(problem, lambda: None, tol=1e-6, random_state=0)
    whole.descent.rescue()
    assert not len(whole.point.neurons)  # nothing has begun
    best = next(whole.descent.run()).upper_bound

    def ended(fit, network, *, steps, rescue):
        rescue(descend(fit, network, steps=5))
        raise KeyboardInterrupt

    monkeypatch.setattr(interpolating, "descend", ended)
    if not met:  # corrections that do not get there
        monkeypatch.setattr(interpolating, "CORRECTIONS", 1)
    loop = Improvement(problem, lambda: None, tol=1e-6, random_state=0)
    monkeypatch.setattr(loop, "steps", loop.descent.run)
    point = loop.run()
    assert point.status is Status.INTERRUPTED
    assert problem.missed(*point.network) < 1e-9
    assert len(point.neurons) <= 60 or met
    assert point.upper_bound < 6.0 * best
