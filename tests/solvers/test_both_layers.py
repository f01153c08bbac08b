"""Descent on both layers: derivatives, closed forms, first order at the end; every loss, output bias, outputs."""

import numpy as np
import pytest

import covopt
from covopt.api.task import Task
from covopt.errors import Status
from covopt.limits import TimeUp, limited
from covopt.losses import make_loss
from covopt.oracles.base import heights
from covopt.problems.problem import Problem
from covopt.solvers import both_layers, improve
from covopt.solvers import descent as room
from covopt.solvers.both_layers import Network, balanced, descend, value_and_slope
from covopt.solvers.descent import Descent
from covopt.solvers.improve import Improvement
from tests.cases import drawn, normal

LOSSES = [
    ("squared", 1), ("squared", 2), ("huber", 1), ("logistic", 1), ("hinge", 1), ("squared-hinge", 1),
    ("softmax-cross-entropy", 3),
]  # fmt: skip
OUTPUT_BIASES = ["none", "penalized", "free"]


def _table(loss, q, n=40):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 2)) * [1.0, 30.0] + [0.0, 200.0]
    y = np.abs(X[:, 0]) + 0.01 * X[:, 1]
    if loss in ("logistic", "hinge", "squared-hinge"):
        y = y > np.median(y)
    elif q == 3:
        y = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    elif q > 1:
        y = np.column_stack([y, X[:, 0]])
    return X, y


def _problem(loss, output_bias, q, n=40, lam=0.01):
    X, y = _table(loss, q, n)
    task = Task(X, y, loss, 1.0, output_bias, None, "variation", "auto", 1e-4, None)
    return X, y, task.reduced(lam)[0]


def _ran(problem, **options):
    descent = Descent(problem, random_state=0)
    points = list(descent.run(**options))
    return descent, points


@pytest.mark.parametrize(("loss", "q"), LOSSES)
@pytest.mark.parametrize("output_bias", OUTPUT_BIASES)
def test_the_slope_is_that_of_differences(loss, q, output_bias):
    problem = _problem(loss, output_bias, q, n=12)[2]
    rng = np.random.default_rng(0)
    r, k = problem.rows.shape[1], problem.n_outputs
    W, V = rng.standard_normal((3, r)), rng.standard_normal((3, k))
    B = rng.standard_normal(k) if problem.has_offset else np.zeros(k)
    value, *slopes = value_and_slope(problem, W, V, B)
    parts, step = [W, V, B], 1e-7
    assert value == pytest.approx(
        problem.loss.value(problem.raise_outputs(np.maximum(problem.rows @ W.T, 0.0) @ V + B))
        / problem.strength
        + 0.5 * (np.square(W).sum() + np.square(V).sum())
        + (0.5 * problem.offset_cost * B @ B if 0.0 < problem.offset_cost < np.inf else 0.0)
    )
    for number, slope in enumerate(slopes[: 3 if problem.has_offset else 2]):
        for index in np.ndindex(slope.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = [part.copy() for part in parts]
                moved[number][index] += sign * step
                ends.append(value_and_slope(problem, *moved)[0])
            scale = max(1.0, abs(value))
            difference = (ends[0] - ends[1]) / (2.0 * step)
            assert difference == pytest.approx(slope[index], rel=1e-4, abs=1e-5 * scale)


def test_pieces_of_rows_change_nothing(monkeypatch):
    problem = _problem("squared", "free", 2, n=40)[2]
    network = normal(0, (5, problem.rows.shape[1]), (5, 2), 2)
    whole = problem.fitted(*network)
    monkeypatch.setattr("covopt.problems.problem.PIECE", 35)
    np.testing.assert_allclose(problem.fitted(*network), whole, rtol=1e-12, atol=1e-12)


def test_one_neuron_in_closed_form():
    """Rows e₁, e₂ and positive targets: min ‖σ(w)v − y‖²/2 + λ(w² + v²) along y; |w|·|v| = ‖y‖ − 2λ."""
    loss = make_loss("squared")
    loss.encode_targets([3.0, 4.0])
    lam = 0.05
    _, points = _ran(Problem(np.eye(2), loss, 2.0 * lam))
    found = points[-1]
    assert found.upper_bound * 2.0 * lam == pytest.approx(2.0 * lam * 5.0 - 2.0 * lam**2, rel=1e-9)
    np.testing.assert_allclose(found.neurons * found.weights, [[3.0 * (1 - 2 * lam / 5), 4.0 * (1 - 2 * lam / 5)]],
                               rtol=1e-4)  # fmt: skip


def test_neurons_are_balanced_and_nothing_comes_of_no_targets():
    network = Network(np.array([[0.6, 0.8]]), np.array([[4.0, 3.0]]), np.zeros(2))
    W, V = balanced(network)
    assert np.linalg.norm(W) == pytest.approx(np.linalg.norm(V))
    np.testing.assert_allclose(np.outer(W, V), np.outer(network.neurons, network.weights))
    loss = make_loss("squared")
    loss.encode_targets([0.0, 0.0])
    assert not _ran(Problem(np.eye(2), loss, 0.1))[1]


@pytest.mark.thinned(10)
@pytest.mark.parametrize(("loss", "q"), LOSSES)
@pytest.mark.parametrize("output_bias", OUTPUT_BIASES)
def test_close_to_the_optimum_and_stationary(loss, q, output_bias):
    X, y, problem = _problem(loss, output_bias, q, n=40 if q == 1 else 20)
    descent, points = _ran(problem)
    values = [point.upper_bound for point in points]
    assert values == sorted(values, reverse=True) or values[-1] <= values[0] * (1.0 + 1e-5)
    point = descent.point
    fitted = problem.fitted(point.neurons, point.weights, point.offset)
    assert point.upper_bound == pytest.approx(problem.primal_value(fitted, point.weights, point.offset))
    constant = problem.best_constant()
    no_neurons = np.zeros((0, problem.n_outputs))
    nothing = problem.primal_value(np.tile(constant, (len(fitted), 1)), no_neurons, constant)
    exact = covopt.fit(X, y, lam=0.01, loss=loss, output_bias=output_bias, tol=1e-4)
    excess = point.upper_bound * problem.strength - exact.lower_bound
    assert -1e-9 <= excess < 0.02 * (nothing * problem.strength - exact.lower_bound)
    np.testing.assert_allclose(np.linalg.norm(point.neurons, axis=1), 1.0)
    if loss != "hinge":  # at its corners any subgradient may be the dual's
        pulls = heights(problem.rows, problem.dual_of(fitted), point.neurons)
        sizes = np.linalg.norm(point.weights, axis=1)
        alignment = (pulls * point.weights).sum(axis=1) / sizes
        assert np.average(np.abs(alignment - 1.0), weights=sizes) <= 0.1  # after a hundred steps


def test_more_steps_are_no_worse_and_a_deadline_keeps_what_was_found():
    problem = _problem("squared", "none", 1)[2]
    descent = Descent(problem)
    start = descent.random_network()
    values = []
    for steps in (3, 30, 300):
        network = descend(problem, start, steps=steps)
        values.append(problem.primal_value(problem.fitted(*network), network.weights, network.offset))
    assert values == sorted(values, reverse=True)
    kept = []
    rows = np.tile(problem.rows, (500, 1))
    loss = make_loss("squared")
    loss.encode_targets(np.tile(problem.loss.targets, (500, 1)))
    with pytest.raises(TimeUp), limited(0.3):
        descend(Problem(rows, loss, problem.strength), start, steps=100_000, rescue=kept.append)
    assert len(kept) == 1 and len(kept[0].neurons)


def test_adam_passes_the_corners_where_lbfgs_stops():
    rng, X = drawn(0, (200, 20))
    loss = make_loss("squared")
    loss.encode_targets(np.maximum(X[:, 0], 0.0) - np.abs(X[:, 1]) + 0.3 * rng.standard_normal(200))
    problem = Problem(np.column_stack([X, np.ones(200)]), loss, 0.005)
    descent, values = Descent(problem), []
    for start in (descent.random_network() for _ in range(4)):
        found = [descend(problem, start, annealed=annealed) for annealed in (0, both_layers.ANNEALED)]
        values.append([problem.primal_value(problem.fitted(*n), n.weights, n.offset) for n in found])
    plain, annealed = np.mean(values, axis=0)
    assert annealed < 0.993 * plain


def test_a_sample_of_rows_stands_for_all(monkeypatch):
    problem = _problem("logistic", "free", 1, n=200)[2]
    whole = _ran(problem)[0].point.upper_bound
    monkeypatch.setattr(room, "SAMPLE", 100)
    descent = Descent(problem, random_state=0)
    part = descent.sampled(problem, 100)
    assert part.loss.weights.sum() == pytest.approx(1.0) and len(part.rows) == 100
    for _ in descent.run():
        pass
    assert descent.point.upper_bound <= whole * 1.01


def test_a_rounded_hinge_is_near_and_smooth():
    loss = make_loss("hinge")
    loss.encode_targets([0, 1])
    F = np.linspace(-2.0, 2.0, 2001)[:, None] * [[1.0]]
    for width in (0.5, 0.01):
        rounded = loss.smoothed(width)
        gap = np.array([loss.value(np.full(2, f)) - rounded.value(np.full(2, f)) for f in F[:, 0]])
        assert gap.min() >= -1e-12 and gap.max() <= 0.5 * width + 1e-12
        slopes = np.array([rounded.gradient(np.full(2, f)) for f in F[:, 0]])
        assert np.abs(np.diff(slopes, axis=0)).max() <= 0.5 * 2e-3 / width + 1e-12
    assert make_loss("squared").smoothed(0.1).name == "squared"


def test_the_loop_ends_at_the_callback_and_merges_brackets():
    problem = _problem("squared", "none", 1, n=30)[2]
    problem = Problem(np.column_stack([problem.rows, normal(0, (30, 6))]), problem.loss, 0.05)
    seen = []

    def stop(state, point):
        seen.append(state)
        return True

    def beyond():
        raise covopt.errors.BudgetError("faces")

    loop = Improvement(problem, beyond, tol=1e-6, random_state=None, callback=stop)
    points = list(loop.steps())
    assert len(points) == 1 and points[0].status is Status.CALLBACK
    assert seen[0].note == "descent on both layers"
    full = Improvement(problem, beyond, tol=1e-6, random_state=None)
    points = list(full.steps())
    values = [point.upper_bound for point in points]
    assert len(points) >= 2 and values == sorted(values, reverse=True)
    assert 0.0 < full.point.lower_bound <= full.point.upper_bound
    again = points[0].merged(full.point)
    assert (again.upper_bound, again.lower_bound) == (full.point.upper_bound, full.point.lower_bound)


def test_exact_steps_certify_under_a_limit_where_interior_points_would_not_end(monkeypatch):
    """3200 x 2 under 60 s ended with 6e-3: the time of an interior point was held against steps that need none."""
    monkeypatch.setattr(improve, "is_out_of_reach", lambda problem, limit: limit is not None)
    X, y = normal(0, (120, 2), 120)
    found = covopt.fit(X, y, lam="0.3max", time_limit_s=300.0)
    assert found.status is Status.CERTIFIED
    assert found.objective == pytest.approx(covopt.fit(X, y, lam=found.lam).objective, rel=2e-6)


@pytest.mark.parametrize(("loss", "q"), [("squared", 1), ("softmax-cross-entropy", 3)])
def test_a_first_network_needs_neither_a_search_nor_a_descent(monkeypatch, loss, q):
    def refuse(*_, **__):
        raise TimeUp

    monkeypatch.setattr(room.LocalSearchOracle, "search", refuse)
    monkeypatch.setattr(room, "descend", refuse)
    descent = Descent(_problem(loss, "none", q)[2])
    constant = descent.point.upper_bound
    with pytest.raises(TimeUp):
        next(descent.run())
    assert len(descent.point.neurons) and descent.point.upper_bound < constant
