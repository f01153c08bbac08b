"""The sentence about units and λ in a summary: said where it helps, and only there."""

import re
from dataclasses import replace

import numpy as np
import pytest

import covopt
from covopt.errors import Status
from covopt.solution.summary import hint
from tests.cases import cases

X = np.linspace(-1.0, 1.0, 20)[:, None]
Y = np.abs(X[:, 0])
WIDE = np.column_stack([X[:, 0], 2e4 * np.cos(3 * X[:, 0])])
CLASSES = np.array(["a", "b", "c"])[np.digitize(Y, [0.3, 0.7])]


def stopped(found):
    found.status, found.certificate = Status.TIME_LIMIT, replace(found.certificate, gap=0.9)
    return found


def damaged(found):
    content = found.to_dict()
    content["problem"]["X"][0][0] = float("nan")
    return covopt.Solution.from_dict(content)


HINTS = cases(
    "solutions, and what is said of them", fit=covopt.fit, min_norm=covopt.min_norm, stopped=stopped, damaged=damaged,
    X=X, Y=Y, WIDE=WIDE, HIGH=np.where(Y > 0.7, "high", "low"), CLASSES=CLASSES,
)  # fmt: skip


@pytest.mark.parametrize(("ask", "pattern"), HINTS)
def test_what_is_said(ask, pattern):
    found = ask()
    said = hint(found)
    assert re.search(pattern, said) if pattern else said == ""
    if np.isfinite(found.data.X).all():
        assert ("hint" in found.summary()) is bool(said) and said in found.summary()
