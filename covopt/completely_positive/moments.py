"""Moment bounds on the CP-rank: rigorous lower bounds from approximate dual points of the relaxation."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from covopt.checks import required
from covopt.checks.memory import plan
from covopt.checks.validation import check_choice, check_time_limit
from covopt.completely_positive import Known, Reason, register
from covopt.completely_positive.matrix import SymmetricMatrix, read_matrix
from covopt.completely_positive.moment_model import METHODS, MomentModel, moment_model
from covopt.errors import BudgetError, InputError, SolverError
from covopt.exact.rounding import allowance, gamma


def rigorous_value(model: MomentModel, dual: np.ndarray) -> float:
    r"""Return a rigorous lower bound on the number of rows of every factor of A, whatever ``dual`` is.

    .. math::

        p = c^\top y = -b^\top z + (c + G^\top z)^\top y + \langle z, b - Gy\rangle
        \ge -b^\top z - \sum_{|\alpha|\ge 2} r_\alpha^- \bar y_\alpha
        - p \sum_{|\alpha|\le 1} r_\alpha^- \bar y_\alpha

    Here y are the moments of a factor with p rows, so b − Gy lies in the cone; z is ``dual`` projected to the dual
    cone; r = c + Gᵀz is the residual of stationarity and r⁻ its negative part; ȳ bounds the moments. From
    0 ≤ x_i ≤ √A_ii in every row and Σ x_i² = A_ii over the rows, Σ xᵅ ≤ Π √A_ii^{α_i} for |α| ≥ 2, and p times that
    for |α| ≤ 1. Solving for p gives the bound; it needs no a priori bound on L(1).

    Rounding: each semidefinite block is replaced by V max(w, 0) Vᵀ plus a multiple of the identity that exceeds the
    error of that product, hence positive semidefinite. Sums of N products have an error of at most γ(N + 8) times the
    sum of absolute values (fact 2 of :mod:`covopt.exact.rounding`), which also covers the rounding of the entries of
    A, their products and roots; twice that is subtracted, to cover the computed sums of absolute values. If A is
    known up to a tolerance, ``doubt`` times \|z\| is subtracted as well.

    Parameters
    ----------
    model : MomentModel
    dual : ndarray of shape (rows,)
        In the order of the rows of ``model``; semidefinite blocks as upper triangles, without factors √2.

    Returns
    -------
    float
        −inf if ``dual`` gives no bound.

    Examples
    --------
    >>> from covopt.completely_positive.moment_model import moment_model
    >>> model = moment_model(np.eye(1), 1, "plain")
    >>> rigorous_value(model, np.array([-1.0, -1.0, 0.0, 0.0, 0.0])) <= 1
    True
    """
    if dual.shape != model.b.shape or not np.isfinite(dual).all():
        return -np.inf
    z = np.array(dual, dtype=float)
    start = model.n_equal + model.n_signs
    z[model.n_equal : start] = np.maximum(z[model.n_equal : start], 0.0)
    for order in model.blocks:
        size = order * (order + 1) // 2
        z[start : start + size] = _into_cone(z[start : start + size], order)
        start += size
    G = model.G
    longest = int(np.diff(G.tocsc().indptr).max()) + 8
    residual = model.cost + G.T @ z
    error = gamma(2 * longest) * (np.abs(model.cost) + np.abs(G).T @ np.abs(z))
    missing = np.maximum(error - residual, 0.0) * model.bounds * (1.0 + gamma(8))
    low = model.degrees <= 1
    room = 1.0 + gamma(2 * (len(z) + len(missing) + 8))
    gain = -float(model.b @ z) - allowance(len(z) + 8, float(np.abs(model.b) @ np.abs(z)))
    gain -= float(np.abs(z[: model.n_equal]) @ model.doubt) * room
    gain -= float(missing[~low].sum()) * room
    share = 1.0 + float(missing[low].sum()) * room
    value = gain / share if gain > 0 else gain
    # rounding errors of the differences above, the quotient and the sum
    value -= gamma(8) * (abs(value) + float(np.abs(model.b) @ np.abs(z)) * gamma(len(z) + 8))
    return value if np.isfinite(value) else -np.inf


def _into_cone(entries: np.ndarray, order: int) -> np.ndarray:
    """Return the upper triangle of a nearby semidefinite matrix, with off-diagonal entries doubled."""
    columns = np.repeat(np.arange(order), np.arange(1, order + 1))
    rows = np.arange(len(entries)) - columns * (columns + 1) // 2
    Z = np.zeros((order, order))
    Z[rows, columns] = entries
    Z[columns, rows] = entries
    values, vectors = np.linalg.eigh(Z)
    kept = np.maximum(values, 0.0)
    product = (vectors * kept) @ vectors.T
    product = (product + product.T) / 2
    norms = np.einsum("ij,ij->j", vectors, vectors)
    product[np.diag_indices(order)] += allowance(order + 4, float(kept @ norms))
    return product[rows, columns] * np.where(rows == columns, 1.0, 2.0)


ENTRY_BYTES = 112.0  # bytes of the solver per entry of its squared semidefinite blocks


@dataclass(frozen=True, eq=False)
class MomentBound:
    """A lower bound on the CP-rank.

    Attributes
    ----------
    value : float
        Lower bound on the number of rows of every factor of A; rigorous, rounding errors included.
    solver_value : float
        Optimal value of the relaxation as reported by the solver; not rigorous.
    data : dict
        Level, method and dual point, as JSON types: the input of :func:`check_moment_bound` besides A.
    """

    value: float
    solver_value: float
    data: dict[str, Any]

    @property
    def integer(self) -> int:
        """``value`` rounded up, the bound on the CP-rank."""
        return _rounded_up(self.value)


def moment_bound(
    A: Any,
    *,
    level: int = 1,
    method: str = "strong",
    tol: float = 0.0,
    time_limit_s: float | None = None,
) -> MomentBound:
    r"""Return a lower bound on the CP-rank by an ideal-sparse moment relaxation.

    .. math::

        \min \sum_V L_V(1) \quad\text{s.t.}\quad \sum_V L_V(xx^\top) = A,\quad M_t(L_V) \succeq 0,\quad
        M_{t-1}((\sqrt{A_{ii}}x_i - x_i^2) L_V) \succeq 0,\quad M_{t-1}((A_{ij} - x_i x_j) L_V) \succeq 0

    over the maximal cliques V of the support graph (:mod:`covopt.completely_positive.moment_model`). ``value`` is
    recomputed from A and the solver's dual point as :func:`rigorous_value` describes, so it is valid even if the
    solver stopped early. All these bounds are at most the convex bound τ_cp of Fawzi and Parrilo, so on many matrices
    they are below the CP-rank. On the boundary of the completely positive cone the dual optimum is not attained, and
    the value depends slightly on where the solver stops.

    Parameters
    ----------
    A : array_like of shape (n, n)
        Symmetric and entrywise nonnegative. A value above n(n + 1)/2, the number of rows that suffices by
        Carathéodory's theorem, proves that A is not completely positive.
    level : {1, 2}
        t. Level 2 on a matrix without zeros takes 20 s at n = 8 and 90 s at n = 9, far less where A has symmetries.
    method : {"strong", "plain"}
        ``plain`` is ξ_t of Gribling, de Laat and Laurent, ``strong`` adds other valid inequalities: it was stronger
        and faster than their ξ_t† on everything measured. At level 1 they hardly differ.
    tol : float
        The bound holds for every matrix with the same zeros within tol·√(a_ii a_jj) of A, entry by entry.
    time_limit_s : float, optional
        Time limit of the solver; after it the bound is weaker but valid.

    Returns
    -------
    MomentBound

    Raises
    ------
    InputError
        If A is not square, symmetric and finite, has a negative entry or a zero diagonal entry in a nonzero row, or
        for an unknown option.
    BudgetError
        For a semidefinite block of order above 80, more than 2000 maximal cliques, or too little memory.
    SolverError
        If the solver reports the relaxation infeasible (numerical evidence that A is not completely positive), or
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
        return MomentBound(0.0, 0.0, {"level": level, "method": method, "dual": []})
    model = moment_model(scaled, level, check_choice("method", method, METHODS), tol)
    dual, solver_value = _solve(model, method, limit)
    data = {"level": level, "method": method, "dual": dual.tolist()}
    return MomentBound(rigorous_value(model, dual), solver_value, data)


def _solve(model: MomentModel, method: str, time_limit_s: float | None) -> tuple[np.ndarray, float]:
    """Return an approximate dual point, ordered like the rows of ``model``, and the value that the solver reports."""
    plan(
        ENTRY_BYTES * sum((order * (order + 1) // 2) ** 2 for order in model.blocks),
        "Take level 1, or the bounds without moments.", what="the moment relaxation", error=BudgetError,
    )  # fmt: skip
    cvxpy = required("cvxpy", "a moment bound", "conic")
    y = cvxpy.Variable(len(model.cost))
    ends = np.cumsum([model.n_equal, model.n_signs, *(order * (order + 1) // 2 for order in model.blocks)])
    slacks = [model.b[i:j] - model.G[i:j] @ y for i, j in pairwise([0, *ends])]
    constraints = [slacks[0] == 0, slacks[1] >= 0] if model.n_signs else [slacks[0] == 0]
    for order, slack in zip(model.blocks, slacks[2:], strict=True):
        q, p = np.tril_indices(order)
        place = np.arange(len(q))
        whole = sparse.csr_array((np.ones(len(q)), (q * order + p, place)), shape=(order**2, len(q)))
        whole += sparse.csr_array((1.0 * (p < q), (p * order + q, place)), shape=whole.shape)
        constraints.append(cvxpy.reshape(whole @ slack, (order, order), order="C") >> 0)
    options: dict[str, Any] = {"max_threads": 1, "direct_solve_method": "faer"}
    if method == "strong":
        # on the boundary the dual optimum is not attained; less regularisation gives better dual points
        options["static_regularization_constant"] = 1e-10
    if time_limit_s is not None:
        options["time_limit"] = time_limit_s
    problem = cvxpy.Problem(cvxpy.Minimize(model.cost @ y), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate point will do: the bound is recomputed
        try:
            problem.solve(solver=cvxpy.CLARABEL, **options)
        except cvxpy.error.SolverError as error:
            raise SolverError("the semidefinite solver stopped without a point; try level 1.") from error
    if "infeasible" in problem.status:
        raise SolverError(
            "the moment relaxation is infeasible as far as the solver can tell, so A is probably not completely "
            "positive; ask covopt.completely_positive.face.separate for a proof."
        )
    if any(constraint.dual_value is None for constraint in constraints):
        raise SolverError(f"the semidefinite solver stopped without a point ({problem.status}); try level 1.")
    duals = [-constraints[0].dual_value, *(constraint.dual_value for constraint in constraints[1:])]
    flat = [dual[np.tril_indices(len(dual))] if dual.ndim == 2 else dual for dual in duals]
    return np.concatenate(flat), float(problem.value)


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
        Whether the CP-rank is at least ``claimed``, and the recomputed value as text.

    Raises
    ------
    InputError
        If A cannot be used, or ``data`` is not what :func:`moment_bound` stores.

    Examples
    --------
    >>> A = [[2, 1], [1, 2]]
    >>> bound = moment_bound(A)
    >>> check_moment_bound(A, bound.data, 2)[0], check_moment_bound(A, bound.data, 3)[0]
    (True, False)
    """
    value = _recomputed(A, data, tol)
    return claimed <= _rounded_up(value), f"recomputed {value:.4f}"


def _recomputed(A: Any, data: dict[str, Any], tol: float) -> float:
    try:
        level, method = data["level"], check_choice("method", data["method"], METHODS)
        dual = np.array(data["dual"], dtype=float)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"data must hold the level, method and dual of a moment bound; received one with {error!r}."
        ) from error
    scaled = _scaled(A)
    return rigorous_value(moment_model(scaled, level, method, tol), dual) if len(scaled) else 0.0


def _rounded_up(value: float) -> int:
    return max(0, math.ceil(value)) if math.isfinite(value) else 0


def _text(reason: Reason) -> str:
    more = ", with signs, pairs x_i x_j localised and A⊗A" if reason.data.get("method") == "strong" else ""
    return (
        f"moment relaxation of level {reason.number('level')} over the maximal cliques{more}, a dual point of it "
        "(Gribling, de Laat and Laurent 2019; Korda and others 2024)"
    )


@register("lower", "moment", _text)
def check_moment(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int, str]:
    """Recompute the value from the dual point."""
    value = _recomputed(part, reason.data, known.tol if part.exact is None else 0.0)
    return max(1, _rounded_up(value)), f"recomputed {value:.4f}, and rounded up"


def _scaled(A: Any) -> np.ndarray:
    """Return A without zero rows, scaled exactly by powers of two to a diagonal in [1/2, 2]."""
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
