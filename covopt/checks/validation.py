"""Checks of scalar options; their messages name the option, the rule and the received value."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from covopt.errors import InputError
from covopt.files.schema import shown

OUTPUT_BIASES = ("none", "penalized", "free")


def is_number(value: Any) -> bool:
    """Return whether it is a real number, NaN and infinity included; booleans are not."""
    return isinstance(value, Real) and type(value).__name__ not in {"bool", "bool_"}


def is_whole(value: Any, least: int) -> bool:
    """Return whether it is an integer of at least ``least``; 2.0 is not."""
    return (
        isinstance(value, Integral) and type(value).__name__ not in {"bool", "bool_"} and int(value) >= least
    )


def as_double(value: Any) -> float:
    """Return a number as a float; integers and fractions beyond the doubles become infinite.

    Examples
    --------
    >>> as_double(3), as_double(-(10**400))
    (3.0, -inf)
    """
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)


def as_doubles(values: Any) -> np.ndarray:
    """Return numbers as an array of floats, infinite for numbers beyond the doubles.

    Raises
    ------
    TypeError, ValueError
        For complex numbers, and for values that are not numbers.

    Examples
    --------
    >>> as_doubles([10**400, 1])
    array([inf,  1.])
    """
    if np.iscomplexobj(values):
        raise TypeError("complex numbers have no order")
    try:
        return np.asarray(values, dtype=float)
    except OverflowError:
        given = np.asarray(values, dtype=object)
        return np.array([as_double(value) for value in given.ravel()]).reshape(given.shape)


def check_number(name: str, value: Any, rule: str, holds: Callable[[float], bool]) -> float:
    """Return an option as a float if it satisfies a rule.

    Parameters
    ----------
    name : str
    value : object
    rule : str
        The rule in words, for the message.
    holds : callable
        Returns whether a float satisfies the rule; False for NaN.

    Raises
    ------
    InputError
        Otherwise.

    Examples
    --------
    >>> check_number("slope", 0, "a number in (-1, 1]", lambda a: -1 < a <= 1)
    0.0
    """
    if not is_number(value) or not holds(as_double(value)):
        raise InputError(f"{name} must be {rule}; received {shown(value)}.")
    return as_double(value)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return an integer of at least ``least``.

    Raises
    ------
    InputError
        Otherwise.

    Examples
    --------
    >>> check_count("n_threads", 0)
    Traceback (most recent call last):
    covopt.errors.InputError: n_threads must be a positive integer; received 0.
    """
    if not is_whole(value, least):
        kinds = {0: "a nonnegative integer", 1: "a positive integer"}
        rule = kinds.get(least, f"an integer of at least {least}")
        raise InputError(f"{name} must be {rule}; received {shown(value)}.")
    return int(value)


def check_tol(tol: Any, name: str = "tol") -> float:
    """Return a relative tolerance as a float in (0, 1).

    Raises
    ------
    InputError
        If it is not a number in (0, 1).

    Examples
    --------
    >>> check_tol(1e-6)
    1e-06
    >>> check_tol(-1)
    Traceback (most recent call last):
    covopt.errors.InputError: tol must be a positive finite number below 1 (a relative gap); received -1. ...
    """
    if name != "tol":  # another fraction: the advice about gaps does not apply
        return check_number(name, tol, "a positive number below 1", lambda t: 0 < t < 1)
    if is_number(tol) and 0 < as_double(tol) < 1:
        return as_double(tol)
    raise InputError(
        f"{name} must be a positive finite number below 1 (a relative gap); received {shown(tol)}. "
        "The default is 1e-6; 1e-9 is the tightest that can be certified in double precision."
    )


def check_time_limit(time_limit_s: Any, name: str = "time_limit_s") -> float | None:
    """Return a time limit in seconds, None for no limit (None or infinity).

    Raises
    ------
    InputError
        If it is not a positive number.
    """
    if time_limit_s is None:
        return None
    seconds = as_double(time_limit_s) if is_number(time_limit_s) else math.nan
    if not seconds > 0:
        raise InputError(
            f"{name} must be a positive number of seconds, or None for no limit; received {shown(time_limit_s)}."
        )
    return None if math.isinf(seconds) else seconds


def check_positive(name: str, value: Any) -> float:
    """Return a positive finite number as a float.

    Raises
    ------
    InputError
        Otherwise.

    Examples
    --------
    >>> check_positive("lam", 0)
    Traceback (most recent call last):
    covopt.errors.InputError: lam must be a positive finite number; received 0.
    """
    return check_number(name, value, "a positive finite number", lambda v: 0 < v < math.inf)


def check_slope(slope: Any) -> float:
    """Return the slope of a LeakyReLU as a float in (-1, 1).

    Raises
    ------
    InputError
        Otherwise.
    """
    return check_number("slope", slope, "a number in (-1, 1), 0 for the ReLU", lambda a: -1 < a < 1)


def check_bias(bias: Any) -> float:
    """Return the amount of bias β ≥ 0 as a float; 0 means no bias column.

    Raises
    ------
    InputError
        If it is not a number, not finite, or negative.
    """
    rule = "a finite number that is 0 (no bias) or positive (1 is the usual one)"
    return check_number("bias", bias, rule, lambda b: 0 <= b < math.inf)


def check_output_bias(output_bias: Any, bias: Any) -> str:
    """Return the kind of output bias; it is a multiple of the bias, which must be positive.

    Raises
    ------
    InputError
        For an unknown kind, and for an output bias of a network without bias.

    Examples
    --------
    >>> check_output_bias("free", 0.0)
    Traceback (most recent call last):
    covopt.errors.InputError: output_bias='free' needs a positive bias: the output bias enters the network as bias * b
    """
    check_choice("output_bias", output_bias, OUTPUT_BIASES)
    if output_bias != "none" and check_bias(bias) == 0:
        raise InputError(
            f"output_bias={output_bias!r} needs a positive bias: the output bias enters the network as bias * b"
        )
    return output_bias


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'a' or 'b'?"`` if there are similar names, else an empty string."""
    known = list(known)
    near = [other for other in known if other.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


def check_random_state(random_state: Any, name: str = "random_state") -> int | None:
    """Return the seed if it is a nonnegative integer or None.

    Raises
    ------
    InputError
        Otherwise.

    Examples
    --------
    >>> check_random_state(7)
    7
    """
    if random_state is None:
        return None
    if not is_whole(random_state, 0):
        raise InputError(f"{name} must be a nonnegative integer or None; received {shown(random_state)}.")
    return int(random_state)


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``allowed``.

    Raises
    ------
    InputError
        Otherwise, with the choices and the most similar one.

    Examples
    --------
    >>> check_choice("duplicates", "men", ("error", "mean"))
    Traceback (most recent call last):
    covopt.errors.InputError: duplicates must be one of 'error', 'mean'; received 'men'; did you mean 'mean'?
    """
    allowed = tuple(allowed)
    if isinstance(value, str) and value in allowed:
        return value
    hint = suggest(value, allowed) if isinstance(value, str) else ""
    choices = ", ".join(repr(a) for a in allowed)
    raise InputError(f"{name} must be one of {choices}; received {shown(value)}{hint or '.'}")
