"""How computations end: exceptions, warnings and statuses; each message says what happened and what to do."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


class CovoptError(Exception):
    """Base class of every error that covopt raises on purpose."""


class InputError(CovoptError, ValueError):
    """The input cannot be used: which argument, which row, what was received, what to do."""


class BudgetError(CovoptError):
    """An exact computation would exceed its budget; the message gives the size and the alternatives."""


class UnclearRanksError(BudgetError, ArithmeticError):
    """Faces of an arrangement cannot be distinguished from rounding errors, so they cannot be enumerated."""


class SolverUnavailableError(CovoptError):
    """A solver was named that is not installed or has no licence."""


class MissingPackageError(InputError, SolverUnavailableError):
    """A package of an extra is not installed; the message has the command that installs it."""


class SolverError(CovoptError):
    """A backend stopped without a usable point; the message carries its own status."""


class SolutionFileError(CovoptError, ValueError):
    """A file is not a covopt solution, or was written by a newer schema."""


class CertificateContradictedError(CovoptError):
    """A network is below a certified lower bound, so one of the two is wrong; ``path`` is a file to reproduce it."""

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class CovoptWarning(UserWarning):
    """Base class of covopt's warnings."""


class PrecisionWarning(CovoptWarning):
    """Rounding errors are too close to the smallest nonzero quantity for a reliable answer."""


class SolverFallbackWarning(CovoptWarning):
    """A solver was not available and another one took its place."""


class TableWarning(CovoptWarning):
    """A column of a table was left out, or used, by default; the message has the option that changes it."""


class NotCertifiedWarning(CovoptWarning):
    """A fit ended before the gap was proved to be within the tolerance; its bracket is valid."""


class PathStoppedWarning(CovoptWarning):
    """A regularisation path ended before its last point; the message says where and why."""


class MemoryLimitWarning(CovoptWarning):
    """A weaker method was used because of the memory limit; bounds are valid."""


class MessageEnum(StrEnum):
    """A string, its code, with a message: ``status == "certified"`` compares codes.

    Define members as ``NAME = ("code", "message")``.
    """

    code: str
    message: str

    def __new__(cls, code: str, message: str) -> MessageEnum:
        """Return the string of the code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.code, member.message = code, message
        return member

    @classmethod
    def from_code(cls, code: str) -> Self:
        """Return the member with a code, as in files.

        Parameters
        ----------
        code : str

        Raises
        ------
        ValueError
            If no member has this code.
        """
        for member in cls:
            if member.code == code:
                return member
        raise ValueError(f"unknown status code {str(code)[:40]!r}; known: {', '.join(m.code for m in cls)}")


class Status(MessageEnum):
    """Outcome of a solve; a string, so that ``solution.status == "certified"`` compares its code.

    Only ``CERTIFIED`` claims optimality, to the requested tolerance: the gap was recomputed from the raw data with a
    valid upper bound on the dual norm h(Λ).
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
