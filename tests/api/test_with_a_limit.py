"""A limit that is not reached changes nothing; one that is reached leaves an answer, in every dimension."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.api import run
from covopt.api.lambdas import largest_lambda
from covopt.api.task import Task
from covopt.datasets import make_random_plane
from covopt.errors import NotCertifiedWarning, Status
from covopt.limits import checkpoint, now
from covopt.oracles.certified import certified_dual_norm
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, count_faces
from covopt.training import Phase
from tests.cases import drawn, normal


def table(seed, d, *, through=True):
    """Rows of zeros, repeated, opposite and on one ray; values of which a network without bias may pass."""
    X, y = make_random_plane(40, d, random_state=seed)
    X[3], X[7], X[9], X[11] = 0.0, X[8], -X[10], 2.0 * X[12]
    if through:
        y[3], y[7], y[11] = 0.0, y[8], 2.0 * y[12]
    return X, y


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("d", [2, 3])
def test_a_limit_that_is_not_reached_changes_nothing(seed, d):
    """Some ended with a gap of 3e-3: other first columns, and a network that no round had made as their bound."""
    X, y = table(seed, d)
    free, limited = (
        covopt.min_norm(X, y, bias=0.0, duplicates="mean", tol=1e-8, time_limit_s=limit)
        for limit in (None, 600.0)
    )
    assert limited.status == free.status == "certified"
    assert limited.lower_bound == free.lower_bound
    assert limited.objective == free.objective


def test_a_dropped_column_does_not_end_the_rounds():
    """Columns that no longer reached all outputs ended with a gap of 1.4 %: every Newton step was of length zero."""
    X, y = table(105, 2)
    found = covopt.min_norm(X, y, bias=0.0, duplicates="mean", tol=1e-8)
    assert found.status == "certified"


def test_boxes_come_as_close_as_is_asked():
    """Certificates left 1e-8 to the maximum, whatever the tolerance."""
    X, y = table(100, 3)
    found = covopt.min_norm(X, y, duplicates="mean", tol=1e-9)
    assert found.status == "certified"
    assert found.gap <= 1e-9


@pytest.mark.parametrize("d", [2, 3])
def test_faces_bound_the_dual_of_a_fit_that_is_stopped(monkeypatch, d):
    """The oracle knows the rows that are not zero, in their order, as the dual that it is asked about."""
    asked = []
    monkeypatch.setattr("covopt.api.run.remember", lambda *given: asked.append(given))
    X, y = table(0, d, through=False)
    covopt.fit(X, y, lam=0.05, bias=0.0, time_limit_s=600.0, callback=lambda state: state.round == 2)
    ((rows, dual, proved),) = asked
    assert len(rows) == len(dual) == 39
    assert rows.any(axis=1).all()
    assert proved == pytest.approx(certified_dual_norm(rows, dual).value, rel=1e-9)


def test_a_callback_that_stops_leaves_little_time_for_finishing(monkeypatch):
    """Making the network of 2000 points sparse took three times as long as the rounds."""
    monkeypatch.setattr("covopt.api.run.finish_network", lambda *_: any(checkpoint() for _ in range(10**8)))
    found = covopt.min_norm(*table(0, 2), duplicates="mean", callback=lambda state: state.round == 2)
    assert found.status == "callback"
    assert 0.0 < found.lower_bound < found.cost


def test_what_a_limit_has_ended_says_so():
    """Local search and its bound take what there is; one that ends by itself is heuristic."""
    rng, X = drawn(0, (120, 14))
    y = np.abs(X[:, 0]) + 0.3 * rng.standard_normal(120)
    found = covopt.fit(X, y, lam="0.03max", time_limit_s=0.5)
    assert found.status == "time_limit"
    assert found.status.message == "the time limit was reached; the bracket is valid"
    assert 0.0 < found.lower_bound < found.objective


@pytest.mark.parametrize(("rows", "columns"), [(120, 6), (300, 10), (1100, 12)])
def test_any_limit_is_enough_for_a_network_through_the_points(rows, columns, processor_clock):
    """Descents that were cut before they met the points, and lines across the constant, left no neurons."""
    X = np.random.default_rng(0).standard_normal((rows, columns))
    y = np.abs(X).sum(axis=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = covopt.min_norm(X, y, time_limit_s=0.05)
    assert found.status == "time_limit"
    assert len(found.network) > 0
    assert np.abs(found.predict(X) - y).max() <= 1e-9 * np.abs(y).max()


# ---- λ as a share of λ_max: the same problem in any units, said in the summary, refused where it means nothing.


@pytest.mark.parametrize("output_bias", ["none", "penalized"])
@pytest.mark.parametrize("shape", [(20, 3, 2), (30, 9, 1)])
def test_a_share_is_of_what_is_met_whatever_the_limit(shape, output_bias):
    n, d, k = shape
    points, targets = normal(0, (n, d), (n, k))

    def task():
        return Task(points, targets, "squared", 1.0, output_bias, None, "variation", "auto", 1e-4, None)

    met, (proved, slack) = task().largest(), largest_lambda(task(), proves=True)
    assert task().largest(1e3) == met and task().strength("0.5max", 1e3) == 0.5 * met
    assert proved / (1.0 + slack) <= met * (1.0 + 1e-3) and met <= proved * (1.0 + 1e-9)
    hurried = task().largest(1e-9)
    assert 0.0 < hurried <= met * (1.0 + 1e-9)


@pytest.mark.filterwarnings("ignore::covopt.errors.NotCertifiedWarning")
@pytest.mark.parametrize(("n", "limit"), [(200, 0.2), pytest.param(1797, 5.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("output_bias", [pytest.param("none", marks=pytest.mark.slow), "penalized"])
def test_the_largest_lambda_keeps_the_limit_of_a_wide_table(processor_clock, n, limit, output_bias):
    """1797 × 64 with ten classes took 99 s of a limit of 10: each search had the limit, and its fallback none."""
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((n, 64)), rng.integers(0, 10, n)
    options = {"loss": "softmax-cross-entropy", "output_bias": output_bias}
    began = now()  # of the processor, and still while code is compiled
    found = covopt.fit(points, labels, time_limit_s=limit, **options)
    assert now() - began < limit + 4.0  # two seconds, and other work beside them
    assert 0.0 < found.lam < found.lambda_max


# ---- commands that once asked for all faces, on tables with far more of them: an answer, or a bracket that says so.
BRIEF = (Phase("adam", 60, decay="cosine"),)


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("n", "d"), [(16, 70), (16, 20), (20, 10)])
def test_commands_work_in_every_dimension(n, d):
    rng, X = drawn(n, (n, d))
    y = X[:, 0] + 0.3 * rng.standard_normal(n)
    assert count_faces(n, np.linalg.matrix_rank(np.column_stack([X, np.ones(n)]))) > DEFAULT_FACE_BUDGET
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        top = covopt.lambda_max(X, y)
        empty, some = covopt.path(X, y, lams=[top, 0.7 * top], time_limit_s=10.0)
        model = covopt.ReLURegressor(0.7 * top, time_limit_s=10.0).fit(X, y)
    assert {one.category for one in caught} <= {NotCertifiedWarning}
    assert len(empty.network) == 0 < len(some.network)
    for solution in (empty, some, model.solution_):
        assert 0.0 < solution.lower_bound <= solution.objective * (1 + 1e-12)
        assert solution.gap <= 1e-6 or solution.status is Status.HEURISTIC
        assert covopt.verify(solution).ok
    assert np.all(np.isfinite(model.predict(X)))
    trained = covopt.cross_check(some, seeds=2, widths=8, schedule=BRIEF)
    assert (trained.table.objective >= some.lower_bound * (1 - 1e-9)).all()
    neurons = covopt.sparsity_bounds(X, y)
    assert 1 <= neurons.lower <= neurons.upper <= n


def test_a_dual_that_closes_the_gap_is_proved_before_the_network_takes_the_time(monkeypatch):
    """2000 points that rounds had certified after 21 s of 30 had no bound: merging them took the rest."""
    calls = []
    for owner, name in ((run.Run, "_dual_norm"), (run, "finish_network")):
        known = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, name=name, known=known: calls.append(name) or known(*a))
    assert (
        covopt.min_norm(*make_random_plane(40, 2, random_state=0), time_limit_s=60.0).status.code
        == "certified"
    )
    assert calls[0] == "_dual_norm" and "finish_network" in calls
