"""One reading of a matrix: what is known of its CP-rank, and the reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covopt.files.schema import numbers, shown
from covopt.status import MessageEnum


class CPStatus(MessageEnum):
    """What is known; every member carries its message."""

    EXACT = ("exact", "completely positive, and the CP-rank is known")
    BRACKET = ("bracket", "completely positive, and the CP-rank lies in the bracket")
    NOT_CP = ("not_cp", "not completely positive: there is no factor of any size")
    UNDECIDED = ("undecided", "neither a proof of complete positivity nor one against it was found")

    @classmethod
    def from_code(cls, code: str) -> CPStatus:
        """Return the member with this ``code``."""
        for member in cls:
            if member.code == code:
                return member
        raise ValueError(f"unknown status {shown(code)}; known: {', '.join(m.code for m in cls)}")


@dataclass(frozen=True, eq=False)
class Reason:
    """One bound, or one reason against complete positivity.

    Attributes
    ----------
    side : {"lower", "upper", "approximate", "not_cp"}
        ``approximate``: the rows of a numerical factor that is not proved to be near an exact one; it bounds nothing.
    value : int or None
        The bound; None with ``not_cp``.
    method : str
        ``rank``, ``clique-cover``, ``triangle-free``, ``moment``, ``face``, ``factor``, ``theorem``, and for
        ``not_cp``: ``entry``, ``eigenvalue``, ``comparison``, ``copositive``.
    text : str
        In words, with the source.
    vertices : tuple of int
        The connected component of the support graph that it speaks about; the CP-rank is the sum over components.
    data : dict
        What the check needs besides the matrix, JSON types.
    """

    side: str
    value: int | None
    method: str
    text: str
    vertices: tuple[int, ...]
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Reading:
    """The answer under one reading of the entries that may be zeros.

    Attributes
    ----------
    name : str
        ``given``: every entry as it is; ``zeros``: the ambiguous entries are zeros.
    status : CPStatus
    lower : int or None
        None where A is not completely positive.
    upper : int or None
        None unless A is known to be completely positive.
    factor : ndarray of shape (m, n) or None
        None where no factor with a proved number of rows is known, though ``upper`` may be.
    reasons : tuple of Reason
    """

    name: str
    status: CPStatus
    lower: int | None
    upper: int | None
    factor: np.ndarray | None
    reasons: tuple[Reason, ...]


def read_reading(content: dict[str, Any], n: int) -> Reading:
    """Return a reading of JSON types, about a matrix of order n."""
    factor = content["factor"]
    if factor is not None:
        factor = numbers("factor", factor).reshape(len(factor), n)
    reasons = tuple(
        Reason(
            part["side"], part["value"], part["method"], part["text"], tuple(part["vertices"]), part["data"]
        )
        for part in content["reasons"]
    )  # fmt: skip
    if any(not 0 <= v < n for reason in reasons for v in reason.vertices):
        raise ValueError("a reason speaks about a row that the matrix does not have")
    return Reading(
        content["name"],
        CPStatus.from_code(content["status"]),
        content["lower"],
        content["upper"],
        factor,
        reasons,
    )


def reason_rows(reading: Reading) -> list[tuple[str, str]]:
    """Return one line per reason; components that are alike are counted, not repeated."""
    groups: dict[tuple[str, int | None, str], int] = {}
    for reason in reading.reasons:
        key = (reason.side, reason.value, reason.text)
        groups[key] = groups.get(key, 0) + 1
    several = len({reason.vertices for reason in reading.reasons}) > 1
    rows = []
    for (side, value, text), count in groups.items():
        sign = {"lower": "≥", "upper": "≤"}.get(side)
        bound = f"{sign} {value}: " if sign else ""
        where = f"{count} component{'s' * (count > 1)}, each " if several and sign else ""
        rows.append((side.replace("_", " "), f"{where}{bound}{text}"))
    return rows
