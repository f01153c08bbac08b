"""Every check of an option: what passes, and the message where it does not."""

import math
from decimal import Decimal

import numpy as np
import pytest

from covopt.checks import validation as checks


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
