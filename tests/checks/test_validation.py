"""Every check of an option: what passes, and the message where it does not."""

import math
from decimal import Decimal

import numpy as np
import pytest

from covopt.checks import validation as checks
from covopt.errors import InputError

NUMBERS_NO = (None, "1", True, np.True_, math.nan, [1.0], 1j)
COUNTS_NO = (None, "1", True, np.False_, 1.0, 2.5, math.nan, -1)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(1)])
def test_real_numbers_pass_as_floats(value):
    assert type(checks.check_positive("lam", value)) is float
    assert checks.check_bias(value) == checks.check_number("x", value, "small", lambda v: v < 2) == value


@pytest.mark.parametrize("value", NUMBERS_NO)
def test_what_is_no_number_is_refused(value):
    for check, words in (
        (lambda: checks.check_positive("lam", value), "lam must be a positive finite number; received"),
        (lambda: checks.check_bias(value), "bias must be a finite number that is 0 .* received"),
        (lambda: checks.check_slope(value), r"slope must be a number in \(-1, 1\), 0 for the ReLU; received"),
        (lambda: checks.check_tol(value), r"tol must be a positive finite number below 1 .* received"),
        (lambda: checks.check_tol(value, "eps"), "eps must be a positive number below 1; received"),
        (lambda: checks.check_number("x", value, "small", lambda v: v < 2), "x must be small; received"),
    ):
        with pytest.raises(InputError, match=words):
            check()
    if value is not None:
        with pytest.raises(InputError, match="time_limit_s must be a positive number of seconds, or None"):
            checks.check_time_limit(value)


@pytest.mark.parametrize(
    ("check", "edge"),
    [
        (checks.check_bias, -1e-300), (checks.check_bias, math.inf), (checks.check_slope, 1),
        (checks.check_slope, -1), (checks.check_tol, 0), (checks.check_tol, 1), (checks.check_time_limit, 0),
    ],
)  # fmt: skip
def test_the_edges_are_outside(check, edge):
    with pytest.raises(InputError, match="received"):
        check(edge)


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


@pytest.mark.parametrize("value", COUNTS_NO)
def test_what_is_no_count_is_refused(value):
    for least, rule in (
        (0, "a nonnegative integer"),
        (1, "a positive integer"),
        (3, "an integer of at least 3"),
    ):
        with pytest.raises(InputError, match=f"n must be {rule}; received"):
            checks.check_count("n", value, least)
    if value is not None:
        with pytest.raises(InputError, match="random_state must be a nonnegative integer or None; received"):
            checks.check_random_state(value)


def test_a_choice_names_its_neighbours():
    with pytest.raises(InputError, match="one of 'error', 'mean'; received 'men'; did you mean 'mean'"):
        checks.check_choice("duplicates", "men", ("error", "mean"))
    with pytest.raises(InputError, match=r"received 3\.$"):
        checks.check_choice("duplicates", 3, ("error", "mean"))
    with pytest.raises(InputError, match="output_bias='free' needs a positive bias"):
        checks.check_output_bias("free", 0.0)
    assert checks.check_output_bias("none", 0.0) == "none"
