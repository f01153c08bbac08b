"""Numbers of users as arrays of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.checks.validation import as_double
from covopt.errors import InputError


def as_doubles(values: Any) -> np.ndarray:
    """Return numbers as an array of floats, infinite where they are above the doubles.

    Raises
    ------
    TypeError, ValueError
        For complex numbers and what are no numbers.

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


def to_doubles(X: Any) -> np.ndarray:
    """Return a table as an array of floats.

    Raises
    ------
    InputError
        Where it holds what are no real numbers.

    Examples
    --------
    >>> to_doubles([[1j]])
    Traceback (most recent call last):
    covopt.errors.InputError: X must hold real numbers, one row per point: complex numbers have no order.
    """
    try:
        return as_doubles(X)
    except (TypeError, ValueError) as error:
        raise InputError(f"X must hold real numbers, one row per point: {error}.") from None
