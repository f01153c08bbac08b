"""Solve a moment relaxation for a dual point: a hint, which the rounding turns into a bound."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from covopt.checks.memory import memory_left, plan
from covopt.completely_positive.moment_model import MomentModel
from covopt.completely_positive.moment_symmetry import Reduction, automorphisms
from covopt.errors import BudgetError, SolverError

ENTRY_BYTES = 112.0  # of the solver, for each entry of the squares of its semidefinite blocks


def solve_moments(
    model: MomentModel, A: np.ndarray, *, method: str = "plain", time_limit_s: float | None = None
) -> tuple[np.ndarray, float]:
    """Solve by Clarabel, over the invariants of A's symmetries where it has any.

    Parameters
    ----------
    model : MomentModel
    A : ndarray of shape (n, n)
        The matrix the model was written for.
    method : {"plain", "dagger", "strong"}
        Where A lies on the boundary of the completely positive cone no dual point is optimal, and a better one is
        found the less the solver regularises; ``strong`` goes further there.
    time_limit_s : float, optional

    Returns
    -------
    (ndarray of shape (rows,), float)
        Dual point in the order of the rows, semidefinite blocks as upper triangles without factors √2; the solver's
        value.

    Raises
    ------
    BudgetError
        The solver would take more memory than there may be.
    SolverError
        The relaxation is infeasible as far as the solver can tell, or there is no point.

    Examples
    --------
    >>> from covopt.completely_positive.moment_model import moment_model
    >>> A = np.eye(2)
    >>> round(solve_moments(moment_model(A, 1, "plain"), A)[1], 4)
    2.0
    """
    group = automorphisms(A)
    if len(group) == 1:
        return _conic(
            model.cost, model.G, model.b, model.n_equal, model.n_signs, model.blocks, method, time_limit_s
        )  # fmt: skip
    reduced = Reduction.of(model, group)
    dual, value = _conic(
        reduced.cost, reduced.G, reduced.b, reduced.n_equal, reduced.n_signs, reduced.blocks, method, time_limit_s
    )  # fmt: skip
    return reduced.lift(dual), value


def _conic(
    cost: np.ndarray,
    G: sparse.csr_matrix,
    b: np.ndarray,
    n_equal: int,
    n_signs: int,
    blocks: tuple[int, ...],
    method: str,
    time_limit_s: float | None,
) -> tuple[np.ndarray, float]:
    plan(
        ENTRY_BYTES * sum((order * (order + 1) // 2) ** 2 for order in blocks), memory_left(),
        "Take level 1, or the bounds without moments.", what="the moment relaxation", error=BudgetError,
    )  # fmt: skip
    import clarabel

    weights = np.ones(len(b))
    start = n_equal + n_signs
    for order in blocks:
        size = order * (order + 1) // 2
        weights[start : start + size] = math.sqrt(2.0)
        weights[start + np.cumsum(np.arange(1, order + 1)) - 1] = 1.0
        start += size
    cones = [clarabel.ZeroConeT(n_equal)]
    if n_signs:
        cones.append(clarabel.NonnegativeConeT(n_signs))
    cones += [clarabel.PSDTriangleConeT(order) for order in blocks]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.direct_solve_method = "faer"
    if method == "strong":
        settings.static_regularization_constant = 1e-10
    if time_limit_s is not None:
        settings.time_limit = time_limit_s
    constraints = sparse.csc_matrix(sparse.diags(weights) @ G)
    quadratic = sparse.csc_matrix((len(cost),) * 2)
    result = clarabel.DefaultSolver(quadratic, cost, constraints, weights * b, cones, settings).solve()
    status = str(result.status)
    if "PrimalInfeasible" in status:
        raise SolverError(
            "the moment relaxation is infeasible as far as the solver can tell, so A is probably not completely "
            "positive; ask covopt.completely_positive.face.separate for a proof."
        )
    dual = np.asarray(result.z) / weights
    if not np.isfinite(dual).all():
        raise SolverError(f"the semidefinite solver stopped without a point ({status}); try level 1.")
    return dual, float(result.obj_val)
