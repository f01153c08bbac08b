"""What the components of a matrix say together: one reading of it."""

from __future__ import annotations

import numpy as np

from covopt.completely_positive.caps import theorem_cap
from covopt.completely_positive.piece import Piece
from covopt.completely_positive.reading import CPStatus, Reading, Reason
from covopt.errors import CertificateContradictedError


def reading_of(name: str, n: int, pieces: list[Piece]) -> tuple[Reading, list[str]]:
    """Return the reading that the components make, and what is to be noted.

    Parameters
    ----------
    name : str
        Of the reading.
    n : int
        Order of the matrix.
    pieces : list of Piece
        All of its components, or one that has no factor.

    Raises
    ------
    CertificateContradictedError
    """
    notes = [note for piece in pieces for note in piece.notes]
    for piece in pieces:
        if piece.against is not None:
            return not_cp(name, piece.against), piece.notes
    if any(piece.factor is None for piece in pieces):
        for piece in pieces:
            piece.carry()
    reasons = tuple(reason for piece in pieces for reason in piece.reasons)
    lower = sum(piece.lower for piece in pieces)
    open_ = [piece for piece in pieces if piece.upper is None]
    if open_:
        worst = max(open_, key=lambda piece: len(piece.vertices))
        cap, source = theorem_cap(worst.matrix)
        notes.append(
            f"no factor of the component of row {worst.vertices[0]}; if there is one, {cap} rows do ({source})"
        )
        # no upper bound is claimed of A, and with it goes that of its other components
        kept = tuple(reason for reason in reasons if reason.side != "upper")
        return Reading(name, CPStatus.UNDECIDED, lower, None, None, kept), notes
    upper = sum(piece.upper or 0 for piece in pieces)
    if lower > upper:
        raise CertificateContradictedError(
            f"the bounds contradict each other: the CP-rank would be at least {lower} and at most {upper}. "
            "One of them is wrong; please report the matrix."
        )
    status = CPStatus.EXACT if lower == upper else CPStatus.BRACKET
    return Reading(name, status, lower, upper, _factor(pieces, n), reasons), notes


def _factor(pieces: list[Piece], n: int) -> np.ndarray | None:
    """Return the factors of the components as one; None where a component has a bound and no factor."""
    rows = []
    for piece in pieces:
        if piece.factor is None:
            return None
        part = np.zeros((len(piece.factor), n))
        part[:, list(piece.vertices)] = piece.factor
        rows.append(part)
    return np.vstack([np.zeros((0, n)), *rows])


def not_cp(name: str, reason: Reason) -> Reading:
    """Return the reading of a matrix that has no factor of any size."""
    return Reading(name, CPStatus.NOT_CP, None, None, None, (reason,))
