"""Conversion of the certificates of deep networks to JSON types and back, by the types of their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from covopt.files.schema import Kind, check_content, flag, number, record, rows, text


class Listed:
    """Base of dataclasses that are written as the list of their fields, without trailing default values."""

    listed: ClassVar[bool] = True


def to_json(value: Any) -> Any:
    """Return a value as JSON types: dataclasses, arrays, tuples and lists are converted, numbers kept.

    Parameters
    ----------
    value : object
    """
    if is_dataclass(value):
        entries = {f.name: getattr(value, f.name) for f in fields(value)}
        if not isinstance(value, Listed):
            return {name: to_json(entry) for name, entry in entries.items()}
        kept = list(entries.values())
        defaults = [f.default for f in fields(value)]
        while (
            defaults
            and kept
            and defaults[len(kept) - 1] is not MISSING
            and kept[-1] == defaults[len(kept) - 1]
        ):
            kept.pop()
        return [to_json(entry) for entry in kept]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [to_json(entry) for entry in value] if isinstance(value, tuple | list) else value


def from_json(kind: Any, content: Any) -> Any:
    """Return the value of the given type that :func:`to_json` converted.

    Parameters
    ----------
    kind : type
        A dataclass, or the type of one of its fields.
    content : object
        Parsed JSON, which is validated.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the content does not fit the type.

    Examples
    --------
    >>> from_json(tuple[int, ...], [1, 2]), from_json(float | None, None), from_json(tuple[int, float], [1, 2])
    ((1, 2), None, (1, 2.0))
    >>> from_json(int, True)
    Traceback (most recent call last):
    ValueError: an entry must be a whole number; received True
    """
    if kind in _PLAIN:
        wanted, make = _PLAIN[kind]
        check_content(content, wanted, "an entry")
        return make(content)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):  # optional types
        return None if content is None else from_json(inner[0], content)
    if origin in (tuple, list):
        check_content(content, rows, "an entry")
        if origin is list or inner[-1] is Ellipsis:
            return origin([from_json(inner[0], entry) for entry in content])
        return tuple(from_json(part, entry) for part, entry in zip(inner, content, strict=True))
    hints = _hints(kind)
    if issubclass(kind, Listed):
        check_content(content, rows, "an entry")
        if len(content) > len(hints):
            raise ValueError(f"{len(content)} numbers stand where {len(hints)} are the most")
        return kind(*(from_json(hint, entry) for hint, entry in zip(hints.values(), content, strict=False)))
    check_content(content, record, "an entry")
    named = {f.name: f.default is MISSING for f in fields(kind)}
    return kind(**{
        name: from_json(hints[name], content[name]) for name, needed in named.items() if needed or name in content
    })  # fmt: skip


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _matrix(content: Any) -> np.ndarray:
    found = np.array(content, dtype=float)
    if not np.isfinite(found).all():
        raise ValueError(f"an array holds {found[~np.isfinite(found)][0]}, which is no number")
    return found


_PLAIN: dict[Any, tuple[Kind, Callable[[Any], Any]]] = {
    int: (Kind("a whole number", lambda value: type(value) is int), int),
    float: (number, float),
    bool: (flag, bool),
    str: (text, str),
    np.ndarray: (rows, _matrix),
    object: (Kind("anything", lambda value: True), lambda value: value),
}
