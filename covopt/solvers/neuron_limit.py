"""More than N neurons (N·k with k outputs) are never needed, and never returned."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from covopt.limits import TimeUp, limited
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.finish import sparsified
from covopt.solvers.master.objective import PASSES
from covopt.solvers.quick import quick_network

PER_S = 4e9  # (N·k)³ for Carathéodory, whose factors hear no deadline


def with_few_neurons(
    problem: ShallowProblem,
    neurons: np.ndarray,
    weights: np.ndarray,
    offset: Any,
    time_limit_s: float | None = None,
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return a network with at most N·k neurons: the given one, what Carathéodory leaves, or a quick one.

    Parameters
    ----------
    problem : ShallowProblem
    neurons : ndarray of shape (m, r)
        Unit.
    weights : ndarray of shape (m,) or (m, k)
    offset : float or ndarray of shape (k,)
    time_limit_s : float, optional
        For Carathéodory.
    """
    most = problem.targets.size
    if len(neurons) <= most:
        return neurons, weights, offset
    fewer = neurons, weights, offset
    seconds = np.inf if time_limit_s is None else time_limit_s
    ends = float(most) ** 3 / PER_S <= seconds
    with contextlib.suppress(TimeUp), limited(time_limit_s if ends else 0.0):
        fewer = sparsified(problem, neurons, weights, offset)
    if len(fewer[0]) <= most and np.abs(problem.residual(*fewer)).max(initial=0.0) <= PASSES:
        return fewer
    quick = quick_network(problem, seconds)
    return (quick.neurons, quick.weights, quick.offset) if len(quick.neurons) else (neurons, weights, offset)
