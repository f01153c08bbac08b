"""The bounds on one component in order of cost, until they meet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from covopt.completely_positive import exclusion
from covopt.completely_positive.clique_cover import clique_cover_bound
from covopt.completely_positive.component import Component
from covopt.completely_positive.copositive import CERTIFIED_ORDER
from covopt.completely_positive.factorisation import caratheodory, numerical_factor, residual_of
from covopt.completely_positive.lower import rank_bound, triangle_free_rank
from covopt.completely_positive.reading import NOTES
from covopt.completely_positive.upper import has_small_cap, theorem_cap
from covopt.errors import BudgetError, MissingPackageError, SolverError
from covopt.limits import TimeUp, limited, now, patiently

QUICK_SHARE = 0.1  # of the time left goes to a first numerical search, before the expensive bounds
MOMENT_SIZE = {1: 40, 2: 9}
MOMENT_SHARE = 0.4
CARATHEODORY_ROWS = 400
MOST_UNPROVED = 3  # numerical factors of an exact matrix that prove nothing, before the search is given up
MOMENTS = {"moment-1": (1, "plain"), "moment-2": (2, "plain")}


def solve_in_time(piece: Component) -> None:
    """Work on one component until the time is up or somebody interrupts; what is known by then is kept."""
    why = "time"
    try:
        with limited(piece.options.left()):
            for step in STEPS:
                if not piece.closed:
                    step(piece)
        if piece.closed or not piece.options.over:
            why = ""
    except TimeUp:
        pass
    except KeyboardInterrupt:
        why, piece.options.end = "interrupted", now()
    with patiently():
        if piece.against is None and not piece.reasons:
            piece.say("lower", rank_bound(piece.matrix, piece.options.tol), "rank")
        piece.finish()
        if why:
            piece.notes.append(NOTES[why])


def _single(piece: Component) -> None:
    if len(piece.matrix) == 1:
        piece.say("lower", 1, "rank")
        piece.take(np.sqrt(piece.matrix.values))


def _comparison(piece: Component) -> None:
    """One row per edge; without a triangle this is the CP-rank, or there is no factor."""
    matrix, tol = piece.matrix, piece.options.tol
    formula = triangle_free_rank(matrix, 0.0, rank_tol=tol)
    found = None if formula is None else exclusion.indefinite_comparison(matrix, tol)
    if found is not None:
        piece.say("not_cp", None, found.method, found.data)
    elif formula is not None and piece.options.wants("triangle-free"):
        piece.say("lower", formula, "triangle-free")
    if found is None:
        piece.dominated()


def _rank(piece: Component) -> None:
    piece.say("lower", rank_bound(piece.matrix, piece.options.tol), "rank")


def _cliques(piece: Component) -> None:
    if piece.options.wants("clique-cover"):
        piece.say("lower", clique_cover_bound(piece.matrix.values, 0.0), "clique-cover")


def _cap(piece: Component) -> None:
    """Use the theorems: something shows complete positivity, or the matrix is doubly nonnegative and small."""
    if piece.upper is not None or has_small_cap(piece.matrix):
        piece.say("upper", theorem_cap(piece.matrix), "theorem")


def _search(piece: Component, *, share: float, n_starts: int) -> None:
    """Look for factors from the lower bound up in growing steps, then between what failed and what worked."""
    A, time_limit_s = piece.matrix.values, piece.options.left(share)
    end = None if time_limit_s is None else now() + time_limit_s
    most = theorem_cap(piece.matrix) if piece.factor is None else len(piece.factor) - 1
    failed, step, known, unproved = piece.lower - 1, 1, piece.factor is not None, 0
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
            taken = piece.take(reduced, "search") or (reduced is not factor and piece.take(factor, "search"))
            unproved += not taken
        if taken:
            most, known = rows - 1, True
            step = max(1, (most - failed) // 2)
        else:
            failed = rows
            step = max(1, (most - failed) // 2) if known else 2 * step
        piece.offer()


def _face(piece: Component) -> None:
    if len(piece.matrix) > CERTIFIED_ORDER or piece.options.over or not piece.options.wants("face"):
        return
    if piece.matrix.exact is None:  # it would speak of the floats as they are, not of the matrices nearby
        piece.notes.append(NOTES["no exact"])
        return
    from covopt.completely_positive.face import face_certificate

    try:
        found = face_certificate(piece.matrix, time_limit_s=piece.options.left())
    except (BudgetError, SolverError, MissingPackageError) as error:
        piece.notes.append(NOTES["no extra" if isinstance(error, MissingPackageError) else "no face"])
        return
    if found is not None and found.lower > piece.lower:
        piece.say("lower", int(found.lower), "face", found.to_dict())
    if found is not None and (piece.upper is None or found.upper < piece.upper):
        piece.reasons = [r for r in piece.reasons if r.method != "factor"]
        piece.factor = found.factor
        piece.say("upper", int(found.upper), "face", found.to_dict())


def _separate(piece: Component) -> None:
    if piece.upper is not None or len(piece.matrix) > CERTIFIED_ORDER or piece.options.over:
        return
    from covopt.completely_positive.face import separate

    with suppress(BudgetError, SolverError, MissingPackageError):
        S = separate(piece.matrix)
        if S is not None and exclusion.separated(piece.matrix, S, piece.options.tol):
            piece.say("not_cp", None, "copositive", {"S": S})


def _moments(piece: Component, *, alone: bool = False) -> None:
    from covopt.completely_positive.moments import moment_bound

    asked = MOMENTS.get(piece.options.method)
    if alone != (asked is not None) or not (alone or piece.options.wants("moments")):
        return
    for level, kind in [asked] if asked else [(1, "strong"), (2, "strong")]:
        if not alone and (piece.closed or piece.options.over or len(piece.matrix) > MOMENT_SIZE[level]):
            return
        try:
            found = moment_bound(
                piece.matrix, level=level, method=kind, time_limit_s=piece.options.left(MOMENT_SHARE),
                tol=piece.options.tol if piece.matrix.exact is None else 0.0,
            )  # fmt: skip
        except (BudgetError, SolverError, MissingPackageError) as error:
            why = {BudgetError: "large moments", SolverError: "no moments"}.get(
                type(error), "no moments extra"
            )
            piece.notes.append(NOTES[why].format(level))
            return
        if alone or found.integer > piece.lower:
            piece.say("lower", int(found.integer), "moment", found.data)


STEPS: tuple[Callable[[Component], None], ...] = (
    _single, _comparison, _rank, partial(_moments, alone=True), _cliques,
    partial(_search, share=QUICK_SHARE, n_starts=4), _cap, _face, _separate, _moments,
    partial(_search, share=1.0, n_starts=64), _cap,
)  # fmt: skip
