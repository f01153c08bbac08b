"""Solve a moment relaxation for a dual point: a hint, which the rounding turns into a bound."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from covopt.checks.memory import memory_left, plan
from covopt.completely_positive.moment_model import MomentModel
from covopt.errors import BudgetError, SolverError

ENTRY_BYTES = 112.0  # of the solver, for each entry of the squares of its semidefinite blocks


def solve_moments(
    model: MomentModel, *, careful: bool = False, time_limit_s: float | None = None
) -> tuple[np.ndarray, float]:
    """Solve by Clarabel, whose form the model already has.

    Parameters
    ----------
    model : MomentModel
    careful : bool
        Whether to regularise less. Where A lies on the boundary of the completely positive cone no dual point is
        optimal, and a better one is found the less the solver regularises.
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
    >>> round(solve_moments(moment_model(np.eye(2), 1, "plain"))[1], 4)
    2.0
    """
    plan(
        ENTRY_BYTES * sum((order * (order + 1) // 2) ** 2 for order in model.blocks), memory_left(),
        "Take level 1, or the bounds without moments.", what="the moment relaxation", error=BudgetError,
    )  # fmt: skip
    import clarabel

    triangles = [np.where(np.arange(q + 1) < q, math.sqrt(2.0), 1.0) for n in model.blocks for q in range(n)]
    weights = np.concatenate([np.ones(model.n_equal + model.n_signs), *triangles])
    cones = [clarabel.ZeroConeT(model.n_equal)]
    if model.n_signs:
        cones.append(clarabel.NonnegativeConeT(model.n_signs))
    cones += [clarabel.PSDTriangleConeT(order) for order in model.blocks]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.direct_solve_method = "faer"
    if careful:
        settings.static_regularization_constant = 1e-10
    if time_limit_s is not None:
        settings.time_limit = time_limit_s
    constraints = sparse.csc_matrix(sparse.diags(weights) @ model.G)
    nothing = sparse.csc_matrix((len(model.cost),) * 2)
    solver = clarabel.DefaultSolver(nothing, model.cost, constraints, weights * model.b, cones, settings)
    result = solver.solve()
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
