"""Postprocessing of a network: merge within cells and reduce to N (or N·k) neurons, at no larger objective.

Merging and Carathéodory keep the outputs on the data and never raise the norm. For interpolation, weights and neurons
are then moved, as little as possible, until the network interpolates up to rounding.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from covopt.checks.log import stage
from covopt.exact.rank import ATOMS, COMPUTED, FOUND, NEAR
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.least_norm import MOST_UNKNOWNS
from covopt.solvers.master.networks import interpolate
from covopt.solvers.merging import Faces, Unit, balanced_faces, merge_alike, polish
from covopt.solvers.quick import round_seconds
from covopt.sparsify.reduction import caratheodory

ROUNDING = COMPUTED  # residual that corrections aim at
# in radians, within which neurons of several outputs are merged; those lighter than its square are dropped on trial
ANGLES = 0.0, 1e-6, 1e-4, 1e-3, 1e-2, 0.1


Network = tuple[np.ndarray, np.ndarray, np.ndarray]


@stage("finishing")
def finish_network(
    problem: Problem,
    neurons: np.ndarray,
    weights: np.ndarray,
    offset: np.ndarray,
    *,
    unit: Unit | None = None,
) -> Network:
    """Merge, sparsify and polish a network; each step is kept only if the objective is no higher.

    Parameters
    ----------
    problem : Problem
    neurons : ndarray of shape (m, r)
        Of cost one.
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)
    unit : Unit, optional
        Cost of neurons, with one output; by default their norm.

    Returns
    -------
    (ndarray, ndarray, ndarray)
        Unit neurons, weights, offset.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 2.0])
    >>> units = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> len(finish_network(Problem(np.eye(2), loss, 0.1), units, np.ones((3, 1)), np.zeros(1))[0])
    1
    """
    unit = unit or Unit()
    if not problem.interpolates:
        return _finish_with_loss(problem, unit, neurons, weights, offset)
    if not problem.is_scalar:
        return _finish_vector(problem, neurons, weights, offset)
    used = weights[:, 0] != 0
    best = neurons[used], weights[used], offset
    if not len(best[0]):
        return best
    for light in (0.0, NEAR):
        kept = np.abs(best[1][:, 0]) > light * max(1.0, float(np.abs(best[1]).max()))
        if light and kept.all():
            break
        candidate = _pass(problem, unit, best[0][kept], best[1][kept], best[2])
        if _is_as_good(problem, candidate, best):
            best = candidate
    return best


def _is_as_good(problem: Problem, candidate: Network, best: Network) -> bool:
    """Return whether a candidate interpolates at no higher cost; if the best one does not, any cost will do."""
    residual, before = problem.missed(*candidate), problem.missed(*best)
    ceiling = problem.network_value(*best[1:]) * (1.0 + FOUND)
    cheap = problem.network_value(*candidate[1:]) <= ceiling
    return residual <= ATOMS < before or (cheap and residual <= max(ATOMS, before))


def interpolating(problem: Problem, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> Network:
    """Interpolate by the least change of the weights of unit neurons, relative to their size; drop idle ones."""
    changed, _, moved = interpolate(
        problem.atoms(neurons).T, problem.targets, weights, offset, has_offset=problem.has_offset
    )
    used = changed.any(axis=1)
    return neurons[used], changed[used], moved


def _finish_vector(problem: Problem, neurons, weights, offset):
    """Merge neurons of vector outputs that nearly agree, apply Carathéodory to the masses ‖v_j‖, then interpolate.

    A cell may need several neurons here, so only those with nearly equal directions and outputs are merged.
    """
    used = weights.any(axis=1)
    best = given = neurons[used], weights[used], offset
    for source in ("given", "best") if used.any() else ():
        neurons, weights, offset = given if source == "given" else best
        mass, last = np.linalg.norm(weights, axis=1), np.inf
        for angle in ANGLES:
            heavy = mass > max(ATOMS, angle**2) * max(1.0, float(mass.max()))
            units, merged = merge_alike(problem.rows, neurons[heavy], weights[heavy], angle)
            # from no fewer neurons than the best has, Carathéodory leaves as many again
            many = last < np.inf and len(units) >= len(best[0]) and problem.missed(*best) <= ATOMS
            if not 0 < len(units) < last or many:
                continue
            last = len(units)
            fewer = _sparsified(problem, units, merged, offset)
            for meet in (interpolating, _by_moves):
                candidate = meet(problem, *fewer)
                if _is_as_good(problem, candidate, best):
                    best = candidate
                    break
    return best


def _sparsified(problem, neurons, weights, offset):
    mass = np.linalg.norm(weights, axis=1)
    neurons, weights, mass = neurons[mass > 0], weights[mass > 0], mass[mass > 0]
    columns = problem.atoms(neurons)[:, None, :] * (weights / mass[:, None]).T[None, :, :]
    kept = caratheodory(columns.reshape(columns.shape[0] * columns.shape[1], len(mass)), mass)
    live = kept > 0
    return neurons[live], weights[live] * (kept / mass)[live, None], offset


def sparsified(problem: Problem, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> Network:
    """Reduce a network to at most N·k neurons by Carathéodory, and correct its weights to interpolate.

    Parameters
    ----------
    problem : Problem
    neurons : ndarray of shape (m, r)
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)
    """
    return interpolating(problem, *_sparsified(problem, neurons, weights, offset))


def with_few_neurons(
    problem: Problem,
    neurons: np.ndarray,
    weights: np.ndarray,
    offset: np.ndarray,
    spare: float | None = None,
) -> Network:
    """Return a network with at most N·k neurons: the given one, or its reduction by Carathéodory if there is time.

    Parameters
    ----------
    problem : Problem
    neurons : ndarray of shape (m, r)
        Unit.
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)
    spare : float, optional
        Seconds; Carathéodory is skipped if it would take more.
    """
    most = problem.targets.size
    given = neurons, weights, offset
    if len(neurons) <= most or (spare is not None and round_seconds(problem) > spare):
        return given
    fewer = sparsified(problem, neurons, weights, offset)
    met = len(fewer[0]) <= most and problem.missed(*fewer) <= PASSES
    return fewer if met else given


def _by_moves(problem: Problem, neurons, weights, offset) -> Network:
    """Interpolate by moving neurons in their faces as well, where there are too few output weights.

    For EᵀE of K₃,₃ this leaves 9 neurons instead of 23.
    """
    if len(neurons) * (weights.shape[1] + neurons.shape[1]) > MOST_UNKNOWNS:
        return neurons, weights, offset
    return _polished(problem, Unit(), balanced_faces(problem.rows, neurons, weights), offset)


def _polished(problem: Problem, unit: Unit, faces: Faces, offset: np.ndarray) -> Network:
    moved, shift, _ = polish(problem.rows, problem.targets, faces, offset, moves_offset=problem.has_offset)
    return *unit.split(moved), shift


def _pass(problem: Problem, unit: Unit, neurons, weights, offset) -> Network:
    """Merge, leave at most N neurons, and move them until they interpolate."""
    faces = unit.merge(problem.rows, neurons, weights[:, 0])
    neurons, weights = unit.split(faces)
    if len(neurons) > problem.targets.size:
        signed = caratheodory(problem.atoms(neurons), weights[:, 0])
        heavy = np.abs(signed) > 1e-13 * np.abs(signed).max(initial=0.0)
        faces = unit.merge(problem.rows, neurons[heavy], signed[heavy])
    return _polished(problem, unit, faces, offset)


def _finish_with_loss(problem: Problem, unit: Unit, neurons, weights, offset) -> Network:
    """Drop negligible neurons, merge within cells (one output), and reduce to at most N·q neurons."""
    used = weights.any(axis=1)
    best = neurons[used], weights[used], offset
    ceiling = _value(problem, *best) * (1.0 + FOUND)
    best = _without_lightest(problem, best, ceiling)  # an interior point leaves some weight on every column
    for step in (partial(_merged, unit), _sparsified):
        if len(best[0]):
            best = _better(problem, best, step(problem, *best), ceiling)
    return _without_lightest(problem, best, ceiling)


def _value(problem: Problem, neurons, weights, offset) -> float:
    return problem.primal_value(problem.fitted(neurons, weights, offset), weights, offset)


def _better(problem, best: Network, candidate: Network, ceiling: float) -> Network:
    fewer = len(candidate[0]) <= len(best[0])
    return candidate if fewer and _value(problem, *candidate) <= ceiling else best


def _without_lightest(problem: Problem, best: Network, ceiling: float) -> Network:
    """Drop the lightest neurons, as many as the objective allows."""
    order = np.argsort(np.linalg.norm(best[1], axis=1), kind="stable")
    fewest, most = 0, len(order) + 1  # counts that may and may not be dropped
    while most - fewest > 1:
        count = (fewest + most) // 2
        left = np.sort(order[count:])
        if _value(problem, best[0][left], best[1][left], best[2]) <= ceiling:
            fewest = count
        else:
            most = count
    left = np.sort(order[fewest:])
    return best[0][left], best[1][left], best[2]


def _merged(unit: Unit, problem: Problem, neurons, weights, offset) -> Network:
    if weights.shape[1] > 1:  # a cell may need several neurons with several outputs
        return neurons, weights, offset
    rows = problem.rows[problem.rows.any(axis=1)]
    return *unit.split(unit.merge(rows, neurons, weights[:, 0])), offset
