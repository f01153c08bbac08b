"""Reference solver: enumerate every cell, then solve one second-order cone program over all of them."""

from __future__ import annotations

import numpy as np

from covopt.arrangement.enumeration import enumerate_cells
from covopt.arrangement.files import most_cells
from covopt.checks.memory import plan
from covopt.conic.programs import solve_conic
from covopt.errors import Status
from covopt.exact.rank import NEAR, ROUGH
from covopt.oracles.cascade import exact_oracle
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.loop import Point
from covopt.solvers.postprocess import finish_network, interpolating

CELL_BYTES = 2500.0  # of a cell in the program and its factors, times N + 3 r
INSTEAD = 'solver="auto" needs far less.'


def solve_all_cells(
    problem: Problem, backend: str, tol: float, time_limit_s: float | None
) -> tuple[Point, str]:
    """Solve over all cells through cvxpy, then make the network interpolate and the dual feasible.

    Parameters
    ----------
    problem : Problem
    backend : str
        CLARABEL, SCS or MOSEK.
    tol : float
    time_limit_s : float, optional

    Returns
    -------
    (Point, str)
        The point, and the name of the backend that ran.

    Raises
    ------
    InputError
        When the program would take more memory than is available.
    """
    n, rank = problem.rows.shape
    most = most_cells(problem.rows)
    plan(most * CELL_BYTES * (n + 3 * rank), INSTEAD, what=f"the program of {most:,} cells")
    patterns = enumerate_cells(problem.rows).patterns
    found = solve_conic(
        problem, patterns, backend=backend, tol=min(tol / 10, 1e-9), time_limit_s=time_limit_s
    )  # fmt: skip
    neurons, weights, offset = found.neurons, found.weights, found.offset
    network = neurons, weights[:, None], np.array([offset])
    network = finish_network(problem, _on_faces(problem.rows, network[0]), *network[1:])
    # merging may move a neuron slightly off a face again
    network = interpolating(problem, _on_faces(problem.rows, network[0]), *network[1:])
    residual = problem.missed(*network)
    upper = problem.network_value(*network[1:]) if residual <= PASSES else np.inf
    dual = problem.project_dual(found.dual[:, None])
    dual_norm = exact_oracle(problem.rows, 0).price(problem.asked(dual), threshold=np.inf).upper_bound
    dual, lower = problem.scale_dual(dual, dual_norm)
    point = Point(*network, upper, dual, lower, Status.GAP)
    if point.gap <= tol:
        point.status = Status.CERTIFIED
    return point, f"conic:{found.backend}"


def _on_faces(rows: np.ndarray, neurons: np.ndarray) -> np.ndarray:
    """Move neurons onto the hyperplanes that they nearly touch: interior points stay strictly on one side."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    moved = neurons.copy()
    for j, neuron in enumerate(neurons):
        near = units[np.abs(units @ neuron) <= NEAR]
        if not len(near):
            continue
        _, values, right = np.linalg.svd(near, full_matrices=False)
        span = right[values > ROUGH]  # nearly dependent rows would turn the neuron
        onto = neuron - span.T @ (span @ neuron)
        if len(span) < rows.shape[1] and np.linalg.norm(onto - neuron) <= 1e2 * NEAR:
            moved[j] = onto / np.linalg.norm(onto)
    return moved
