"""How a computation ended; every member carries its message."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class MessageEnum(StrEnum):
    """A string, its code, with a message: ``status == "certified"`` compares codes.

    Members are written as ``NAME = ("code", "message")``.
    """

    code: str
    message: str

    def __new__(cls, code: str, message: str) -> MessageEnum:
        """Make the string of the code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.code, member.message = code, message
        return member

    @classmethod
    def from_code(cls, code: str) -> Self:
        """Return the member whose ``code`` is given (as in files).

        Parameters
        ----------
        code : str

        Raises
        ------
        ValueError
            Where no status has this code.
        """
        for member in cls:
            if member.code == code:
                return member
        raise ValueError(f"unknown status code {str(code)[:40]!r}; known: {', '.join(m.code for m in cls)}")


class Status(MessageEnum):
    """Outcome of a solve; a string, so that ``solution.status == "certified"`` compares its code.

    ``CERTIFIED`` is the only status that claims optimality, and only within the tolerance that
    was asked for: the gap was recomputed from the raw data with a valid upper bound on the dual norm h(Λ).
    """

    CERTIFIED = ("certified", "optimal to the tolerance; the bracket was recomputed from the data")
    GAP = ("gap", "stopped before the tolerance was reached; the bracket is valid")
    TIME_LIMIT = ("time_limit", "the time limit was reached; the bracket is valid")
    INTERRUPTED = ("interrupted", "interrupted; the bracket is valid")
    CALLBACK = ("callback", "stopped by the callback; the bracket is valid")
    HEURISTIC = (
        "heuristic",
        "a good network by local search; the bound is valid, but not tight: read the gap",
    )
