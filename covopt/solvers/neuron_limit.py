"""More than N neurons (N·k with k outputs) are never needed, and returned only where there is no time for fewer."""

from __future__ import annotations

import numpy as np

from covopt.problems.problem import PASSES, Problem
from covopt.solvers.finish import sparsified

PER_S = 4e9  # (N·k)³ for Carathéodory, whose factors hear no deadline


def with_few_neurons(
    problem: Problem,
    neurons: np.ndarray,
    weights: np.ndarray,
    offset: np.ndarray,
    spare: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a network with at most N·k neurons: the given one, or what Carathéodory leaves where that ends in time.

    Parameters
    ----------
    problem : Problem
    neurons : ndarray of shape (m, r)
        Unit.
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)
    spare : float, optional
        Seconds; Carathéodory is not begun where it takes more.
    """
    most = problem.targets.size
    given = neurons, weights, offset
    if len(neurons) <= most or (spare is not None and float(most) ** 3 / PER_S > spare):
        return given
    fewer = sparsified(problem, neurons, weights, offset)
    met = len(fewer[0]) <= most and problem.missed(*fewer) <= PASSES
    return fewer if met else given
