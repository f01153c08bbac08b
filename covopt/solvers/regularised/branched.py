"""A loss in five dimensions and more, where faces could be walked: a search, and one proof of where it ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.oracles.faces import DEFAULT_FACE_BUDGET, count_faces
from covopt.oracles.support import bound_gauge
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.regularised.heuristic import solve_heuristic_fit
from covopt.solvers.regularised.points import FitPoint
from covopt.status import Status

FEW_DIMENSIONS, CHEAP_FACES = 4, 1e6  # up to which faces are walked in every round


def has_costly_faces(problem: RegularisedProblem) -> bool:
    """Whether walking all faces in every round is possible, but a search with one proof at the end is cheaper.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets(np.ones(20))
    >>> rows = np.random.default_rng(0).standard_normal((20, 6))
    >>> [has_costly_faces(RegularisedProblem(rows[:, :r], loss, 1.0)) for r in (3, 6)]
    [False, True]
    """
    n, r = int(problem.rows.any(axis=1).sum()), problem.rows.shape[1]
    return (
        problem.n_outputs == 1
        and r > FEW_DIMENSIONS
        and CHEAP_FACES < count_faces(n, r) <= DEFAULT_FACE_BUDGET
    )


def solve_branched_fit(problem: RegularisedProblem, **options: Any) -> FitPoint:
    """Search as where faces are too many, and bound the dual point that it ends with as certificates do.

    Parameters
    ----------
    problem : RegularisedProblem
        With one output.
    **options
        Of :func:`~covopt.solvers.regularised.heuristic.solve_heuristic_fit`.
    """
    point = solve_heuristic_fit(problem, **options)
    if point.status is Status.HEURISTIC:
        live = problem.rows.any(axis=1)
        found = bound_gauge(problem.rows[live], np.ascontiguousarray(point.dual[live, 0]))
        dual, lower = problem.scale_dual(point.dual, found.value)
        if lower > point.lower_bound:
            point.dual, point.lower_bound = dual, lower
    return point
