"""Carathéodory: from any optimal network to one with at most N neurons, at no larger cost."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.linalg import qr, svd


def caratheodory(atoms: np.ndarray, weights: np.ndarray, *, rank_tol: float = 1e-11) -> np.ndarray:
    """Reduce the support of signed weights without changing the output or raising the cost.

    Moves along null vectors of the atoms, each in the direction in which Σ|c_j| does not grow, until an entry
    vanishes; at most rank(atoms) ≤ N neurons remain (Fisher–Jerome; SP20 after eq. 21). Many columns are taken in
    batches of at most N more than remain, so that each null space stays small.

    Parameters
    ----------
    atoms : ndarray of shape (N, m)
    weights : ndarray of shape (m,)
    rank_tol : float
        Singular value, relative to the largest, that counts as zero.

    Returns
    -------
    ndarray of shape (m,)
        Weights of the same signs, with zeros.

    Examples
    --------
    >>> caratheodory(np.array([[1.0, 1.0, 2.0]]), np.array([1.0, 1.0, 1.0]))
    array([0., 0., 2.])
    """
    n = len(atoms)
    sign = np.where(weights < 0, -1.0, 1.0)
    masses = np.abs(weights).astype(float)
    order = np.argsort(-masses, kind="stable")[: np.count_nonzero(masses)]
    kept = order[:n]
    extra = max(32, n // 8)  # few at a time: rounding errors grow along an elimination
    for start in range(n, len(order), extra):
        batch = np.concatenate([kept, order[start : start + extra]])
        masses[batch] = _spend_surplus(atoms[:, batch] * sign[batch], masses[batch])
        kept = batch[masses[batch] > 0]
    masses[kept] = _spend_dependent(atoms[:, kept] * sign[kept], masses[kept], rank_tol)
    return sign * masses


def _normalise(signed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = np.linalg.norm(signed, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return signed / scale, scale


def _spend_surplus(signed: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """More columns than rows: the last columns of Q are null vectors whatever the rank, cheaper than an SVD's."""
    unit, scale = _normalise(signed)
    n, m = unit.shape
    if m <= n:
        return masses
    orthogonal, _ = qr(unit.T, check_finite=False)
    return _eliminate(np.ascontiguousarray(orthogonal[:, n:].T), masses * scale, 1.0 / scale) / scale


def _spend_dependent(signed: np.ndarray, masses: np.ndarray, rank_tol: float) -> np.ndarray:
    """Reduce what is still dependent among at most as many columns as rows."""
    if not signed.size:
        return masses
    unit, scale = _normalise(signed)
    diagonal = np.abs(np.diag(qr(unit, mode="r", pivoting=True, check_finite=False)[0]))
    if diagonal[-1] > rank_tol * diagonal[0] and unit.shape[1] <= unit.shape[0]:
        return masses
    _, values, right = svd(unit, full_matrices=True, check_finite=False)
    rank = int((values > rank_tol * values[0]).sum())
    return _eliminate(np.ascontiguousarray(right[rank:]), masses * scale, 1.0 / scale) / scale


@njit(cache=True)
def _eliminate(null, masses, costs):
    """Spend one null vector (row) after the other; each sets one mass to zero and leaves the others' rows.

    Masses belong to columns of unit length, so that no threshold depends on the units of a column.
    """
    count, m = null.shape
    alive = masses > 0
    for pick in range(count):
        size = 0.0
        for j in range(m):
            if alive[j]:
                size = max(size, abs(null[pick, j]))
        if size < 1e-12:
            continue
        total = 0.0
        for j in range(m):
            if alive[j]:
                null[pick, j] /= size
                total += costs[j] * null[pick, j]
        if total < 0.0:  # masses − t·direction with t ≥ 0 must not grow in cost
            for j in range(m):
                null[pick, j] = -null[pick, j]
        leaving, step = -1, np.inf
        for j in range(m):
            if alive[j] and null[pick, j] > 1e-9 and masses[j] / null[pick, j] < step:
                leaving, step = j, masses[j] / null[pick, j]
        if leaving < 0:
            continue
        for j in range(m):
            if alive[j]:
                masses[j] = max(masses[j] - step * null[pick, j], 0.0)
        masses[leaving] = 0.0
        alive[leaving] = False
        pivot = null[pick, leaving]
        for k in range(pick + 1, count):
            if null[k, leaving] != 0.0:
                factor = null[k, leaving] / pivot
                for j in range(m):
                    if alive[j]:
                        null[k, j] -= factor * null[pick, j]
    return masses
