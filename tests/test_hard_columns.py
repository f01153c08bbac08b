"""Columns that make a table hard by their units are named where a gap stays open, or refused."""

import numpy as np
import pytest

import covopt
from covopt.errors import InputError
from covopt.status import Status


def _table(n=80):
    rng = np.random.default_rng(0)
    return np.column_stack([rng.standard_normal((n, 3)), rng.integers(0, 2, n)]), rng.standard_normal(n)


def test_the_summary_says_it_where_the_gap_is_open():
    X, y = _table(12)
    X[:, 1] = X[:, 1] + 2005.0
    stopped = covopt.fit(X, y, lam=1e-4, callback=lambda state: True)
    assert stopped.gap > stopped.tol
    assert "hint           x1 is far from zero: mean 2005" in stopped.summary()
    assert "--standardise (standardise=True)" in stopped.summary()
    stopped.status = Status.CERTIFIED
    assert "hint  " not in stopped.summary()


def _stamps(n=12):
    """A day of seconds since 1970 beside a column of size one."""
    rng = np.random.default_rng(0)
    return np.column_stack([1.6e9 + 86400.0 * rng.random(n), rng.standard_normal(n)]), rng.standard_normal(n)


def test_a_day_of_stamps_beside_another_column_is_refused_in_a_sentence():
    X, y = _stamps()
    for solve in (covopt.min_norm, covopt.fit, covopt.frank_wolfe):
        with pytest.raises(InputError) as caught:
            solve(X, y, **({} if solve is not covopt.frank_wolfe else {"lam": 0.0}))
        assert "column 'x0' spans" in str(caught.value)
        assert "standardise=True (--standardise)" in str(caught.value)
        assert str(caught.value).count(". ") == 0
    done = covopt.min_norm(X, y, standardise=True)
    assert done.status == "certified"
    assert covopt.verify(done).ok


def test_what_is_not_refused():
    X, y = _stamps()
    assert covopt.min_norm(X[:, :1], y).status == "certified"  # alone
    X[:, 1] = 7.0  # beside a constant, which the bias joins: a day of seconds has hardly the digits
    found = covopt.min_norm(X, y)
    assert found.gap < found.tol
    assert found.certificate.residual < 2e-9
    months = np.column_stack([1.6e9 + 3e7 * np.arange(12.0), _stamps()[0][:, 1]])
    assert covopt.min_norm(months, y).status == "certified"
