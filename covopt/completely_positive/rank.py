"""``cp_rank``: bounds in order of cost, stopping where they meet."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.checks.speaking import tell_found
from covopt.checks.validation import check_choice, check_number, check_random_state, check_time_limit
from covopt.completely_positive import exclusion
from covopt.completely_positive.bounding import MOMENTS, Component, Options, solve_in_time
from covopt.completely_positive.certificate import CPRankCertificate
from covopt.completely_positive.checking import readings_of
from covopt.completely_positive.matrix import DEFAULT_TOL, SymmetricMatrix, read_matrix, support_pattern
from covopt.completely_positive.reading import NOTES, CPStatus, Reading, Reason
from covopt.completely_positive.upper import theorem_cap
from covopt.errors import CertificateContradictedError, PrecisionWarning
from covopt.limits import now

LOOSEST_TOL = 1e-6
METHODS = ("auto", "rank", "clique-cover", "triangle-free", *MOMENTS, "face")


def cp_rank(
    A: Any,
    *,
    method: str = "auto",
    tol: float = DEFAULT_TOL,
    time_limit_s: float | None = 300.0,
    random_state: int | None = 0,
) -> CPRankCertificate:
    r"""Bracket the CP-rank of a matrix, or of a graph's EᵀE, with a proof; or prove that there is none.

    .. math::

        \operatorname{rank_{cp}}(A) = \min\{m : A = B^\top B,\ B \in \mathbb{R}^{m\times n},\ B \ge 0\}

    The support graph falls into components, whose CP-ranks add up. On each of them, until the bounds meet: rank,
    triangle-free formula and explicit factor, edge-clique cover, comparison-matrix factor, numerical factors from the
    lower bound up, the face certificate, moment bounds, and theorems.

    Parameters
    ----------
    A : array_like of shape (n, n), or networkx.Graph
        Integers and fractions are exact. Other floats are known up to ``tol``: where a nonzero entry is that small,
        both readings of it are answered, the bracket covers both, and a warning says so.
    method : {"auto", "rank", "clique-cover", "triangle-free", "moment-1", "moment-2", "face"}
        The lower bound: all of them until one meets the upper bound, or this one alone (beside the rank where it
        finds nothing). The moment bounds are ξ₁ and ξ₂ over the maximal cliques, rounded to rigorous ones; their
        values before rounding up are in ``.reasons``.
    tol : float
        Relative size of rounding: entries against √(a_ii a_jj), and the residual of a factor likewise.
    time_limit_s : float, optional
        When it is over, the bracket found so far is returned, and after Ctrl-C as well.
    random_state : int, optional
        Of the numerical search.

    Returns
    -------
    CPRankCertificate
        Of exact entries ``upper`` is proved for A itself; a numerical factor that cannot be completed to an exact one
        is reported as ``upper_numerical``, and bounds nothing. Of floats, ``lower`` holds for every matrix within
        ``tol`` with the same zeros, but for the face bound, and ``upper`` for one of them.

    Raises
    ------
    InputError
        For a matrix that is not square, symmetric and finite, or out of the range of doubles; a directed graph, a
        multigraph, loops; or a bad option.

    References
    ----------
    FL22 §4.2; Berman and Shaked-Monderer, Completely Positive Matrices (2003).

    Examples
    --------
    >>> from covopt.completely_positive.graphs import complete_bipartite
    >>> certificate = cp_rank(complete_bipartite(3, 3))
    >>> certificate.lower, certificate.upper, certificate.factor.shape
    (9, 9, (9, 6))
    >>> cp_rank([[1, 2], [2, 1]]).status.code
    'not_cp'
    """
    began = now()
    rule = f"positive and at most {LOOSEST_TOL:g}, or patterns lose their meaning"
    tol = check_number("tol", tol, rule, lambda t: 0 < t <= LOOSEST_TOL)
    check_choice("method", method, METHODS)
    limit = check_time_limit(time_limit_s)
    random_state = check_random_state(random_state)
    matrix = read_matrix(A)
    options = Options(tol, None if limit is None else began + limit, random_state, method)
    found = readings_of(matrix, tol)
    run = _Run(matrix, options)
    for name, meant in found:
        run.read(name, meant)
    certificate = run.certificate(now() - began)
    if len(found) > 1:
        certificate = replace(certificate, notes=(*certificate.notes, _say_ambiguous(matrix, tol)))
    text = f"CP-rank at least {certificate.lower}, at most {certificate.upper} ({certificate.status.code})"
    tell_found(certificate, text, lower=certificate.lower, upper=certificate.upper)
    return certificate


def _say_ambiguous(matrix: SymmetricMatrix, tol: float) -> str:
    count = len(support_pattern(matrix.values, tol).ambiguous)
    message = NOTES["one ambiguous" if count == 1 else "ambiguous"].format(count, f"{tol:g}")
    warnings.warn(message, PrecisionWarning, stacklevel=3)
    return message


class _Run:
    """The readings of a matrix one after the other; the bracket so far is a certificate."""

    def __init__(self, matrix: SymmetricMatrix, options: Options):
        self._matrix, self._options = matrix, options
        self._parts: dict[str, tuple[Reason | None, list[Component]]] = {}

    def read(self, name: str, matrix: SymmetricMatrix) -> None:
        """Bracket the CP-rank under one reading of the entries."""
        tol = self._options.tol
        against = exclusion.negative_entry(matrix, tol) or exclusion.negative_eigenvalue(matrix, tol)
        pieces = list[Component]()
        self._parts[name] = (against, pieces)
        if against is not None:
            return
        for vertices in support_pattern(matrix.values, 0.0).components():
            piece = Component(matrix.part(vertices), vertices, self._options)
            pieces.append(piece)
        for piece in pieces:
            solve_in_time(piece)
            if piece.against is not None:
                self._parts[name] = (piece.against, [piece])
                return

    def certificate(self, time_s: float) -> CPRankCertificate:
        """Return the bracket so far."""
        readings, notes = [], dict[str, None]()
        for name, (against, pieces) in self._parts.items():
            notes |= dict.fromkeys(note for piece in pieces for note in piece.notes)
            reading, note = _reading_of(name, len(self._matrix), against, pieces)
            readings.append(reading)
            notes |= dict.fromkeys(note)
        return CPRankCertificate(self._matrix, self._options.tol, tuple(readings), tuple(notes), time_s)


def _reading_of(
    name: str, n: int, against: Reason | None, pieces: list[Component]
) -> tuple[Reading, list[str]]:
    """Return the reading that the components make, and what is to be noted."""
    if against is not None:
        return Reading(name, CPStatus.NOT_CP, None, None, None, (against,)), []
    lower, uppers = sum(piece.lower for piece in pieces), [piece.upper for piece in pieces]
    factor = None
    if any(piece.factor is None for piece in pieces):
        for piece in pieces:
            piece.carry()
    else:
        factor = np.zeros((sum(len(piece.factor) for piece in pieces if piece.factor is not None), n))
        start = 0
        for piece in pieces:
            assert piece.factor is not None
            factor[start : start + len(piece.factor), list(piece.vertices)] = piece.factor
            start += len(piece.factor)
    reasons = tuple(reason for piece in pieces for reason in piece.reasons)
    proved = [upper for upper in uppers if upper is not None]
    if len(proved) < len(uppers):
        worst = max((piece for piece in pieces if piece.upper is None), key=lambda piece: len(piece.vertices))
        note = NOTES["no factor"].format(worst.vertices[0], theorem_cap(worst.matrix))
        return Reading(name, CPStatus.UNDECIDED, lower, None, None, reasons), [note]
    upper = sum(proved)
    if lower > upper:
        raise CertificateContradictedError(
            f"the bounds contradict each other: the CP-rank would be at least {lower} and at most {upper}. "
            "One of them is wrong; please report the matrix."
        )
    status = CPStatus.EXACT if lower == upper else CPStatus.BRACKET
    return Reading(name, status, lower, upper, factor, reasons), []
