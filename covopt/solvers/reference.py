"""The reference: enumerate every cell, solve one second-order cone program over all of them."""

from __future__ import annotations

import numpy as np

from covopt.arrangement.enumeration import enumerate_cells
from covopt.oracles.faces import FaceOracle
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import FEASIBLE, Point
from covopt.solvers.conic import solve_conic
from covopt.solvers.merging import merge_in_cells, polish
from covopt.status import Status


def solve_all_cells(
    problem: ShallowProblem, backend: str, tol: float, time_limit_s: float | None
) -> tuple[Point, str]:
    """Solve over all cells through cvxpy, then make the network interpolate and the dual feasible.

    Parameters
    ----------
    problem : ShallowProblem
    backend : str
        CLARABEL, SCS or MOSEK.
    tol : float
    time_limit_s : float, optional

    Returns
    -------
    (Point, str)
        The point, and the name of the backend that ran.
    """
    patterns = enumerate_cells(problem.rows).patterns
    found = solve_conic(
        problem, patterns, backend=backend, tol=min(tol / 10, 1e-9), time_limit_s=time_limit_s
    )  # fmt: skip
    faces = merge_in_cells(problem.rows, found.neurons, found.weights)
    faces, offset, residual = polish(
        problem.rows, problem.targets, faces, found.offset, moves_offset=problem.has_offset, rounds=10
    )
    masses = faces.masses
    upper = problem.primal_value(masses, offset) if residual <= FEASIBLE else np.inf
    dual = problem.project_dual(found.dual)
    dual, lower = problem.scale_dual(dual, FaceOracle(problem.rows).price(dual, threshold=np.inf).upper_bound)
    point = Point(
        faces.vectors / masses[:, None], faces.signs * masses, offset, upper, dual, lower, Status.GAP
    )  # fmt: skip
    if point.gap <= tol:
        point.status = Status.CERTIFIED
    return point, f"conic:{found.backend}"
