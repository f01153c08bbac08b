"""The main job end to end: stopping early, and inputs on which it once failed."""

import dataclasses
import threading
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from covopt.errors import InputError, Status
from covopt.meter import joined
from tests.cases import cases, normal


# ---------------------------------------------------------------------- bad input
@pytest.mark.parametrize("y", [[1.0, np.nan, 2.0], [1.0, 2.0]])
def test_nothing_is_computed_of_bad_input(y, monkeypatch):
    """What is said of it stands in messages.txt."""
    for worker in ("task.exact_oracle", "run.solve_one_input", "run.finish_network", "run.Certifier"):
        monkeypatch.setattr(f"covopt.api.{worker}", lambda *_, **__: pytest.fail("computed"))
    with pytest.raises(InputError):
        covopt.min_norm([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], y)


# ---------------------------------------------------------------------- stopping early
def hard_table() -> tuple[np.ndarray, np.ndarray]:
    X = normal(0, (80, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1]


def check_bracket(solution: covopt.Solution, ask, *table) -> None:
    known = ask(*table, tol=1e-8)
    assert 0 <= solution.lower_bound <= known.objective * (1 + 1e-9)
    if solution.certificate.interpolates:
        assert solution.objective >= known.lower_bound * (1 - 1e-9)
    assert covopt.verify(solution, *table).ok, covopt.verify(solution).summary()


ROUNDS = [(covopt.min_norm, {}, rounds) for rounds in (0, 2, 5)]
ROUNDS += [(covopt.min_norm, {"output_bias": kind}, 99) for kind in ("none", "penalized", "free")]
ROUNDS += [(covopt.fit, {"lam": 1e-2}, rounds) for rounds in (5, 99)]


@pytest.mark.parametrize(("ask", "options", "rounds"), ROUNDS)
def test_rounds_tell_a_bracket_that_closes_around_the_optimum(ask, options, rounds, tmp_path):
    """In the user's units; a callback that says so stops them."""
    (X, y), ask, seen = hard_table(), partial(ask, **options), []
    y = 50.0 * y if "lam" in options else y

    def callback(state):
        seen.append(state)
        return state.round >= rounds

    solution = ask(X, y, tol=1e-9, callback=callback)
    assert solution.status is (Status.CALLBACK if rounds < 99 else Status.CERTIFIED)
    assert [state.round for state in seen] == list(range(len(solution.history)))
    assert len(seen) == rounds + 1 or rounds == 99
    lower, upper, times = np.array([[state.lower_bound, state.upper_bound, state.time_s] for state in seen]).T
    assert (np.diff(lower) >= 0).all() and (upper[1:] <= upper[:-1]).all() and (np.diff(times) >= 0).all()
    check_bracket(solution, ask, X, y)
    assert solution.gap > 1e-9 or rounds == 99
    assert lower[-1] * (1 - 1e-9) <= solution.lower_bound == pytest.approx(lower[-1], rel=1e-5)
    assert solution.objective * (1 - 1e-9) <= upper[-1]
    assert rounds < 99 or upper[-1] == pytest.approx(solution.objective, rel=1e-5)
    solution.save(tmp_path / "s.json")
    assert covopt.verify(tmp_path / "s.json").ok


def test_the_time_limit_returns_the_best_bracket():
    X, y = hard_table()
    solution = covopt.min_norm(X, y, tol=1e-9, time_limit_s=1e-3)
    assert solution.status is Status.TIME_LIMIT
    assert solution.gap > 1e-9
    check_bracket(solution, covopt.min_norm, X, y)


def test_errors_of_the_callback_come_through():
    callback = Mock(side_effect=RuntimeError("mine"))
    with pytest.raises(RuntimeError, match="mine"):
        covopt.min_norm(*hard_table(), callback=callback)


def test_it_runs_in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]).status))
    thread.start()
    thread.join(60)
    assert found == [Status.CERTIFIED]


# ---------------------------------------------------------------------- adversaries
def check_claims(X, y, **options) -> covopt.Solution:
    """Whatever the input: an honest bracket, confirmed from the raw data."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    stop = {"random_state": 0, "callback": lambda state: state.round >= 60}
    solution = covopt.min_norm(X, y, **{**stop, **options})
    assert covopt.verify(solution).ok, covopt.verify(solution).summary()
    assert np.isfinite([solution.cost, solution.lower_bound, solution.gap]).all()
    if solution.status is Status.CERTIFIED:
        assert solution.cost >= solution.lower_bound * (1 - solution.tol)
        # predictions round, the certificate's are exact
        rounding = 2.0**-52 * solution.cost * np.abs(X).max()
        assert np.abs(solution.network.predict(X) - y).max() <= 1e-9 * np.abs(y).max() + rounding
    return solution


@pytest.mark.thinned(2)
@pytest.mark.parametrize("spacing", [1e-6, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12])
@pytest.mark.parametrize("slope", [10, 100])
@pytest.mark.parametrize("plane", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_steep_step_between_close_points_is_never_certified_too_low(spacing, slope, plane):
    # f must rise with this slope, yet a network that ignores it misses the targets by less than 1e-9
    X = [[0, 0], [spacing, 0], [1, 0.5], [0.3, -1]] if plane else [[0], [spacing], [1]]
    y = [0, slope * spacing, 1, 0.2][: len(X)]
    solution = check_claims(X, y)
    # a network through the first two points needs 2·slope up to its other bends
    assert solution.lower_bound <= 2 * (slope + 5)
    if solution.status is Status.CERTIFIED:
        assert solution.cost >= 2 * slope * (1 - 1e-5)


def test_points_that_the_tolerance_cannot_tell_apart_are_not_certified():
    # the network misses two targets by 5e-11 and costs 1.92, one through them 20
    solution = check_claims([[0, 0], [1e-11, 0], [1, 0.5], [0.3, -1]], [0, 1e-10, 1, 0.2])
    assert solution.status is Status.GAP
    assert solution.gap <= solution.tol and solution.certificate.interpolates
    assert "so close" in solution.summary()
    assert not covopt.verify(dataclasses.replace(solution, status=Status.CERTIFIED)).ok
    assert joined(solution, solution).status is Status.GAP


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("ulps", [1, 4, 16])
def test_points_a_few_ulps_apart(ulps, output_bias):
    eps = ulps * 2.0**-52
    solution = check_claims([[1.0], [1.0 + eps]], [0.0, 1.0], output_bias=output_bias)
    # σ((x − 1)/ε) is a network through both: no lower bound may exceed its cost
    assert solution.lower_bound <= 2 * np.sqrt(2) / eps * (1 + 1e-6)
    assert solution.gap > 1e-6 or solution.certificate.interpolates


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0, 0], [0, 1], [1, 0], [1, 1]], [-1, -1, 0, 0]),
        ([[-1, 0, 0], [-1, 1, -1], [1, 0, -1], [1, 0, 0]], [1, 0, 2, 3]),
    ],
)
@pytest.mark.parametrize("seed", [None, 0, 4])
def test_tiny_tables_with_many_optimal_duals(X, y, seed):
    # columns that were dropped without progress came back for ever
    solution = covopt.min_norm(X, y, random_state=seed)
    assert solution.status is Status.CERTIFIED
    assert len(solution.history) < 60


def test_points_of_very_different_size_leave_a_network_and_not_the_zero_one():
    x, y = np.array(cases("points of very different size, and their targets")).T
    solution = covopt.min_norm(np.array(x)[:, None], y)
    assert solution.certificate.residual <= 1e-9
    assert 0 < solution.lower_bound <= solution.cost


@pytest.mark.parametrize("short", [1e-5, 1e-9])
@pytest.mark.parametrize("seed", [8, 25])
def test_a_row_far_shorter_than_the_others_without_bias(seed, short):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    X[0] *= short
    solution = covopt.min_norm(X, y, bias=0.0)
    assert 0 < len(solution.network) <= n
    # beyond a million doubles may have no room for what the others leave of it: then the miss is said
    assert solution.gap <= 1e-5 or (short < 1e-6 and not solution.certificate.interpolates)
    assert covopt.verify(solution).ok
    # f(c x) = c f(x): the same network in other words
    X[0], y[0] = X[0] / short, y[0] / short
    assert solution.lower_bound <= covopt.min_norm(X, y, bias=0.0).cost * (1 + 1e-9)


@pytest.mark.slow
def test_a_cone_program_of_many_cells_interpolates():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)).round(3)
    y = (np.abs(X[:, 0]) + 0.3 * X[:, 1]).round(3)
    found = covopt.min_norm(X, y, solver="conic:CLARABEL")
    assert found.certificate.residual < 1e-12  # the merged network missed the points by 2.5e-9
    assert found.status.code == "certified"
