"""One of anything is in the singular wherever people read it; checks of options, and what passes."""

import math
from decimal import Decimal

import numpy as np
import pytest

import covopt
from covopt.checks import validation as checks
from covopt.checks.wording import counted, listed
from tests.cases import cases


@pytest.mark.parametrize(("arguments", "text"), cases("nouns that are counted"))
def test_counted(arguments, text):
    assert counted(*arguments) == text


def test_summaries_of_one_point():
    solution = covopt.min_norm([[1.0]], [2.0])
    certificate = covopt.cp_rank([[1]])
    checks = [check.detail for check in covopt.verify(solution).checks]
    shown = "\n".join(
        [solution.summary(), certificate.summary(), *checks, covopt.frank_wolfe([[1.0]], [2.0]).summary()]
    )
    assert "1 point, 1 feature" in shown
    assert "1 neuron on 2 inputs" in shown
    assert "1 nonnegative row," in shown
    assert not any(
        f" 1 {noun}s" in shown for noun in ("point", "feature", "neuron", "row", "round", "iteration")
    )


def test_ten_columns_are_all_named():
    names = [f"column{j}" for j in range(10)]
    assert listed(names) == ", ".join(names)
    assert listed(names * 3).endswith("…, column9 (30 in all)")


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(1)])
def test_real_numbers_pass_as_floats(value):
    assert type(checks.check_positive("lam", value)) is float
    assert checks.check_bias(value) == checks.check_number("x", value, "small", lambda v: v < 2) == value


def test_the_edges_are_inside():
    assert checks.check_bias(0) == checks.check_slope(0) == 0.0
    assert checks.check_time_limit(math.inf) is None
    assert checks.check_time_limit(5e-324) == 5e-324
    assert checks.check_tol(math.nextafter(1.0, 0.0)) < 1
    assert not checks.is_number(Decimal(1))


@pytest.mark.parametrize("value", [1, np.int8(1), np.uint64(1)])
def test_integers_pass_as_ints(value):
    assert type(checks.check_count("n", value)) is int
    assert checks.check_random_state(value) == 1
    assert checks.is_whole(value, 1)
    assert not checks.is_whole(value, 2)
