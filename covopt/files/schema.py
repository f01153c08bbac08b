"""The layout of every JSON file that covopt writes, as tables: one line per field, one sentence where it is broken.

A table maps names to kinds; a kind is a function that says what a value should be where it is not, or another table.
Names that a table does not know are left alone: files of later versions may have more.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

SHOWN = 80  # letters of a value in a message
MOST_FRACTION = 4000  # digits of a numerator or denominator
_FRACTION = re.compile(rf"[+-]?[0-9]{{1,{MOST_FRACTION}}}(/[0-9]{{1,{MOST_FRACTION}}})?")

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3

Kind = Callable[[Any], str | None]
Table = Mapping[str, "Kind | Table"]


def check_content(content: Any, table: Table, name: str = "the content") -> None:
    """Compare parsed JSON with a table.

    Parameters
    ----------
    content : object
    table : mapping of str to kind or table
    name : str
        For the message.

    Raises
    ------
    ValueError
        For the first field that is missing or of another kind.

    Examples
    --------
    >>> check_content({"a": 1, "b": {"c": "x"}}, {"a": number, "b": {"c": text}})
    >>> check_content({"a": "one"}, {"a": number})
    Traceback (most recent call last):
    ValueError: 'a' must be a number; received 'one'
    """
    if not isinstance(content, dict):
        raise ValueError(f"{name} must be an object with names; received {shown(content)}")
    for field, kind in table.items():
        if field not in content:
            if isinstance(kind, _Maybe) and kind.absent:
                continue
            raise ValueError(f"{field!r} is missing")
        value = content[field]
        if not callable(kind):  # a table; whether it is a Mapping takes longer to say
            check_content(value, kind, repr(field))
            continue
        wanted = kind(value)
        if wanted is not None:
            raise ValueError(f"{field!r} must be {wanted}; received {shown(value)}")


def shown(value: Any) -> str:
    """Return a value as text, shortened.

    Examples
    --------
    >>> len(shown("x" * 1000)) < 40, shown([{"a": [1, 2, 3]}])
    (True, "[{'a': [...]}]")
    """
    full = _SHORT.repr(value)
    return full if len(full) <= SHOWN else f"{full[: SHOWN - 1]}…"


def text(value: Any) -> str | None:
    """Take text of at most 10 000 letters that every screen can show: half letters (surrogates) end programs."""
    good = isinstance(value, str) and len(value) <= 10_000
    if good and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)):
        return None
    return "text"


def line(value: Any) -> str | None:
    """Take one line of text, without control characters: a summary that prints it cannot be given lines by it."""
    return None if text(value) is None and value.isprintable() else "one line of text"


def number(value: Any) -> str | None:
    """Take a number in the range of doubles."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if good and isinstance(value, int):
        good = abs(value) < 2**1023
    return None if good else "a number"


def finite(value: Any) -> str | None:
    """Take a finite number."""
    return None if number(value) is None and math.isfinite(value) else "a finite number"


def share(value: Any) -> str | None:
    """Take a tolerance: a number in (0, 1)."""
    return None if number(value) is None and 0 < value < 1 else "a number between 0 and 1"


def whole(value: Any) -> str | None:
    """Take a nonnegative integer."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return None if good else "a nonnegative integer"


def flag(value: Any) -> str | None:
    """Take True or False."""
    return None if isinstance(value, bool) else "true or false"


def rows(value: Any) -> str | None:
    """Take a list; :func:`numbers` looks into it."""
    return None if isinstance(value, list) else "a list"


def fraction(value: Any) -> str | None:
    """Take a fraction as text, such as ``-3/7``; powers of ten could fill the memory."""
    return (
        None
        if isinstance(value, str) and _FRACTION.fullmatch(value)
        else "a fraction as text, such as '-3/7'"
    )


class _Each:
    def __init__(self, kind: Kind | Table, what: str):
        self.kind, self.what = kind, what

    def __call__(self, value: Any) -> str | None:
        if not isinstance(value, list):
            return f"a list of {self.what}"
        for place, entry in enumerate(value):
            if not callable(self.kind):
                check_content(entry, self.kind, f"entry {place} of a list of {self.what}")
            elif self.kind(entry) is not None:
                return f"a list of {self.what}: entry {place} is {shown(entry)}"
        return None


class _Maybe:
    def __init__(self, kind: Kind, absent: bool):
        self.kind, self.absent = kind, absent

    def __call__(self, value: Any) -> str | None:
        wanted = None if value is None else self.kind(value)
        return None if wanted is None else f"{wanted} or null"


def each(kind: Kind | Table, what: str) -> Kind:
    """Take a list of such values."""
    return _Each(kind, what)


def maybe(kind: Kind, *, absent: bool = False) -> Kind:
    """Take such a value or null; ``absent``: or no field of that name."""
    return _Maybe(kind, absent)


def seconds(value: Any) -> str | None:
    """Take an object of names with nonnegative finite numbers."""
    good = isinstance(value, dict) and all(finite(each) is None and each >= 0.0 for each in value.values())
    return None if good else "an object of seconds"


def record(value: Any) -> str | None:
    """Take an object with names."""
    return None if isinstance(value, dict) else "an object with names"


def numbers(name: str, value: Any) -> np.ndarray:
    """Return a list of numbers, or a list of lists of them, as an array of doubles.

    Raises
    ------
    ValueError
        Where something else is in it, or the rows differ in length.

    Examples
    --------
    >>> numbers("X", [[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    >>> numbers("X", [[1, "2"]])
    Traceback (most recent call last):
    ValueError: 'X' must hold numbers, in rows of one length
    """
    try:
        found = np.array(value)
        if found.dtype.kind == "O" and found.size and all(number(entry) is None for entry in found.flat):
            found = found.astype(float)
    except (ValueError, OverflowError, MemoryError):
        found = np.array(None)
    if found.size == 0 and isinstance(value, list) and found.dtype.kind == "f":
        return found
    if found.dtype.kind not in "fiu" or found.ndim not in (1, 2):
        raise ValueError(f"{name!r} must hold numbers, in rows of one length")
    return found.astype(float)


def fractions(entries: Sequence[Any]) -> list[Fraction]:
    """Return fractions from text.

    Raises
    ------
    ValueError
        For other text, and for a zero denominator.

    Examples
    --------
    >>> fractions(["1/2", "-3"])
    [Fraction(1, 2), Fraction(-3, 1)]
    """
    found = []
    for entry in entries:
        if fraction(entry) is not None:
            raise ValueError(f"expected {fraction(entry)}; received {shown(entry)}")
        try:
            found.append(Fraction(entry))
        except ZeroDivisionError:
            raise ValueError(f"the fraction {shown(entry)} has the denominator 0") from None
    return found


def _scalar(value: Any) -> str | None:
    return None if value is None or isinstance(value, str | int | float) else "text or a number"


LOSS: Table = {
    "name": line,
    "classes": maybe(each(_scalar, "classes"), absent=True),
    "column": maybe(text, absent=True),
    "total": maybe(flag, absent=True),
}

SCALING: Table = {"centre": rows, "scale": rows, "target_centre": rows}

PROBLEM: Table = {
    "X": rows,
    "Y": rows,
    "bias": number,
    "output_bias": line,
    "potential": line,
    "feature_names": each(text, "names"),
    "target_names": each(text, "names"),
    "notes": each(line, "notes"),
    "scaling": maybe(record, absent=True),
}

NETWORK: Table = {"hidden_weights": rows, "output_weights": rows, "output_bias": rows}

CERTIFICATE: Table = {"residual": number, "gauge": number, "exact": flag, "bound": line}

SOLUTION: Table = {
    "status": line,
    "cost": number,
    "lower_bound": number,
    "gap": number,
    "tol": share,
    "problem": PROBLEM,
    "network": NETWORK,
    "dual": rows,
    "dual_low": maybe(rows, absent=True),
    "proof": maybe(
        record, absent=True
    ),  # multipliers of a semidefinite relaxation, once: the dual norm is computed anew
    "certificate": CERTIFICATE,
    "solver": line,
    "random_state": maybe(whole),
    "time_s": finite,
    "timings": maybe(seconds, absent=True),
    "history": each(record, "rounds"),
}

SOLUTION_WITH_LOSS: Table = {
    **SOLUTION,
    "problem": {**PROBLEM, "lam": number, "loss": LOSS, "sample_weight": maybe(rows)},
    "certificate": {**CERTIFICATE, "objective": number, "loss_value": number},
}

DEEP_NETWORK: Table = {"weights": each(rows, "layers"), "biases": each(maybe(rows), "layers")}

DEEP_SOLUTION: Table = {
    "status": line,
    "depth": whole,
    "cost": finite,
    "lower_bound": finite,
    "tol": share,
    "problem": {name: kind for name, kind in PROBLEM.items() if name != "potential"},
    "network": DEEP_NETWORK,
    "bounds": each(record, "bounds"),
    "random_state": maybe(whole),
    "time_s": finite,
    "timings": maybe(seconds, absent=True),
    "history": each(record, "steps"),
}

DEEP_FIT: Table = {
    **DEEP_SOLUTION,
    "objective": finite,
    "problem": {**DEEP_SOLUTION["problem"], "lam": number, "loss": LOSS, "sample_weight": maybe(rows)},  # type: ignore[dict-item]
}

REASON: Table = {
    "side": line,
    "value": maybe(whole),
    "method": line,
    "text": line,
    "vertices": each(whole, "rows"),
    "data": record,
}

READING: Table = {
    "name": line,
    "status": line,
    "lower": maybe(whole),
    "upper": maybe(whole),
    "factor": maybe(rows, absent=True),
    "reasons": each(REASON, "reasons"),
}

CP_RANK: Table = {
    "status": line,
    "lower": maybe(whole),
    "upper": maybe(whole),
    "upper_numerical": maybe(whole, absent=True),
    "matrix": rows,
    "exact": maybe(each(each(fraction, "fractions"), "rows")),
    "tol": share,
    "readings": each(READING, "readings"),
    "notes": each(line, "notes"),
    "time_s": finite,
}

GAP: Table = {
    "ladder": record,
    **dict.fromkeys(("gap", "excess", "refit_gap"), maybe(number, absent=True)),
    "what": line,
    "formula": line,
    "notes": each(line, "notes"),
    "findings": each(line, "findings"),
    "tol": share,
    "time_s": finite,
    "networks": record,
    "best": record,
}
