"""A limit that is not reached changes nothing, on tables with rows of zeros and rows that are said twice."""

import numpy as np
import pytest

import covopt
from covopt.datasets import make_random_plane
from covopt.oracles.support import bound_gauge


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
    assert proved == pytest.approx(bound_gauge(rows, dual).value, rel=1e-9)


def test_what_a_limit_has_ended_says_so():
    """Local search and its bound take what there is; one that ends by itself is heuristic."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 14))
    y = np.abs(X[:, 0]) + 0.3 * rng.standard_normal(120)
    found = covopt.fit(X, y, lam="0.03max", time_limit_s=0.5)
    assert (found.status, found.status.message) == (
        "time_limit",
        "the time limit was reached; the bracket is valid",
    )
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
