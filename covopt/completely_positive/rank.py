"""``cp_rank``: bounds in order of cost, stopping where they meet."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from covopt.checks.speaking import tell_found
from covopt.checks.validation import check_choice, check_number, check_random_state, check_time_limit
from covopt.completely_positive import exclusion
from covopt.completely_positive.caps import theorem_cap
from covopt.completely_positive.certificate import CPRankCertificate
from covopt.completely_positive.checking import readings_of
from covopt.completely_positive.clique_cover import clique_cover_bound
from covopt.completely_positive.copositive import CERTIFIED_ORDER
from covopt.completely_positive.factorisation import caratheodory, numerical_factor, residual_of
from covopt.completely_positive.matrix import SymmetricMatrix, read_matrix
from covopt.completely_positive.pattern import DEFAULT_TOL, support_pattern
from covopt.completely_positive.piece import Options, Piece
from covopt.completely_positive.reading import CPStatus, Reading, Reason
from covopt.completely_positive.triangle_free import rank_bound, triangle_free_rank
from covopt.completely_positive.upper import is_doubly_nonnegative
from covopt.errors import (
    BudgetError,
    CertificateContradictedError,
    PrecisionWarning,
    SolverError,
)
from covopt.limits import TimeUp, limited, now, patiently

LOOSEST_TOL = 1e-6
QUICK_SHARE = 0.1  # of the time left goes to a first numerical search, before the expensive bounds
COPOSITIVE_SIZE = CERTIFIED_ORDER  # exact copositivity checks, and with them the face certificate, up to here
MOMENT_SIZE = {1: 40, 2: 9}
MOMENT_SHARE = 0.4
CARATHEODORY_ROWS = 400
MOST_UNPROVED = 3  # numerical factors of an exact matrix that prove nothing, before the search is given up
MOMENTS = {"moment-1": (1, "plain"), "moment-2": (2, "plain"), "moment-2-dagger": (2, "dagger")}
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
    readings, notes = [], list[str]()
    found = readings_of(matrix, tol)
    for name, meant in found:
        reading, said = _read(name, meant, options)
        readings.append(reading)
        notes.extend(note for note in said if note not in notes)
    if len(found) > 1:
        count = len(support_pattern(matrix.values, tol).ambiguous)
        message = (
            f"{count} {'entries' if count > 1 else 'entry'} of A cannot be told from zero at the tolerance {tol:g}; "
            "the bracket covers both readings. Set them to zero, or pass exact entries (integers, fractions)."
        )
        notes.append(message)
        warnings.warn(message, PrecisionWarning, stacklevel=2)
    certificate = CPRankCertificate(matrix, tol, tuple(readings), tuple(notes), now() - began)
    text = f"CP-rank at least {certificate.lower}, at most {certificate.upper} ({certificate.status.code})"
    tell_found(certificate, text, lower=certificate.lower, upper=certificate.upper)
    return certificate


def _read(name: str, matrix: SymmetricMatrix, options: Options) -> tuple[Reading, list[str]]:
    everything = tuple(range(len(matrix)))
    for test in (exclusion.negative_entry, exclusion.negative_eigenvalue):
        found = test(matrix, options.tol)
        if found is not None:
            return _not_cp(
                name, Reason("not_cp", None, found["kind"], found["text"], everything, _data(found))
            ), []
    pieces: list[Piece] = []
    for vertices in support_pattern(matrix.values, 0.0).components():
        piece = Piece(matrix.part(vertices), vertices, options)
        _solve_in_time(piece)
        if piece.against is not None:
            return _not_cp(name, piece.against), piece.notes
        pieces.append(piece)
    if any(piece.factor is None for piece in pieces):
        for piece in pieces:
            piece.carry()
    reasons = tuple(reason for piece in pieces for reason in piece.reasons)
    notes = [note for piece in pieces for note in piece.notes]
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
    return Reading(name, status, lower, upper, _together(pieces, len(matrix)), reasons), notes


def _together(pieces: list[Piece], n: int) -> np.ndarray | None:
    """Return the factors of the components as one; None where a component has a bound and no factor."""
    rows = []
    for piece in pieces:
        if piece.factor is None:
            return None
        part = np.zeros((len(piece.factor), n))
        part[:, list(piece.vertices)] = piece.factor
        rows.append(part)
    return np.vstack([np.zeros((0, n)), *rows])


def _not_cp(name: str, reason: Reason) -> Reading:
    return Reading(name, CPStatus.NOT_CP, None, None, None, (reason,))


def _data(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ("kind", "text")}


def _solve_in_time(piece: Piece) -> None:
    """Work on one component until the time is up or somebody interrupts; what is known by then is kept."""
    try:
        with limited(piece.options.left()):
            _solve(piece)
        return
    except TimeUp:
        why = "the time limit was reached"
    except KeyboardInterrupt:
        why = "interrupted by the user"
        piece.options.stop()
    with patiently():
        _hold(piece)
    piece.notes.append(f"{why}; the bracket is valid")


def _hold(piece: Piece) -> None:
    """See that there is a lower bound, and no unfinished thought."""
    if piece.against is None:
        if not piece.reasons:
            value, text = rank_bound(piece.matrix, piece.options.tol)
            piece.say("lower", value, "rank", text)
        _drop_narrow(piece)


def _solve(piece: Piece) -> None:
    """Work on one component until its bounds meet or nothing is left to try."""
    _bound(piece)
    if piece.against is None:
        _drop_narrow(piece)
        piece.finish()
    if piece.against is None and not piece.closed and piece.options.over:
        piece.notes.append("the time limit was reached; the bracket is valid")


def _bound(piece: Piece) -> None:
    matrix, tol = piece.matrix, piece.options.tol
    A, n = matrix.values, len(matrix)
    if n == 1:
        piece.say("lower", 1, "rank", "rank of A")
        piece.take(np.sqrt(A), "square root")
        return
    formula = triangle_free_rank(matrix, 0.0, rank_tol=tol)
    if formula is not None:
        found = exclusion.indefinite_comparison(matrix, tol)
        if found is not None:
            piece.say("not_cp", None, found["kind"], found["text"], _data(found))
            return
        if piece.options.wants("triangle-free"):
            piece.say("lower", formula[0], "triangle-free", formula[1])
        piece.dominated("explicit factor of a triangle-free matrix, one row per edge")
        if piece.closed:
            return
    value, text = rank_bound(matrix, tol)
    piece.say("lower", value, "rank", text)
    if piece.options.method in MOMENTS:
        _moments(piece)
    if (formula is None and piece.options.method == "auto") or piece.options.method == "clique-cover":
        value, text = clique_cover_bound(A, 0.0)
        piece.say("lower", value, "clique-cover", text)
    if formula is None:
        piece.dominated("positive semidefinite comparison matrix (Kaykobad 1987): one row per edge")
    _search(piece, piece.options.left(QUICK_SHARE), n_starts=16)
    _cap(piece)
    if piece.options.method == "face" or (piece.options.method == "auto" and not piece.closed):
        _face(piece)
    if not piece.closed and piece.upper is None:
        _separate(piece)
    if not piece.closed and piece.options.method == "auto":
        _moments(piece)
    if not piece.closed:
        _search(piece, piece.options.left(), n_starts=64)
        _cap(piece)


def _drop_narrow(piece: Piece) -> None:
    """Leave out bounds that speak of the floats as they are where a matrix within the tolerance needs fewer rows."""
    upper = piece.upper
    if piece.matrix.exact is not None or upper is None or upper >= piece.lower:
        return
    kept = [r for r in piece.reasons if r.method != "face" or (r.value or 0) <= upper]
    if len(kept) < len(piece.reasons):
        piece.reasons = kept
        piece.notes.append(
            f"lower bounds above {upper} were left out: they hold for the floats as they are, and a matrix within "
            "the tolerance has a factor of fewer rows"
        )


def _cap(piece: Piece) -> None:
    """Use the theorems: something shows complete positivity, or the matrix is doubly nonnegative and small."""
    if any(reason.method == "theorem" for reason in piece.reasons):
        return
    value, text = theorem_cap(piece.matrix)
    if piece.upper is None:
        small = len(piece.matrix) <= 4 or (piece.matrix.exact is not None and value <= 2)
        if piece.matrix.exact is None or not small or not is_doubly_nonnegative(piece.matrix):
            return
        text += "; doubly nonnegative in rational arithmetic"
    piece.say("upper", value, "theorem", text)


def _search(piece: Piece, time_limit_s: float | None, *, n_starts: int) -> None:
    """Look for factors from the lower bound up in growing steps, then between what failed and what worked."""
    A = piece.matrix.values
    end = None if time_limit_s is None else now() + time_limit_s
    most = theorem_cap(piece.matrix)[0] if piece.factor is None else len(piece.factor) - 1
    failed, step, known, unproved = piece.lower - 1, 1, piece.factor is not None, 0
    if piece.rest is not None:  # its rows are no part of what is looked for
        failed = max(0, failed - piece.rest.rows)
    while failed < most and not piece.closed and unproved < MOST_UNPROVED:
        rows = min(failed + step, most)
        left = None if end is None else end - now()
        if left is not None and left <= 0:
            return
        factor = numerical_factor(
            A, rows, n_starts=n_starts, time_limit_s=left if left is None or known else left / 3,
            tol=piece.options.tol, random_state=piece.options.random_state,
        )  # fmt: skip
        taken = False
        if factor is not None:
            reduced = caratheodory(factor) if rows <= CARATHEODORY_ROWS else factor
            if residual_of(A, reduced) > 10.0 * residual_of(A, factor) + 1e-14:
                reduced = factor
            text = "numerical factor by Levenberg–Marquardt"
            taken = piece.take(reduced, text) or (reduced is not factor and piece.take(factor, text))
            unproved += not taken
        if taken:
            most, known = rows - 1, True
            step = max(1, (most - failed) // 2)
        else:
            failed = rows
            step = max(1, (most - failed) // 2) if known else 2 * step


def _face(piece: Piece) -> None:
    if len(piece.matrix) > COPOSITIVE_SIZE or piece.options.over:
        return
    from covopt.completely_positive.face import face_certificate

    try:
        found = face_certificate(_raw(piece.matrix), time_limit_s=piece.options.left())
    except (BudgetError, SolverError) as error:
        piece.notes.append(f"no face certificate: {error}")
        return
    if found is None:
        return
    data = found.to_dict()
    if found.lower > piece.lower:
        piece.say("lower", int(found.lower), "face", found.reason, data)
    if piece.matrix.exact is None:
        piece.take(found.factor, "atoms of the face certificate")
    elif piece.upper is None or found.upper < piece.upper:
        piece.reasons = [r for r in piece.reasons if r.method != "factor"]
        piece.factor = found.factor
        piece.say(
            "upper", int(found.upper), "face", "A = Σ w_k u_k u_kᵀ over zeros u_k of S, w_k rational", data
        )


def _separate(piece: Piece) -> None:
    if len(piece.matrix) > COPOSITIVE_SIZE or piece.options.over:
        return
    from covopt.completely_positive.copositive import is_copositive_exact
    from covopt.completely_positive.face import separate

    try:
        S = separate(_raw(piece.matrix))
    except (BudgetError, SolverError) as error:
        piece.notes.append(f"no separating copositive matrix: {error}")
        return
    if S is None:
        return
    table = [[int(entry) for entry in row] for row in S]
    if exclusion.separated(piece.matrix, table, piece.options.tol) and is_copositive_exact(table):
        text = "⟨A, S⟩ < 0 for a copositive integer matrix S, checked in integers"
        piece.say("not_cp", None, "copositive", text, {"S": table})


def _moments(piece: Piece) -> None:
    from covopt.completely_positive.moments import moment_bound

    alone = MOMENTS.get(piece.options.method)
    for level, kind in [alone] if alone else [(1, "strong"), (2, "strong")]:
        if not alone and (piece.closed or piece.options.over or len(piece.matrix) > MOMENT_SIZE[level]):
            return
        try:
            found = moment_bound(
                _raw(piece.matrix),
                level=level,
                method=kind,
                time_limit_s=piece.options.left(MOMENT_SHARE),
                tol=piece.options.tol if piece.matrix.exact is None else 0.0,
            )
        except (BudgetError, SolverError) as error:
            piece.notes.append(f"no moment bound of level {level}: {error}")
            return
        if alone or found.integer > piece.lower:
            piece.say("lower", int(found.integer), "moment", found.reason, found.data)


def _raw(matrix: SymmetricMatrix) -> Any:
    return matrix.values if matrix.exact is None else matrix.exact
