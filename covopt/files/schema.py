"""The layouts of all JSON files of covopt as tables, with one line per field, and the check of content against them.

A table maps names of fields to kinds of values, or to other tables.
Fields that are not in the table are ignored: files of later versions may have more.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

SHOWN = 80  # most letters of a value in a message
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = SHOWN
_FRACTION = re.compile(r"[+-]?[0-9]+(/[0-9]+)?")


@dataclass(frozen=True)
class Kind:
    """A kind of values.

    Attributes
    ----------
    what : str
        Its name in messages.
    holds : callable
        Returns whether a value is of this kind.
    entries : Kind or table, optional
        The kind of the entries of a list.
    absent : bool
        Whether the field may be missing.
    """

    what: str
    holds: Callable[[Any], bool]
    entries: Kind | Table | None = None
    absent: bool = False


Table = Mapping[str, "Kind | Table"]


def check_content(content: Any, kind: Kind | Table, name: str = "the content") -> None:
    """Check parsed JSON against a table, or against one kind.

    Parameters
    ----------
    content : object
    kind : Kind, or mapping of str to kinds and tables
    name : str
        The name of the content in messages.

    Raises
    ------
    ValueError
        With the first field that is missing or of another kind.

    Examples
    --------
    >>> check_content({"a": 1, "b": {"c": "x"}}, {"a": number, "b": {"c": text}})
    >>> check_content({"a": "one"}, {"a": number})
    Traceback (most recent call last):
    ValueError: 'a' must be a number; received 'one'
    >>> check_content({"a": [1, None]}, {"a": each(number)})
    Traceback (most recent call last):
    ValueError: entry 1 of 'a' must be a number; received None
    """
    wanted = kind if isinstance(kind, Kind) else record
    if not wanted.holds(content):
        raise ValueError(f"{name} must be {wanted.what}; received {shown(content)}")
    for place, entry in enumerate(content or () if wanted.entries is not None else ()):
        check_content(entry, wanted.entries, f"entry {place} of {name}")  # type: ignore[arg-type]
    for field, inner in ({} if isinstance(kind, Kind) else kind).items():
        if field in content:
            check_content(content[field], inner, repr(field))
        elif not (isinstance(inner, Kind) and inner.absent):
            raise ValueError(f"{field!r} is missing")


def shown(value: Any) -> str:
    """Return a short text for a received value.

    Examples
    --------
    >>> len(shown("a" * 1000)), shown(10**5000), len(shown([list(range(90))] * 90))
    (80, 'int of many digits', 80)
    """
    try:
        full = _BRIEF.repr(value)
    except ValueError:  # Python writes at most 4300 digits
        return f"{type(value).__name__} of many digits"
    return full if len(full) <= SHOWN else f"{full[: SHOWN - 1]}…"


def _is_text(value: Any) -> bool:
    """Accept text of at most 10 000 letters without surrogates, which cannot be printed."""
    good = isinstance(value, str) and len(value) <= 10_000
    return good and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 2**1023)


def _is_fraction(value: Any) -> bool:
    """Accept no exponents, which could exhaust the memory."""
    return isinstance(value, str) and _FRACTION.fullmatch(value) is not None


text = Kind("text", _is_text)
# without control characters, so that it cannot add lines to a summary
line = Kind("one line of text", lambda value: _is_text(value) and value.isprintable())
number = Kind("a number", _is_number)
finite = Kind("a finite number", lambda value: _is_number(value) and math.isfinite(value))
share = Kind("a number between 0 and 1", lambda value: _is_number(value) and 0 < value < 1)
whole = Kind("a nonnegative integer", lambda value: type(value) is int and 0 <= value < 2**63)
flag = Kind("true or false", lambda value: isinstance(value, bool))
rows = Kind("a list", lambda value: isinstance(value, list))  # numbers() checks the entries
record = Kind("an object with names", lambda value: isinstance(value, dict))
fraction = Kind("a fraction as text, such as '-3/7'", _is_fraction)
seconds = Kind(
    "an object of seconds",
    lambda value: record.holds(value) and all(finite.holds(s) and s >= 0.0 for s in value.values()),
)
_scalar = Kind("text or a number", lambda value: value is None or isinstance(value, str | int | float))


def each(kind: Kind | Table) -> Kind:
    """Return the kind of lists of such values."""
    return replace(rows, entries=kind)


def maybe(kind: Kind, *, absent: bool = False) -> Kind:
    """Return the kind that also accepts null; with ``absent`` the field may be missing."""
    return replace(
        kind, what=f"{kind.what} or null", holds=lambda value: value is None or kind.holds(value), absent=absent
    )  # fmt: skip


def numbers(name: str, value: Any) -> np.ndarray:
    """Return a list of numbers, or a list of such lists, as an array of doubles.

    Raises
    ------
    ValueError
        If it holds anything else, or the rows differ in length.

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
        if found.dtype.kind == "O" and found.size and all(map(_is_number, found.flat)):
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
        For other text, or a zero denominator.

    Examples
    --------
    >>> fractions(["1/2", "-3"])
    [Fraction(1, 2), Fraction(-3, 1)]
    """
    found = []
    for entry in entries:
        check_content(entry, fraction, "an entry")
        try:
            found.append(Fraction(entry))  # Python refuses more than 4300 digits
        except ZeroDivisionError:
            raise ValueError(f"the fraction {shown(entry)} has the denominator 0") from None
    return found


LOSS: Table = {
    "name": line,
    "classes": maybe(each(_scalar), absent=True),
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
    "feature_names": each(text),
    "target_names": each(text),
    "notes": each(line),
    "scaling": maybe(record, absent=True),
}

NETWORK: Table = {"hidden_weights": rows, "output_weights": rows, "output_bias": rows}

CERTIFICATE: Table = {"residual": number, "gauge": number, "exact": flag, "bound": line}

RUN: Table = {
    "status": line,
    "tol": share,
    "random_state": maybe(whole),
    "time_s": finite,
    "timings": maybe(seconds, absent=True),
    "history": each(record),
}

FITTED: Table = {"lam": number, "loss": LOSS, "sample_weight": maybe(rows)}

SOLUTION: Table = {
    **RUN,
    "cost": number,
    "lower_bound": number,
    "gap": number,
    "problem": PROBLEM,
    "network": NETWORK,
    "dual": rows,
    "dual_low": maybe(rows, absent=True),
    # earlier versions wrote the multipliers of a semidefinite relaxation; the dual norm is recomputed without them
    "proof": maybe(record, absent=True),
    "certificate": CERTIFICATE,
    "solver": line,
}

SOLUTION_WITH_LOSS: Table = {
    **SOLUTION,
    "problem": {**PROBLEM, **FITTED},
    "certificate": {**CERTIFICATE, "objective": number, "loss_value": number},
}

DEEP_NETWORK: Table = {"weights": each(rows), "biases": each(maybe(rows))}

_DEEP_PROBLEM: Table = {name: kind for name, kind in PROBLEM.items() if name != "potential"}

DEEP_SOLUTION: Table = {
    **RUN,
    "depth": whole,
    "cost": finite,
    "lower_bound": finite,
    "problem": _DEEP_PROBLEM,
    "network": DEEP_NETWORK,
    "bounds": each(record),
}

DEEP_FIT: Table = {**DEEP_SOLUTION, "objective": finite, "problem": {**_DEEP_PROBLEM, **FITTED}}

REASON: Table = {
    "side": line,
    "value": maybe(whole),
    "method": line,
    "text": line,
    "vertices": each(whole),
    "data": record,
}

READING: Table = {
    "name": line,
    "status": line,
    "lower": maybe(whole),
    "upper": maybe(whole),
    "factor": maybe(rows, absent=True),
    "reasons": each(REASON),
}

CP_RANK: Table = {
    "status": line,
    "lower": maybe(whole),
    "upper": maybe(whole),
    "upper_numerical": maybe(whole, absent=True),
    "matrix": rows,
    "exact": maybe(each(each(fraction))),
    "tol": share,
    "readings": each(READING),
    "notes": each(line),
    "time_s": finite,
}

GAP: Table = {
    "ladder": record,
    **dict.fromkeys(("gap", "excess", "refit_gap"), maybe(number, absent=True)),
    "what": line,
    "formula": line,
    "notes": each(line),
    "findings": each(line),
    "tol": share,
    "time_s": finite,
    "networks": record,
    "best": record,
}
