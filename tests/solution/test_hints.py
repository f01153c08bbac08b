"""The sentence about units and λ in a summary: said where it helps, and only there."""

from dataclasses import replace

import numpy as np
import pytest

import covopt
from covopt.solution.summary import hint, predict_columns, quality
from covopt.status import Status


def make_line(n=20):
    x = np.linspace(-1.0, 1.0, n)
    return x[:, None], np.abs(x)


def test_nothing_is_said_of_a_good_fit():
    X, y = make_line()
    found = covopt.fit(X, y, lam="0.01max")
    assert quality(found)[1] > 0.9
    assert hint(found) == ""
    assert "hint" not in found.summary()
    assert hint(covopt.min_norm(X, y)) == ""


def test_lambda_is_named_where_units_are_not_the_reason():
    X, y = make_line()
    said = hint(covopt.fit(X, y - y.mean(), lam="max"))
    assert said == (
        "R² 0 is hardly better than a constant: λ is large for this table. A smaller λ fits closer (--lam, lam)."
    )
    assert "standardise" not in hint(covopt.fit(X, y, lam="max", standardise=True))


def test_the_offset_and_the_columns_are_named():
    X, y = make_line()
    found = covopt.fit(X, y + 1000.0, lam="0.5max")
    said = hint(found)
    assert said.startswith("R² -")
    assert (
        "is worse than a constant: the offset of y (mean 1e+03, spread 0.302) has to be paid by neurons."
        in said
    )
    assert said.endswith(
        "--standardise (standardise=True) solves with columns of unit variance and targets of mean 0, and a smaller "
        "λ fits closer (--lam, lam)."
    )
    assert f"hint           {said}" in found.summary()
    assert hint(covopt.fit(X, y + 1000.0, lam="0.01max", output_bias="free")) == ""
    wide = np.column_stack([X[:, 0], 2e4 * np.cos(3 * X[:, 0])])
    for bias, centred in ((1, True), (0, False)):
        fitted = covopt.fit(wide, y, lam="0.001max", bias=bias)
        assert hint(fitted) == ""
        fitted.status, fitted.certificate = Status.TIME_LIMIT, replace(fitted.certificate, gap=0.9)
        said = hint(fitted)
        assert "columns differ in units: x1 spreads 1.42e+04, x0 0.607. --standardise" in said
        assert ("mean 0" in said) is centred


@pytest.mark.parametrize(("lam", "poor"), [("max", True), ("0.001max", False)])
def test_an_accuracy_that_guessing_has_too(lam, poor):
    X, y = make_line()
    labels = np.where(y > 0.7, "high", "low")
    said = hint(covopt.fit(X, labels, loss="logistic", lam=lam))
    assert ("is not above the 0.7 of the largest class" in said) is poor
    assert "targets" not in said


def test_classes_of_the_softmax():
    X, y = make_line(12)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [0.3, 0.7])]
    assert "of the largest class: λ is large" in hint(
        covopt.fit(X, labels, loss="softmax-cross-entropy", lam="max")
    )


def test_a_damaged_solution_gets_no_hint():
    X, y = make_line()
    found = covopt.fit(X, y, lam="max")
    content = found.to_dict()
    content["problem"]["X"][0][0] = float("nan")
    assert hint(covopt.Solution.from_dict(content)) == ""


def test_a_run_that_was_stopped_is_not_told_to_take_a_smaller_lambda():
    X, y = make_line()
    found = covopt.fit(X, y - y.mean(), lam="max")
    found.status = Status.TIME_LIMIT
    found.certificate = replace(found.certificate, gap=0.9)
    assert hint(found).endswith(
        "the run was stopped at a gap of 0.9. More time finds a better network (--time-limit)."
    )
    offset = covopt.fit(X, y + 1000.0, lam="0.5max")
    offset.status = Status.TIME_LIMIT
    offset.certificate = replace(offset.certificate, gap=0.9)
    assert "--standardise" in hint(offset)  # more time does not help where units are why


def test_one_row_has_no_spread_and_columns_have_the_names_of_targets():
    name, value = quality(covopt.min_norm([[1.0]], [2.0]))
    assert name == "R²" and np.isnan(value)
    two = covopt.min_norm([[0.0], [1.0]], [[0.0, 1.0], [1.0, 0.0]])
    assert list(predict_columns(two, [[0.5]])) == ["y0", "y1"]
