"""Numbers among the options of a problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from covopt.errors import InputError


def within(name: str, value: Any, rule: str, holds: Callable[[float], bool]) -> float:
    """Return an option as a float, once it is known to follow its rule.

    Parameters
    ----------
    name : str
    value : object
    rule : str
        In words, for the message.
    holds : callable

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> within("slope", 0, "a number in (-1, 1]", lambda a: -1 < a <= 1)
    0.0
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if isinstance(value, bool | str) or not holds(number):
        raise InputError(f"{name} must be {rule}; received {value!r}.")
    return number
