"""Descent to a network through the points: it meets them, costs no less than the optimum, with few neurons."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from covopt.errors import Status
from covopt.limits import TimeUp
from covopt.oracles.base import heights
from covopt.problems.problem import Problem
from covopt.solvers import bounds, interpolating
from covopt.solvers.both_layers import descend
from covopt.solvers.bounds import Bounds
from covopt.solvers.improve import Improvement
from covopt.solvers.interpolating import InterpolatingDescent
from covopt.solvers.searching import search
from tests.cases import drawn, normal


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
    least = search(problem, tol=1e-6, random_state=0)
    assert least.lower_bound * (1.0 - 1e-9) <= point.upper_bound <= 1.1 * least.upper_bound


def test_a_wide_table_is_met_by_few_neurons():
    """Sixty neurons move until they meet 200 points: output weights alone could not."""
    rows, targets = normal(0, (200, 60), 200)
    problem = Problem.through(rows / np.linalg.norm(rows, axis=1).max(), targets)
    point = next(InterpolatingDescent(problem, 0).run())
    assert 0 < len(point.neurons) <= 60
    assert problem.missed(*point.network) <= 1e-9


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", [0, 1])
def test_what_corrections_miss_is_met_by_few_more_neurons(seed):
    """Pixels of the digits 0 and 1: twelve neurons do not meet them, and neurons at every point cost far more."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 2], 2.0 * y[y < 2] - 1.0
    rows = np.column_stack([X[:, X.std(axis=0) > 0] / 16.0, np.ones(len(X))])
    problem = Problem.through(rows, y)
    descent = InterpolatingDescent(problem, seed)
    descent.n_neurons = 12
    point = next(descent.run())
    assert problem.missed(*point.network) <= 1e-9
    assert len(point.neurons) <= 48 and point.upper_bound < 20.0


def test_duals_of_fits_bound_networks_through_points(monkeypatch):
    rng, X = drawn(0, (40, 7))
    y = np.abs(X[:, 0]) - np.maximum(X[:, 1], 0.0) + 0.1 * rng.standard_normal(40)
    problem = Problem.through(np.column_stack([X, np.ones(40)]), y)
    point = next(InterpolatingDescent(problem, 0).run())
    found = []
    monkeypatch.setattr(bounds, "FITS", (0.1,))
    for way in (Bounds.by_few_points, Bounds.by_relaxed_dual):
        raised = Bounds(problem, replace(point), point.dual, tol=1e-6, time_s=0.3)
        way(raised)
        found.append(raised.point)
    few, relaxed = found
    assert 0.0 < few.lower_bound <= point.upper_bound
    assert 0.5 * point.upper_bound < relaxed.lower_bound <= point.upper_bound
    assert problem.dual_value(relaxed.dual) == pytest.approx(relaxed.lower_bound)
    neurons = np.concatenate([point.neurons, rng.standard_normal((20_000, 8))])
    pulls = heights(problem.rows, relaxed.dual, neurons / np.linalg.norm(neurons, axis=1, keepdims=True))
    assert np.abs(pulls).max() <= 1.0


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
        monkeypatch.setattr(interpolating, "STEPS", 1)
    loop = Improvement(problem, lambda: None, tol=1e-6, random_state=0)
    monkeypatch.setattr(loop, "steps", loop.descent.run)
    point = loop.run()
    assert point.status is Status.INTERRUPTED
    assert problem.missed(*point.network) < 1e-9
    assert len(point.neurons) <= 60 or met
    assert point.upper_bound < 8.0 * best


def test_columns_that_close_the_gap_take_the_time_of_a_descent_that_is_cut(monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((60, 3)), np.ones(60)])
    problem, begun = Problem.through(rows, np.abs(rows).sum(axis=1)), []

    def ended(fit, network, *, steps, rescue):
        rescue(descend(fit, network, steps=5))
        raise TimeUp

    monkeypatch.setattr(interpolating, "descend", ended)
    monkeypatch.setattr(interpolating, "meet_points", lambda *_: pytest.fail("took the time of columns"))
    loop = Improvement(problem, lambda: None, tol=1e-6, random_state=0, time_limit_s=600.0)
    monkeypatch.setattr(loop, "_columns", lambda _: begun.append(loop.options["warm"]) or iter(()))
    monkeypatch.setattr(loop, "rescue", lambda hurries: None)
    loop.run()
    assert loop.is_cut
    assert len(begun[0].neurons)  # where the descent was


def test_an_interrupt_among_few_points_is_passed_on_and_keeps_what_they_have_proved(monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((40, 9)), np.ones(40)])
    problem, solved = Problem.through(rows, rng.standard_normal(40)), bounds.search

    def interrupted(part, **options):
        found = solved(part, **options)
        return replace(found, status=Status.INTERRUPTED if len(part.rows) > 10 else found.status)

    monkeypatch.setattr(bounds, "search", interrupted)
    point = next(InterpolatingDescent(problem, 0).run())
    raised = Bounds(problem, replace(point), point.dual, tol=1e-6, time_s=60.0)
    with pytest.raises(KeyboardInterrupt):
        raised.by_few_points()
    assert raised.point.lower_bound > 0.0
    assert raised.point.history[-1].note == "10 points by themselves raise the lower bound"
