"""Moment bounds on the CP-rank, rounded to rigorous ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_choice, check_time_limit
from covopt.completely_positive.matrix import SymmetricMatrix, read_matrix
from covopt.completely_positive.moment_model import PARTS, moment_model
from covopt.completely_positive.moment_rounding import rigorous_value
from covopt.completely_positive.moment_solver import solve_moments
from covopt.completely_positive.reading import Known, Reason, register
from covopt.errors import InputError

METHODS = tuple(PARTS)
WORDS = {
    "plain": "",
    "dagger": ", with signs and A ⪰ xxᵀ localised (ξ†)",
    "strong": ", with signs, pairs x_i x_j localised and A⊗A",
}


@dataclass(frozen=True, eq=False)
class MomentBound:
    """A lower bound on the CP-rank.

    Attributes
    ----------
    value : float
        No factor of A has fewer rows; rigorous, rounding included.
    integer : int
        ``value`` rounded up, the bound on the CP-rank.
    solver_value : float
        What the solver reports for the relaxation; not rigorous.
    data : dict
        Level, method, value and dual point: what :func:`check_moment_bound` needs besides A. JSON types.
    """

    value: float
    integer: int
    solver_value: float
    data: dict[str, Any]


def moment_bound(
    A: Any,
    *,
    level: int = 1,
    method: str = "strong",
    tol: float = 0.0,
    time_limit_s: float | None = None,
) -> MomentBound:
    r"""Bound the CP-rank from below by an ideal-sparse moment relaxation.

    .. math::

        \min \sum_V L_V(1) \quad\text{s.t.}\quad \sum_V L_V(xx^\top) = A,\quad M_t(L_V) \succeq 0,\quad
        M_{t-1}((\sqrt{A_{ii}}x_i - x_i^2) L_V) \succeq 0,\quad M_{t-1}((A_{ij} - x_i x_j) L_V) \succeq 0

    over the maximal cliques V of the support graph (:mod:`covopt.completely_positive.moment_model`). The solver's
    dual point is only a hint: ``value`` is recomputed from A as :func:`rigorous_value` describes, so it bounds the
    rank of every factor even where the solver stopped early. All these bounds stay below the convex bound τ_cp of
    Fawzi and Parrilo, hence below the CP-rank itself on many matrices. On the boundary of the completely positive
    cone the dual has no optimal point and the value depends a little on where the solver stops.

    Parameters
    ----------
    A : array_like of shape (n, n)
        Symmetric and entrywise nonnegative. A value above n(n + 1)/2, which rows always do by Carathéodory, proves
        that A is not completely positive.
    level : {1, 2}
        t. Level 2 on a matrix without zeros takes 20 s at n = 8 and 90 s at n = 9, far less where A has symmetries.
    method : {"strong", "plain", "dagger"}
        ``plain`` is ξ_t of Gribling, de Laat and Laurent, ``dagger`` their ξ_t† as Korda and others computed it,
        ``strong`` adds other valid inequalities: stronger and faster than ``dagger`` on everything measured. At level
        1 they hardly differ.
    tol : float
        The bound holds for every matrix with the same zeros within tol·√(a_ii a_jj) of A, entry by entry.
    time_limit_s : float, optional
        For the solver; the bound from where it stopped is valid, if weak.

    Returns
    -------
    MomentBound

    Raises
    ------
    InputError
        Not square, symmetric and finite, a negative entry, a zero diagonal entry in a nonzero row, or an unknown
        option.
    BudgetError
        A semidefinite block of order above 80, more than 2000 maximal cliques, or more memory than there may be.
    SolverError
        The solver finds the relaxation infeasible (then A is not completely positive, as far as it can tell), or
        stops without a point.

    References
    ----------
    Gribling, de Laat, Laurent, Lower bounds on matrix factorization ranks (2019), doi:10.1007/s10208-018-09410-y.
    Korda, Laurent, Magron, Steenkamp, Exploiting ideal-sparsity (2024), doi:10.1007/s10107-023-01993-x.

    Examples
    --------
    EᵀE of the four-cycle: one row per edge.

    >>> bound = moment_bound([[2, 1, 0, 1], [1, 2, 1, 0], [0, 1, 2, 1], [1, 0, 1, 2]])
    >>> bound.integer, bound.value <= 4
    (4, True)
    """
    limit = check_time_limit(time_limit_s)
    scaled = _scaled(A)
    if not len(scaled):
        return MomentBound(0.0, 0, 0.0, {"level": level, "method": method, "value": 0.0, "dual": []})
    model = moment_model(scaled, check_level(level), check_choice("method", method, METHODS), tol)
    dual, solver_value = solve_moments(model, careful=method == "strong", time_limit_s=limit)
    value = rigorous_value(model, dual)
    data = {"level": level, "method": method, "value": value, "dual": dual.tolist()}
    return MomentBound(value, _rounded_up(value), solver_value, data)


def check_moment_bound(A: Any, data: dict[str, Any], claimed: int, *, tol: float = 0.0) -> tuple[bool, str]:
    """Recompute the bound from A and the stored dual point; no solver runs.

    Parameters
    ----------
    A : array_like of shape (n, n)
    data : dict
        As in :attr:`MomentBound.data`.
    claimed : int
    tol : float
        As in :func:`moment_bound`.

    Returns
    -------
    (bool, str)
        Whether the CP-rank is at least ``claimed``, and what was recomputed.

    Raises
    ------
    InputError
        A cannot be used, or ``data`` is not what :func:`moment_bound` stores.

    Examples
    --------
    >>> A = [[2, 1], [1, 2]]
    >>> bound = moment_bound(A)
    >>> check_moment_bound(A, bound.data, 2)[0], check_moment_bound(A, bound.data, 3)[0]
    (True, False)
    """
    try:
        level, method = check_level(data["level"]), check_choice("method", data["method"], METHODS)
        dual = np.array(data["dual"], dtype=float)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"data must hold the level, method and dual of a moment bound; received one with {error!r}."
        ) from error
    scaled = _scaled(A)
    if not len(scaled):
        return claimed <= 0, "A is zero"
    value = rigorous_value(moment_model(scaled, level, method, tol), dual)
    return claimed <= _rounded_up(value), f"recomputed {value:.4f}"


def _rounded_up(value: float) -> int:
    return max(1, math.ceil(value)) if math.isfinite(value) else 1


def _text(reason: Reason) -> str:
    method = reason.data.get("method")
    return (
        f"moment relaxation of level {reason.number('level')} over the maximal cliques"
        f"{WORDS.get(method, '') if isinstance(method, str) else ''}: {reason.number('value')}, rigorous "
        "(Gribling, de Laat and Laurent 2019; Korda and others 2024)"
    )


@register("lower", "moment", _text)
def check_moment(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[bool, str]:
    """Recompute the value from the dual point."""
    value = reason.data.get("value", 0.0)
    if reason.value is None or not value <= reason.value:
        return False, "its value is above the bound"
    return check_moment_bound(part, reason.data, reason.value, tol=known.tol if part.exact is None else 0.0)


def check_level(level: Any) -> int:
    """Return the level where it is 1 or 2.

    Raises
    ------
    InputError
        Otherwise.

    Examples
    --------
    >>> check_level(2)
    2
    """
    if isinstance(level, bool) or level not in (1, 2):
        raise InputError(f"level must be 1 or 2 (higher moments are out of reach); received {level!r}.")
    return int(level)


def _scaled(A: Any) -> np.ndarray:
    """Return A without zero rows, scaled by powers of two, which is exact, to a diagonal in [1/2, 2]."""
    values = read_matrix(A).values
    for i, j in np.argwhere(values < 0)[:1]:
        raise InputError(
            f"A[{i}, {j}] must be nonnegative; received {float(values[i, j])!r}: such a matrix is not "
            "completely positive, it has no factor."
        )
    for i in np.flatnonzero((np.diag(values) == 0) & (values > 0).any(1))[:1]:
        raise InputError(
            f"A[{i}, {i}] must be positive in a nonzero row; received 0: A is not positive semidefinite."
        )
    kept = np.diag(values) > 0
    values = values[np.ix_(kept, kept)]
    scale = np.exp2(-np.round(np.log2(np.diag(values)) / 2))
    return values * np.outer(scale, scale)
