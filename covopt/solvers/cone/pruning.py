"""From the masses of Frank–Wolfe to few neurons: merged within cells, a vertex of the masses, exact again."""

from __future__ import annotations

import numpy as np

from covopt.problems.cone import ConeProblem
from covopt.solvers.cone.sliding import cluster
from covopt.sparsify.caratheodory import caratheodory

FEASIBLE = 1e-11  # residual of a network, relative to max |Y|, that counts as interpolating
EXACT = 1e-13  # residual, relative to max |Y|, that is rounding
MAX_UNKNOWNS = 4000


def prune(
    problem: ConeProblem, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray, *, slack: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reduce a network to at most N·k neurons without raising its value by more than a share ``slack``.

    Masses with fixed output directions are a point of {m ≥ 0 : Σ m_j a_j ⊗ v_j/‖v_j‖ fixed}, and at an optimum all of
    these cost the same; Carathéodory leaves a vertex. What is then negligible goes, the rest interpolates again.

    Returns
    -------
    (ndarray, ndarray, ndarray)
        Unit neurons, output weights, offset.
    """
    sizes = np.linalg.norm(weights, axis=1)
    used = sizes > 0
    neurons, weights, sizes = neurons[used], weights[used], sizes[used]
    value, missed = problem.network_value(neurons, weights, offset)
    size = float(np.abs(problem.targets).max()) or 1.0
    best = neurons, weights, offset
    if len(sizes) == 0:
        return best
    for share, angle in ((0.0, 0.0), (1e-10, 1e-6), (1e-8, 1e-4), (1e-6, 1e-3), (1e-4, 1e-2)):
        heavy = sizes >= share * sizes.max()
        units, merged = merge_close(problem, neurons[heavy], weights[heavy], angle)
        candidate = _interpolate_again(problem, units, merged, offset)
        cost, left = problem.network_value(*candidate)
        allowed = np.inf if problem.ridge > 0 else max(missed, FEASIBLE * size)
        if left > allowed:  # weights alone may be too few
            candidate = _meet(problem, *candidate)
            cost, left = problem.network_value(*candidate)
        fits = left <= allowed
        if fits and cost <= value * (1.0 + slack) and len(candidate[0]) <= len(best[0]):
            best = candidate
    return best if problem.ridge > 0 else _meet(problem, *best)


def merge_close(
    problem: ConeProblem, neurons: np.ndarray, weights: np.ndarray, angle: float
) -> tuple[np.ndarray, np.ndarray]:
    """Merge neurons of one cell within an angle, then leave a vertex of the masses; unit neurons and weights."""
    faces, outputs = cluster(problem.rows, neurons, weights, angle)
    lengths = faces.masses
    units, merged = faces.vectors / lengths[:, None], outputs * lengths[:, None]
    sizes = np.linalg.norm(merged, axis=1)
    atoms, directions = problem.atoms(units), merged / sizes[:, None]
    columns = (atoms[:, :, None] * directions[:, None, :]).reshape(len(atoms), -1).T
    masses = caratheodory(columns, sizes)
    kept = masses > 1e-12 * masses.max()
    return units[kept], masses[kept, None] * directions[kept]


def _meet(
    problem: ConeProblem, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Meet the targets to rounding by the least move of neurons within their faces, output weights and offset.

    Few neurons have fewer output weights than there are targets: then the weights alone cannot take back what the
    masses' tolerance left.
    """
    size = float(np.abs(problem.targets).max()) or 1.0
    best, (_, left) = (neurons, weights, offset), problem.network_value(neurons, weights, offset)
    k, rank = problem.targets.shape[1], problem.rows.shape[1]
    if left <= EXACT * size or len(neurons) * (k + rank) > MAX_UNKNOWNS:
        return best
    faces, outputs = cluster(problem.rows, neurons, weights, 0.0)
    vectors = faces.vectors
    for _ in range(3):
        basis, owner = faces.spans(problem.rows)
        atoms = faces.active.T * (problem.rows @ vectors.T)
        scales = np.linalg.norm(outputs, axis=1)
        along = (problem.rows @ basis.T) * faces.active[owner].T
        columns = [
            np.einsum("iq,qo->ioq", along, (outputs * scales[:, None])[owner]).reshape(-1, len(owner)),
            np.einsum("ij,op->iojp", atoms * scales, np.eye(k)).reshape(-1, len(scales) * k),
        ]
        moves = np.tile(np.eye(k), (len(atoms), 1)) if problem.offset > 0 else np.zeros((len(atoms) * k, 0))
        shift = max(float(np.abs(offset).max(initial=0.0)), float(scales.max()) ** 2)
        missed = problem.targets - np.maximum(problem.rows @ vectors.T, 0.0) @ outputs - offset
        step = np.linalg.lstsq(np.column_stack([*columns, shift * moves]), missed.ravel(), rcond=1e-13)[0]
        turn, change, rest = np.split(step, [len(owner), len(owner) + len(scales) * k])
        np.add.at(vectors, owner, (scales[owner] * turn)[:, None] * basis)
        outputs = outputs + scales[:, None] * change.reshape(-1, k)
        offset = offset + shift * rest if len(rest) else offset
        lengths = np.linalg.norm(vectors, axis=1)[:, None]
        found = vectors / lengths, outputs * lengths, offset
        before, left = left, min(left, problem.network_value(*found)[1])
        if left == before:
            break
        best = found
    return best


def _interpolate_again(problem, neurons, weights, offset):
    masses = np.linalg.norm(weights, axis=1)
    kept = masses > 0
    neurons, weights, masses = neurons[kept], weights[kept], masses[kept]
    if problem.ridge > 0 or not len(masses):
        return neurons, weights, offset
    atoms = np.maximum(problem.rows @ neurons.T, 0.0) * masses
    moves = problem.offset > 0
    if moves:
        scale = max(float(np.abs(offset).max(initial=0.0)), float(masses.mean()))
        atoms = np.column_stack([atoms, np.full(len(atoms), scale)])
    for _ in range(3):
        residual = problem.targets - np.maximum(problem.rows @ neurons.T, 0.0) @ weights - offset
        step = np.linalg.lstsq(atoms, residual, rcond=1e-13)[0]
        weights = weights + masses[:, None] * step[: len(masses)]
        if moves:
            offset = offset + scale * step[-1]
    return neurons, weights, offset
