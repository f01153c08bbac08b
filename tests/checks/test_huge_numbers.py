"""Numbers that no double holds, wherever a user may give one: a sentence, no OverflowError."""

import numpy as np
import pytest

import covopt
from covopt.errors import CovoptError, InputError

X, Y = [[0.0], [1.0]], [0.0, 1.0]
CALLS = {
    "tol": lambda value: covopt.min_norm(X, Y, tol=value),
    "bias": lambda value: covopt.min_norm(X, Y, bias=value),
    "lam": lambda value: covopt.fit(X, Y, lam=value),
    "lams": lambda value: covopt.path(X, Y, lams=[value]),
    "sample_weight": lambda value: covopt.fit(X, Y, lam=0.1, sample_weight=[value, 1.0]),
    "random_state": lambda value: covopt.min_norm(X, Y, random_state=-abs(value)),
    "depth": lambda value: covopt.representation_cost(X, Y, depth=value),
    "X": lambda value: covopt.min_norm([[value], [1.0]], Y),
    "Y": lambda value: covopt.min_norm(X, [value, 1.0]),
    "cells": lambda value: covopt.count_cells([[value], [1.0]]),
    "cp_rank": lambda value: covopt.cp_rank([[1, 0], [0, 1]], tol=value),
    "price": lambda value: covopt.price([[value], [1.0]], [1.0, 1.0]),
}


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**6000], ids=["400", "-400", "6000"])
@pytest.mark.parametrize("name", CALLS)
def test_huge_whole_numbers_are_refused(name, value):
    with pytest.raises(CovoptError) as caught:
        CALLS[name](value)
    assert len(str(caught.value)) < 400


def test_a_huge_time_limit_is_none():
    assert covopt.min_norm(X, Y, time_limit_s=10**400).status == "certified"


@pytest.mark.parametrize("value", [1j, object(), "one"])
def test_predictions_are_of_real_numbers(value):
    with pytest.raises(InputError, match="X must hold real numbers"):
        covopt.min_norm(X, Y).network.predict([[value]])


@pytest.mark.parametrize("bias", [5e-324, 1e-300, 1e-160])
@pytest.mark.parametrize("potential", ["variation", "label-noise"])
def test_a_row_beside_which_others_are_infinite_is_refused(bias, potential):
    with pytest.raises(InputError, match="double precision has no room for both"):
        covopt.min_norm(X, Y, bias=bias, potential=potential)
    with pytest.raises(InputError, match="double precision has no room for both"):
        covopt.fit(X, Y, lam=0.1, bias=bias, potential=potential)


@pytest.mark.parametrize("bias", [1e-120, 1e-30])
def test_a_tiny_bias_has_a_certificate_that_is_valid(bias):
    found = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0], bias=bias)
    assert covopt.verify(found).ok
    assert found.lower_bound <= found.cost * (1 + 1e-9)
    assert np.isfinite(found.cost)
