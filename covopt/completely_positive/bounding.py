"""The bounds on one component in order of cost, until they meet; what is done is kept, and not done again."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.completely_positive import exclusion
from covopt.completely_positive.caps import theorem_cap
from covopt.completely_positive.clique_cover import clique_cover_bound
from covopt.completely_positive.copositive import CERTIFIED_ORDER
from covopt.completely_positive.factorisation import caratheodory, numerical_factor, residual_of
from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.piece import Piece
from covopt.completely_positive.triangle_free import rank_bound, triangle_free_rank
from covopt.completely_positive.upper import is_doubly_nonnegative
from covopt.errors import BudgetError, SolverError
from covopt.limits import TimeUp, limited, now, patiently

QUICK_SHARE = 0.1  # of the time left goes to a first numerical search, before the expensive bounds
COPOSITIVE_SIZE = CERTIFIED_ORDER  # exact copositivity checks, and with them the face certificate, up to here
MOMENT_SIZE = {1: 40, 2: 9}
MOMENT_SHARE = 0.4
CARATHEODORY_ROWS = 400
MOST_UNPROVED = 3  # numerical factors of an exact matrix that prove nothing, before the search is given up
MOMENTS = {"moment-1": (1, "plain"), "moment-2": (2, "plain"), "moment-2-dagger": (2, "dagger")}


def solve_in_time(piece: Piece) -> None:
    """Work on one component until the time is up or somebody interrupts; what is known by then is kept."""
    try:
        with limited(piece.options.left()):
            piece.restore()
            _solve(piece)
        return
    except TimeUp:
        why = "the time limit was reached"
    except KeyboardInterrupt:
        why = "interrupted"
        piece.options.stop()
    with patiently():
        hold(piece)
    piece.notes.append(f"{why}; the bracket is valid")


def hold(piece: Piece) -> None:
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
            piece.say("not_cp", None, found["kind"], found["text"], data_of(found))
            return
        if piece.options.wants("triangle-free"):
            piece.say("lower", formula[0], "triangle-free", formula[1])
        piece.dominated("explicit factor of a triangle-free matrix, one row per edge")
        if piece.closed:
            return
    value, text = rank_bound(matrix, tol)
    piece.say("lower", value, "rank", text)
    if piece.options.method in MOMENTS:
        piece.once("moments", lambda: _moments(piece))
    if (formula is None and piece.options.method == "auto") or piece.options.method == "clique-cover":
        piece.once("clique-cover", lambda: piece.say("lower", *_cover(A)))
    if formula is None:
        piece.dominated("positive semidefinite comparison matrix (Kaykobad 1987): one row per edge")
    piece.once("first search", lambda: _search(piece, "first search", QUICK_SHARE, n_starts=16))
    _cap(piece)
    if piece.options.method == "face" or (piece.options.method == "auto" and not piece.closed):
        piece.once("face", lambda: _face(piece))
    if not piece.closed and piece.upper is None:
        piece.once("separate", lambda: _separate(piece))
    if not piece.closed and piece.options.method == "auto":
        piece.once("moments", lambda: _moments(piece))
    if not piece.closed:
        piece.once("search", lambda: _search(piece, "search", 1.0, n_starts=64))
        _cap(piece)


def _cover(A: np.ndarray) -> tuple[int, str, str]:
    value, text = clique_cover_bound(A, 0.0)
    return value, "clique-cover", text


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


def _search(piece: Piece, name: str, share: float, *, n_starts: int) -> None:
    """Look for factors from the lower bound up in growing steps, then between what failed and what worked."""
    A, time_limit_s = piece.matrix.values, piece.options.left(share)
    end = None if time_limit_s is None else now() + time_limit_s
    most = theorem_cap(piece.matrix)[0] if piece.factor is None else len(piece.factor) - 1
    failed, step, known, unproved = piece.lower - 1, 1, piece.factor is not None, 0
    if piece.rest is not None:  # its rows are no part of what is looked for
        failed = max(0, failed - piece.rest.rows)
    if name in piece.places:  # an earlier run was here
        before, last, step, known, unproved = piece.places[name]
        failed, most = max(failed, before), min(most, last)
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
        if end is None or now() < end:  # else a failure may be one of time
            piece.at(name, failed, most, step, known, unproved)


def _face(piece: Piece) -> bool:
    if len(piece.matrix) > COPOSITIVE_SIZE or piece.options.over:
        return True
    from covopt.completely_positive.face import face_certificate

    try:
        found = face_certificate(_raw(piece.matrix), time_limit_s=piece.options.left())
    except (BudgetError, SolverError) as error:
        piece.notes.append(f"no face certificate: {error}")
        return not isinstance(error, BudgetError)
    if found is None:
        return True
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
    return True


def _separate(piece: Piece) -> bool:
    if len(piece.matrix) > COPOSITIVE_SIZE or piece.options.over:
        return True
    from covopt.completely_positive.copositive import is_copositive_exact
    from covopt.completely_positive.face import separate

    try:
        S = separate(_raw(piece.matrix))
    except (BudgetError, SolverError) as error:
        piece.notes.append(f"no separating copositive matrix: {error}")
        return not isinstance(error, BudgetError)
    if S is None:
        return True
    table = [[int(entry) for entry in row] for row in S]
    if exclusion.separated(piece.matrix, table, piece.options.tol) and is_copositive_exact(table):
        text = "⟨A, S⟩ < 0 for a copositive integer matrix S, checked in integers"
        piece.say("not_cp", None, "copositive", text, {"S": table})
    return True


def _moments(piece: Piece) -> bool:
    from covopt.completely_positive.moments import moment_bound

    alone = MOMENTS.get(piece.options.method)
    for level, kind in [alone] if alone else [(1, "strong"), (2, "strong")]:
        if not alone and (piece.closed or piece.options.over or len(piece.matrix) > MOMENT_SIZE[level]):
            return True
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
            return not isinstance(error, BudgetError)
        if alone or found.integer > piece.lower:
            piece.say("lower", int(found.integer), "moment", found.reason, found.data)
    return True


def _raw(matrix: SymmetricMatrix) -> Any:
    return matrix.values if matrix.exact is None else matrix.exact


def data_of(found: dict[str, Any]) -> dict[str, Any]:
    """Return what a reason against a factor is checked by."""
    return {key: value for key, value in found.items() if key not in ("kind", "text")}
