"""What is known of a CP-rank and why: a status, bounds with their reasons, and the registry of the kinds of reasons.

A reason stores numbers. Its sentence is made when it is printed, by its kind, so a file cannot bring its own words;
and its kind knows how to check it. Each kind stands beside the function that finds such reasons.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.files.schema import numbers, shown
from covopt.status import MessageEnum

if TYPE_CHECKING:
    from covopt.completely_positive.matrix import SymmetricMatrix

_AMBIGUOUS = (
    "of A cannot be told from zero at the tolerance {}; the bracket covers both readings. Set them to zero, or pass "
    "exact entries (integers, fractions)."
)
NOTES = {
    "time": "the time limit was reached; the bracket is valid",
    "interrupted": "interrupted; the bracket is valid",
    "no factor": "no factor of the component of row {}; if there is one, {} rows do",
    "no exact": "the face certificate was not tried: it needs exact entries (integers, fractions)",
    "ambiguous": f"{{}} entries {_AMBIGUOUS}",
    "one ambiguous": f"{{}} entry {_AMBIGUOUS}",
    "no extra": "the face certificate was not tried, nor a copositive matrix that separates: they need cvxpy "
    "(pip install '.[conic]' in the checkout)",
    "no moments extra": "no moment bound: it needs cvxpy (pip install '.[conic]' in the checkout)",
    "no face": "no face certificate: its programs gave no point",
    "large moments": "no moment bound of level {}: it would take too much",
    "no moments": "no moment bound of level {}: the solver gave no point, or takes A for not completely positive",
}
SIGNS = {"lower": "≥", "upper": "≤", "approximate": "≈", "not_cp": ""}


def is_note(text: str) -> bool:
    """Whether a note is one that covopt writes: a file cannot bring its own.

    Examples
    --------
    >>> is_note("no factor of the component of row 0; if there is one, 24 rows do"), is_note("CP-rank 3, proved")
    (True, False)
    """
    patterns = (re.escape(note).replace(r"\{\}", "[0-9.e+-]{1,30}") for note in NOTES.values())
    return any(re.fullmatch(pattern, text) for pattern in patterns)


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
    vertices : tuple of int
        The connected component of the support graph that it speaks about; the CP-rank is the sum over components.
    data : dict
        What the check needs besides the matrix, JSON types.
    """

    side: str
    value: int | None
    method: str
    vertices: tuple[int, ...]
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """In words, with the source."""
        kind = KINDS.get((self.side, self.method))
        return "a reason that this covopt does not know" if kind is None else kind.text(self)

    def number(self, name: str) -> str:
        """Return a number of the data as text; a question mark where it is no number."""
        found = self.data.get(name)
        return f"{found:g}" if isinstance(found, int | float) and not isinstance(found, bool) else "?"


@dataclass(frozen=True, eq=False)
class Known:
    """What a check may use beside the component of the matrix and the reason.

    Attributes
    ----------
    tol : float
        What counts as rounding where the entries are floats.
    factor : ndarray of shape (m, n) or None
        Nonnegative, and within the tolerance.
    completely_positive : bool
        Whether another reason has shown that.
    """

    tol: float
    factor: np.ndarray | None = None
    completely_positive: bool = False


Check = Callable[["SymmetricMatrix", Reason, Known], tuple[bool, str]]


@dataclass(frozen=True)
class Kind:
    """How a kind of reason is checked, and what it says."""

    check: Check
    text: Callable[[Reason], str]


KINDS: dict[tuple[str, str], Kind] = {}


def register(side: str, method: str, text: str | Callable[[Reason], str]) -> Callable[[Check], Check]:
    """Let a function check the reasons of a kind: it returns whether one holds, and what it found.

    Parameters
    ----------
    side, method : str
    text : str or callable
        The sentence, or what makes it from the numbers of a reason.
    """

    def add(check: Check) -> Check:
        KINDS[side, method] = Kind(check, text if callable(text) else lambda reason: text)
        return check

    return add


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

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        reasons = [vars(r) | {"text": r.text, "vertices": list(r.vertices)} for r in self.reasons]
        factor = None if self.factor is None else self.factor.tolist()
        return vars(self) | {"status": self.status.code, "factor": factor, "reasons": reasons}

    @classmethod
    def from_dict(cls, content: dict[str, Any], n: int) -> Reading:
        """Inverse of :meth:`to_dict`, of a matrix of order n; the sentences are not read."""
        factor = content["factor"]
        if factor is not None:
            factor = numbers("factor", factor).reshape(len(factor), n)
        reasons = tuple(
            Reason(part["side"], part["value"], part["method"], tuple(part["vertices"]), part["data"])
            for part in content["reasons"]
        )
        if any(not 0 <= v < n for reason in reasons for v in reason.vertices):
            raise ValueError("a reason speaks about a row that the matrix does not have")
        status = CPStatus.from_code(content["status"])
        return cls(content["name"], status, content["lower"], content["upper"], factor, reasons)

    def rows(self) -> list[tuple[str, str]]:
        """Return one line per reason; components that are alike are counted, not repeated."""
        groups: dict[tuple[str, int | None, str], int] = {}
        for reason in self.reasons:
            key = (reason.side, reason.value, reason.text)
            groups[key] = groups.get(key, 0) + 1
        several = len({reason.vertices for reason in self.reasons}) > 1
        rows = []
        for (side, value, text), count in groups.items():
            sign = SIGNS.get(side)
            bound = f"{sign} {value}: " if sign else ""
            where = f"{count} component{'s' * (count > 1)}, each " if several and sign else ""
            rows.append((side.replace("_", " ") if side in SIGNS else "?", f"{where}{bound}{text}"))
        return rows
