"""The last pass over a network: merged within cells, at most N neurons, interpolating to rounding."""

from __future__ import annotations

import numpy as np

from covopt.problems.shallow import ShallowProblem
from covopt.solvers.merging import Faces, merge_in_cells, polish
from covopt.solvers.sparsify import caratheodory

EXACT = 1e-11  # residual relative to max|y| that the last pass must reach to replace what it was given
NEGLIGIBLE = 1e-10  # mass of a neuron, relative to the masses and to max|y| = 1, that is tried without
COSTS = 1e-10  # relative rise of the cost that it may bring


def finish_network(
    problem: ShallowProblem, neurons: np.ndarray, weights: np.ndarray, offset: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Merge, sparsify and polish a network; each step is kept only if it interpolates at no higher cost.

    Parameters
    ----------
    problem : ShallowProblem
    neurons : ndarray of shape (m, r)
        Unit directions.
    weights : ndarray of shape (m,)
    offset : float

    Returns
    -------
    (ndarray, ndarray, float)
        Unit neurons, signed weights, offset.
    """
    used = weights != 0
    best = _without_idle(problem, neurons[used], weights[used], offset)
    if not len(best[0]):
        return best
    for sparsify in (False, True):
        candidate = _pass(problem, *best, sparsify=sparsify)
        residual, before = _residual(problem, *candidate), _residual(problem, *best)
        ceiling = problem.primal_value(best[1], best[2]) * (1 + COSTS)
        cheap = problem.primal_value(candidate[1], candidate[2]) <= ceiling
        # a network that misses the points has no cost to be compared with
        if residual <= EXACT < before or (cheap and residual <= max(EXACT, before)):
            best = candidate
    return _without_idle(problem, *best)


def _without_idle(problem: ShallowProblem, neurons, weights, offset):
    """Leave out neurons of negligible mass where the others, or the offset, interpolate without them."""
    heavy = np.abs(weights) > NEGLIGIBLE * max(1.0, float(np.abs(weights).max(initial=0.0)))
    if heavy.all():
        return neurons, weights, offset
    moved = offset
    if problem.has_offset:
        moved += float((problem.targets - offset - problem.atoms(neurons[heavy]) @ weights[heavy]).mean())
    fewer = neurons[heavy], weights[heavy], moved
    return fewer if _residual(problem, *fewer) <= EXACT else (neurons, weights, offset)


def _residual(problem, neurons, weights, offset):
    return float(np.abs(problem.atoms(neurons) @ weights + offset - problem.targets).max(initial=0.0))


def _pass(problem: ShallowProblem, neurons, weights, offset, *, sparsify: bool):
    if sparsify:
        weights = caratheodory(problem.atoms(neurons), weights)
    heavy = np.abs(weights) > 1e-13 * np.abs(weights).max()
    faces: Faces = merge_in_cells(problem.rows, neurons[heavy], weights[heavy])
    faces, offset, _ = polish(
        problem.rows, problem.targets, faces, offset, moves_offset=problem.has_offset, rounds=10
    )
    masses = faces.masses
    live = masses > 0
    return faces.vectors[live] / masses[live, None], (faces.signs * masses)[live], offset
