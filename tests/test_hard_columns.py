"""The columns that make a table hard by their scale: found by what a change of units does, not by their names."""

import numpy as np
import pytest

import covopt
from covopt.data import Data
from covopt.errors import InputError
from covopt.solution.scales import hard_columns


def _table(n=80):
    rng = np.random.default_rng(0)
    return np.column_stack([rng.standard_normal((n, 3)), rng.integers(0, 2, n)]), rng.standard_normal(n)


def _said(X, y, bias=1.0):
    return hard_columns(Data.validate(X, y, bias=bias, feature_names=tuple("abcd")))


def test_nothing_is_said_of_columns_of_one_size():
    assert _said(*_table()) == []


@pytest.mark.parametrize(
    ("column", "factor", "shift", "words"),
    [
        (1, 9.0, 2005.0, ["b: ", "far from zero", "subtract 200"]),
        (2, 5e4, 0.0, ["c: ", "is large, the others' is about", "divide by 10"]),
        (0, 1e-5, 0.0, ["a: ", "is small, the others' is about", "multiply by 10"]),
        (1, 1e8, 1.4e9, ["b: ", "far from zero", "subtract 14", "divide by 1000"]),
        (1, 9.0, -2005.0, ["b: ", "far from zero", "add 20"]),
    ],
)
def test_the_column_is_named_with_what_helps(column, factor, shift, words):
    X, y = _table()
    X[:, column] = X[:, column] * factor + shift
    said = _said(X, y)
    assert len(said) == 1
    assert all(word in said[0] for word in words), said


def test_doing_what_is_said_helps():
    X, y = _table()
    X[:, 1] = X[:, 1] * 1e8 + 1.4e9
    text = _said(X, y)[0]
    subtract, divide = (float(text.split(f"{verb} ")[1].split()[0]) for verb in ("subtract", "divide by"))
    before, after = np.linalg.cond(X), X.copy()
    after[:, 1] = (after[:, 1] - subtract) / divide
    assert np.linalg.cond(after) < 1e-6 * before
    assert _said(after, y) == []


def test_constant_columns_and_no_bias():
    X, y = _table()
    X[:, 3] = 7.0
    assert _said(X, y) == []
    X[:, 0] *= 1e6
    assert len(_said(X, y, bias=0.0)) == 1


def test_the_summary_says_it_where_the_gap_is_open():
    X, y = _table(30)
    X[:, 1] = 9.0 * X[:, 1] + 2005.0
    stopped = covopt.fit(X, y, lam=1e-4, callback=lambda state: True)
    assert stopped.gap > stopped.tol
    assert "hard column    x1: " in stopped.summary()
    done = covopt.fit(X, y, lam="0.9max", tol=0.3)
    assert done.status == "certified"
    assert "hard column" not in done.summary()


@pytest.mark.parametrize("factor", [1e-40, 1e-300])
def test_columns_that_are_all_tiny_beside_the_bias_are_named(factor):
    X, y = _table()
    said = _said(factor * X, y)
    assert [line[0] for line in said] == ["a", "b", "c"]
    assert all(f"the bias is 1: multiply by {1 / factor:.0e}" in line for line in said), said
    assert _said(factor * X, y, bias=factor) == []
    assert _said(factor * X, y, bias=0.0) == []


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
    X[:, 1] = 7.0  # beside a constant
    assert covopt.min_norm(X, y).status == "certified"
    months = np.column_stack([1.6e9 + 3e7 * np.arange(12.0), _stamps()[0][:, 1]])
    assert covopt.min_norm(months, y).status == "certified"
