"""The last pass over a network: merged within cells, few neurons (N, or N·k), interpolating to rounding."""

from __future__ import annotations

import numpy as np

from covopt.checks.timing import stage
from covopt.problems.shallow import ShallowProblem, sizes
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.merging import Faces, merge_in_cells, polish
from covopt.sparsify.caratheodory import caratheodory

EXACT = 1e-11  # residual relative to max|y| that the last pass must reach to replace what it was given
NEGLIGIBLE = 1e-10  # mass of a neuron, relative to the masses and to max|y| = 1, that is tried without
COSTS = 1e-10  # relative rise of the cost that it may bring
LIGHT = 1e-7  # mass, as above, of a neuron without which the others are moved to interpolate


@stage("finishing")
def finish_network(
    problem: ShallowProblem, neurons: np.ndarray, weights: np.ndarray, offset: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray, float | np.ndarray]:
    """Merge, sparsify and polish a network; each step is kept only if it interpolates at no higher cost.

    Parameters
    ----------
    problem : ShallowProblem
    neurons : ndarray of shape (m, r)
        Unit directions.
    weights : ndarray of shape (m,) or (m, k)
    offset : float or ndarray of shape (k,)

    Returns
    -------
    (ndarray, ndarray, float or ndarray)
        Unit neurons, weights, offset.
    """
    if problem.is_vector:
        return _finish_vector(problem, neurons, weights, offset)
    used = weights != 0
    best = _without_idle(problem, neurons[used], weights[used], offset)
    if not len(best[0]):
        return best
    for sparsify, light in ((False, 0.0), (True, 0.0), (False, LIGHT)):
        kept = np.abs(best[1]) > light * max(1.0, float(np.abs(best[1]).max()))
        if light and kept.all():
            break
        candidate = _pass(problem, best[0][kept], best[1][kept], best[2], sparsify=sparsify)
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
    return float(np.abs(problem.residual(neurons, weights, offset)).max(initial=0.0))


def _finish_vector(problem: ShallowProblem, neurons, weights, offset):
    """With vector outputs: Carathéodory on the masses ‖v_j‖ at fixed output directions, and a polish.

    A cell may need several neurons here, so nothing is merged within cells: column generation has moved what
    belongs together already.
    """
    used = sizes(weights) > 0
    best = neurons[used], weights[used], offset
    if not used.any():
        return best
    for step in (_without_light, _sparsified, _without_light):
        candidate = _polished(problem, *step(problem, *best))
        residual, before = _residual(problem, *candidate), _residual(problem, *best)
        ceiling = problem.primal_value(best[1], best[2]) * (1 + COSTS)
        cheap = problem.primal_value(candidate[1], candidate[2]) <= ceiling
        if residual <= EXACT < before or (cheap and residual <= max(EXACT, before)):
            best = candidate
    return best


def _without_light(problem, neurons, weights, offset):
    mass = sizes(weights)
    heavy = mass > NEGLIGIBLE * max(1.0, float(mass.max(initial=0.0)))
    return neurons[heavy], weights[heavy], offset


def _sparsified(problem, neurons, weights, offset):
    mass = sizes(weights)
    columns = problem.atoms(neurons)[:, None, :] * (weights / mass[:, None]).T[None, :, :]
    kept = caratheodory(columns.reshape(-1, len(mass)), mass)
    live = kept > 0
    return neurons[live], weights[live] * (kept / mass)[live, None], offset


def _polished(problem, neurons, weights, offset):
    """Correct the output weights by the smallest change, relative to their size, that interpolates."""
    if not len(neurons):
        return neurons, weights, offset
    mass = sizes(weights)
    metric = np.sqrt(mass)
    atoms = problem.atoms(neurons).T
    scaled = atoms * metric[:, None]
    if problem.has_offset:
        lever = float(np.sqrt(mass.mean()))
        scaled = np.concatenate([scaled, np.full((1, scaled.shape[1]), lever)])
    correction = LeastNorm(scaled)
    for _ in range(3):
        missed = problem.residual(neurons, weights, offset)
        if np.abs(missed).max() <= 1e-16:
            break
        step = correction.solve(missed, accurate=True)
        weights = weights + metric[:, None] * step[: len(weights)]
        if problem.has_offset:
            offset = offset + lever * step[-1]
    return neurons, weights, offset


def _pass(problem: ShallowProblem, neurons, weights, offset, *, sparsify: bool):
    if sparsify:
        weights = caratheodory(problem.atoms(neurons), weights)
    heavy = np.abs(weights) > 1e-13 * np.abs(weights).max(initial=0.0)
    faces: Faces = merge_in_cells(problem.rows, neurons[heavy], weights[heavy])
    faces, offset, _ = polish(
        problem.rows, problem.targets, faces, offset, moves_offset=problem.has_offset, rounds=10
    )
    masses = faces.masses
    live = masses > 0
    return faces.vectors[live] / masses[live, None], (faces.signs * masses)[live], offset
