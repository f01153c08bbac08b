"""The restricted problem on columns that stay as they are, solved to the end."""

from __future__ import annotations

import numpy as np

from covopt.problems.problem import Problem
from covopt.solvers.master.newton import Master

MAX_STEPS, AHEAD = 80, 0.1  # steps, and the gap they aim at, in tolerances


def solve_restricted(
    problem: Problem, atoms: np.ndarray, dual: np.ndarray, *, tol: float, max_steps: int = MAX_STEPS
) -> Master:
    """Take steps until complementarity and residual are small.

    Parameters
    ----------
    problem : Problem
    atoms : ndarray of shape (M, N)
        Columns; they need not belong to neurons.
    dual : ndarray of shape (N, k)
        A point inside of all constraints.
    tol : float
        Relative to the value.
    max_steps : int

    Returns
    -------
    Master
        With its dual, weights and offset.

    Examples
    --------
    >>> from covopt.problems.problem import Problem
    >>> view = Problem.through(np.eye(2), np.array([3.0, -4.0]))
    >>> found = solve_restricted(view, np.eye(2), np.zeros((2, 1)), tol=1e-9)
    >>> found.dual.round(6).ravel(), found.cones.weights.round(6).ravel()
    (array([ 1., -1.]), array([ 3., -4.]))
    """
    master = Master(problem)
    columns = master.columns
    m, r = len(atoms), columns.rows.shape[1]
    columns.neurons, columns.atoms = np.zeros((m, r)), np.ascontiguousarray(atoms)
    columns.frames, columns.dims = np.zeros((m, r, r)), np.ones(m, dtype=np.int64)
    columns.live = np.zeros(m, dtype=bool)
    master.dual = dual.copy()
    master.cones.add(master.heights, 1.0, 0.0)
    if master.edges is not None:
        master.enter_edges()
        master.edges.centre(1.0)
    for _ in range(max_steps):
        value = max(abs(problem.dual_value(master.dual)), 1e-300)
        step = master.step(AHEAD * tol, value, with_networks=False)
        worth = step.residual * float(np.abs(master.dual).sum())
        if max(master.complementarity, worth) <= tol * value:
            break
    return master
