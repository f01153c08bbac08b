"""``cp_rank``: bounds in order of cost, stopping where they meet."""

from __future__ import annotations

import warnings
from typing import Any

from covopt.checks.checkpoints import as_checkpoint
from covopt.checks.kept import kept_file
from covopt.checks.speaking import tell_found
from covopt.checks.validation import check_choice, check_number, check_random_state, check_time_limit
from covopt.completely_positive import exclusion
from covopt.completely_positive.bounding import MOMENTS, data_of, solve_in_time
from covopt.completely_positive.certificate import CPRankCertificate
from covopt.completely_positive.checking import readings_of
from covopt.completely_positive.keeping import RankKeeper
from covopt.completely_positive.matrix import SymmetricMatrix, read_matrix
from covopt.completely_positive.pattern import DEFAULT_TOL, support_pattern
from covopt.completely_positive.piece import Options, Piece
from covopt.completely_positive.reading import CPStatus, Reading, Reason
from covopt.completely_positive.together import not_cp, reading_of
from covopt.errors import PrecisionWarning
from covopt.limits import now, patiently

LOOSEST_TOL = 1e-6
METHODS = ("auto", "rank", "clique-cover", "triangle-free", *MOMENTS, "face")


def cp_rank(
    A: Any,
    *,
    method: str = "auto",
    tol: float = DEFAULT_TOL,
    time_limit_s: float | None = 300.0,
    random_state: int | None = 0,
    checkpoint: Any = None,
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
    method : {"auto", "rank", "clique-cover", "triangle-free", "moment-1", "moment-2", "moment-2-dagger", "face"}
        The lower bound: all of them until one meets the upper bound, or this one alone (beside the rank where it
        finds nothing). The moment bounds are ξ₁, ξ₂ and ξ₂† over the maximal cliques, rounded to rigorous ones; their
        values before rounding up are in ``.reasons``.
    tol : float
        Relative size of rounding: entries against √(a_ii a_jj), and the residual of a factor likewise.
    time_limit_s : float, optional
        When it is over, the bracket found so far is returned, and after Ctrl-C as well.
    random_state : int, optional
        Of the numerical search.
    checkpoint : path-like or Checkpoint, optional
        A file that is written from time to time, the certificate of the bracket so far, and gone on from where it
        exists; a run that answers the question removes it.

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
    matrix, asked = read_matrix(A), as_checkpoint(checkpoint)
    options = Options(tol, None if limit is None else began + limit, random_state, method)
    found = readings_of(matrix, tol)
    with kept_file(asked) as file:
        keeper = None if file is None else RankKeeper(file, matrix, options)
        readings, notes = [], list[str]()
        for name, meant in found:
            reading, said = _read(name, meant, options, keeper)
            readings.append(reading)
            notes.extend(note for note in said if note not in notes)
        if len(found) > 1:
            notes.append(_say_ambiguous(matrix, tol))
        certificate = CPRankCertificate(matrix, tol, tuple(readings), tuple(notes), now() - began)
        if keeper is not None and asked is not None:
            asked.stopped = options.over and certificate.status in (CPStatus.BRACKET, CPStatus.UNDECIDED)
            with patiently():
                if asked.stopped:
                    keeper.leave()
                else:
                    keeper.conclude()
    text = f"CP-rank at least {certificate.lower}, at most {certificate.upper} ({certificate.status.code})"
    tell_found(certificate, text, lower=certificate.lower, upper=certificate.upper)
    return certificate


def _say_ambiguous(matrix: SymmetricMatrix, tol: float) -> str:
    count = len(support_pattern(matrix.values, tol).ambiguous)
    message = (
        f"{count} {'entries' if count > 1 else 'entry'} of A cannot be told from zero at the tolerance {tol:g}; "
        "the bracket covers both readings. Set them to zero, or pass exact entries (integers, fractions)."
    )
    warnings.warn(message, PrecisionWarning, stacklevel=3)
    return message


def _read(
    name: str, matrix: SymmetricMatrix, options: Options, keeper: RankKeeper | None
) -> tuple[Reading, list[str]]:
    everything = tuple(range(len(matrix)))
    for test in (exclusion.negative_entry, exclusion.negative_eigenvalue):
        found = test(matrix, options.tol)
        if found is not None:
            return not_cp(
                name, Reason("not_cp", None, found["kind"], found["text"], everything, data_of(found))
            ), []
    pieces = [
        Piece(matrix.part(vertices), vertices, options)
        for vertices in support_pattern(matrix.values, 0.0).components()
    ]
    if keeper is not None:
        keeper.begin(name, len(matrix), pieces)
    for piece in pieces:
        solve_in_time(piece)
        if piece.against is not None:
            return not_cp(name, piece.against), piece.notes
    return reading_of(name, len(matrix), pieces)
