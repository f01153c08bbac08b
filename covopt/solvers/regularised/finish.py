"""The last pass over a network with a loss: merged within cells, few neurons, at no larger objective."""

from __future__ import annotations

from functools import partial

import numpy as np

from covopt.checks.timing import stage
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.merging import Unit
from covopt.sparsify.caratheodory import caratheodory

RISE = 1e-11  # relative rise of the objective that fewer neurons may cost
SHARES = (1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)

Network = tuple[np.ndarray, np.ndarray, np.ndarray]


@stage("finishing")
def finish_fit(
    problem: RegularisedProblem,
    neurons: np.ndarray,
    weights: np.ndarray,
    offset: np.ndarray,
    *,
    unit: Unit | None = None,
) -> Network:
    """Leave out what is negligible, merge within cells (one output), leave at most N·q neurons (Carathéodory).

    Merging and Carathéodory keep the outputs on the data and never raise the norm; every step is kept only if the
    objective does not rise by more than 1e-11 of it.

    Parameters
    ----------
    problem : RegularisedProblem
    neurons : ndarray of shape (m, r)
        Of cost one.
    weights : ndarray of shape (m, q)
    offset : ndarray of shape (q,)
    unit : Unit, optional
        What neurons cost, with one output; without it their norm.

    Returns
    -------
    (ndarray, ndarray, ndarray)
        Unit neurons, weights, offset.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 2.0])
    >>> problem = RegularisedProblem(np.eye(2), loss, 0.1)
    >>> units = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> len(finish_fit(problem, units, np.ones((3, 1)), np.zeros(1))[0])
    1
    """
    used = np.linalg.norm(weights, axis=1) > 0
    best: Network = neurons[used], weights[used], offset
    ceiling = _value(problem, *best) * (1.0 + RISE)
    best = _without_lightest(problem, best, ceiling)  # an interior point leaves some weight on every column
    for step in (partial(_merged, unit or Unit()), _sparse):
        if len(best[0]):
            best = _better(problem, best, step(problem, *best), ceiling)
    return _without_lightest(problem, best, ceiling)


def _value(problem: RegularisedProblem, neurons, weights, offset) -> float:
    return problem.primal_value(problem.fitted(neurons, weights, offset), weights, offset)


def _better(problem, best: Network, candidate: Network, ceiling: float) -> Network:
    fewer = len(candidate[0]) <= len(best[0])
    return candidate if fewer and _value(problem, *candidate) <= ceiling else best


def _without_lightest(problem: RegularisedProblem, best: Network, ceiling: float) -> Network:
    """Leave out the neurons below the largest share of the heaviest one that the objective allows."""
    mass = np.linalg.norm(best[1], axis=1)
    for share in reversed(SHARES):
        heavy = mass > share * mass.max(initial=0.0)
        fewer = best[0][heavy], best[1][heavy], best[2]
        if _value(problem, *fewer) <= ceiling:
            return fewer
    return best


def _merged(unit: Unit, problem: RegularisedProblem, neurons, weights, offset) -> Network:
    if weights.shape[1] > 1:  # a cell may need several neurons with several outputs
        return neurons, weights, offset
    rows = problem.rows[problem.rows.any(axis=1)]
    units, signed = unit.split(unit.merge(rows, neurons, weights[:, 0]))
    return units, signed[:, None], offset


def _sparse(problem: RegularisedProblem, neurons, weights, offset) -> Network:
    mass = np.linalg.norm(weights, axis=1)
    directions = weights / mass[:, None]
    columns = problem.atoms(neurons)[:, None, :] * directions.T[None, :, :]
    kept = caratheodory(columns.reshape(-1, len(mass)), mass)
    live = kept > 0
    return neurons[live], directions[live] * kept[live, None], offset
