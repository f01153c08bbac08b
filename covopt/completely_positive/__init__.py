"""Completely positive matrices: what brackets on their CP-rank rest on, and the registry of the kinds of reasons.

A reason stores numbers only. Its kind generates the sentence that is printed, so a file cannot supply its own text,
and checks the claim. Each kind is registered in the module that finds such reasons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.errors import MessageEnum
from covopt.files.schema import numbers

if TYPE_CHECKING:
    from covopt.completely_positive.matrix import SymmetricMatrix

NOTES = {
    "time": "the time limit was reached; the bracket is valid",
    "interrupted": "interrupted; the bracket is valid",
    "no factor": "no factor of the component of row {}; if there is one, {} rows do",
    "no exact": "the face certificate was not tried: it needs exact entries (integers, fractions)",
    "no extra": "neither the face certificate nor moments were tried, nor a copositive matrix that separates: they "
    "need cvxpy (pip install '.[conic]' in the checkout)",
    "no program": "no {}: its program is too large, or has no point that the solver finds",
}
SIGNS = {"lower": "≥", "upper": "≤", "approximate": "≈", "not_cp": ""}


def is_note(text: str) -> bool:
    """Return whether a note is one that covopt writes; files cannot supply their own.

    Examples
    --------
    >>> is_note("no factor of the component of row 0; if there is one, 24 rows do"), is_note("CP-rank 3, proved")
    (True, False)
    """
    blank = "(?:face certificate|moment bound of level [12]|[0-9]{1,9})"
    patterns = (re.escape(note).replace(r"\{\}", blank) for note in NOTES.values())
    return any(re.fullmatch(pattern, text) for pattern in patterns)


class CPStatus(MessageEnum):
    """Status of a CP-rank certificate; every member has a message."""

    EXACT = ("exact", "completely positive, and the CP-rank is known")
    BRACKET = ("bracket", "completely positive, and the CP-rank lies in the bracket")
    NOT_CP = ("not_cp", "not completely positive: there is no factor of any size")
    UNDECIDED = ("undecided", "neither a proof of complete positivity nor one against it was found")


@dataclass(frozen=True, eq=False)
class Reason:
    """One bound, or one reason against complete positivity.

    Attributes
    ----------
    side : {"lower", "upper", "approximate", "not_cp"}
        ``approximate``: rows of a numerical factor that is not proved to be near an exact one; not a bound.
    value : int or None
        The bound; None for ``not_cp``.
    method : str
        ``rank``, ``clique-cover``, ``triangle-free``, ``moment``, ``face``, ``factor``, ``theorem``, and for
        ``not_cp``: ``entry``, ``eigenvalue``, ``comparison``, ``copositive``.
    vertices : tuple of int
        The connected component of the support graph that it refers to; the CP-rank is the sum over components.
    data : dict
        Data for the check, as JSON types; for an upper bound ``rows`` is the factor.
    """

    side: str
    value: int | None
    method: str
    vertices: tuple[int, ...]
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The reason as a sentence, with its source."""
        kind = KINDS.get((self.side, self.method))
        return "a reason that this covopt does not know" if kind is None else kind[1](self)

    def number(self, name: str) -> str:
        """Return a number of the data as text; a question mark if it is not a number."""
        found = self.data.get(name)
        return f"{found:g}" if isinstance(found, int | float) and not isinstance(found, bool) else "?"

    def follows(self, found: int | None) -> bool:
        """Return whether the claim follows from the recomputed bound (for ``not_cp`` from a true value).

        Examples
        --------
        >>> Reason("lower", 3, "rank", (0,)).follows(4), Reason("upper", 3, "factor", (0,)).follows(4)
        (True, False)
        """
        if self.side == "not_cp":
            return bool(found)
        if found is None or self.value is None:
            return False
        return self.value <= found if self.side == "lower" else self.value >= found

    @property
    def rows(self) -> np.ndarray | None:
        """The factor of an upper bound, shape (m, n); None if it has no numerical factor."""
        found = self.data.get("rows") if self.side == "upper" else None
        return None if found is None else numbers("rows", found).reshape(-1, len(self.vertices))


def bracket_of(reasons: Iterable[Reason]) -> tuple[int, int | None]:
    """Return the best lower bound of one component, and its best upper bound or None."""
    least, most = 0, None
    for reason in reasons:
        if reason.value is not None and reason.side == "lower":
            least = max(least, reason.value)
        elif reason.value is not None and reason.side == "upper":
            most = reason.value if most is None else min(most, reason.value)
    return least, most


@dataclass(frozen=True, eq=False)
class Known:
    """What a check may use besides the matrix and the reason.

    Attributes
    ----------
    tol : float
        Relative tolerance for entries that are floats.
    completely_positive : bool
        Whether another reason proves that the matrix is completely positive.
    """

    tol: float
    completely_positive: bool = False


Check = Callable[["SymmetricMatrix", Reason, Known], tuple[int | None, str]]


KINDS: dict[tuple[str, str], tuple[Check, Callable[[Reason], str]]] = {}  # check and text of each kind


def register(side: str, method: str, text: str | Callable[[Reason], str]) -> Callable[[Check], Check]:
    """Register a function that checks a kind of reasons: it returns the proved bound, or None, and a text.

    For ``not_cp`` it returns whether there is no factor. :meth:`Reason.follows` compares the result with the claim.

    Parameters
    ----------
    side, method : str
    text : str or callable
        The sentence, or a function that makes it from a reason.
    """

    def add(check: Check) -> Check:
        KINDS[side, method] = check, text if callable(text) else lambda reason: text
        return check

    return add
