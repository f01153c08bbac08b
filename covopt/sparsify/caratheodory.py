"""Carathéodory: from any optimal network to one with at most N neurons, at no larger cost."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

from covopt.exact.rank import ATOMS, numerical_rank

NEUTRAL = 1e-13  # a direction along which the cost changes by less, relatively, costs nothing


def caratheodory(atoms: np.ndarray, weights: np.ndarray, *, rank_tol: float = ATOMS) -> np.ndarray:
    """Reduce the support of signed weights without changing the output or raising the cost.

    Moves along null vectors of the atoms, each in the direction in which Σ|c_j| does not grow, until an entry
    vanishes; at most rank(atoms) ≤ N neurons remain (Fisher–Jerome; SP20 after eq. 21). Many columns are taken in
    batches of at most N/2 more than remain, so that each null space stays small.

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
    kept, step = order[:n], max(32, n // 2)
    for start in range(n, len(order), step):
        batch = np.concatenate([kept, order[start : start + step]])
        masses[batch] = _spend(atoms[:, batch] * sign[batch], masses[batch], rank_tol)
        kept = batch[masses[batch] > 0]
    masses[kept] = _spend(atoms[:, kept] * sign[kept], masses[kept], rank_tol)
    return sign * masses


def _spend(signed: np.ndarray, masses: np.ndarray, rank_tol: float) -> np.ndarray:
    """Spend the null vectors of some columns."""
    scale = np.linalg.norm(signed, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    null = _null_rows(signed / scale, rank_tol) if signed.size else np.zeros((0, 0))
    return _eliminate(null, masses * scale, 1.0 / scale) / scale if len(null) else masses


def _null_rows(unit: np.ndarray, rank_tol: float) -> np.ndarray:
    """Null vectors of unit columns as rows, one for each column that depends on the pivots.

    An orthonormal basis of the null space is any rotation of any other, and which one an SVD returns depends on its
    rounding errors, hence on the processor. This one depends on the order of the columns alone: tilted lengths leave
    no tie between the pivots.
    """
    m = unit.shape[1]
    tilt = 1.0 + np.arange(m, 0, -1) / m
    upper, pivots = qr(unit * tilt, mode="r", pivoting=True, check_finite=False)
    rank = numerical_rank(np.abs(np.diag(upper)), rank_tol)
    null = np.zeros((m - rank, m))
    null[:, pivots[rank:]] = np.eye(m - rank)
    null[:, pivots[:rank]] = -solve_triangular(upper[:rank, :rank], upper[:rank, rank:], check_finite=False).T
    null = null[np.argsort(pivots[rank:])] * tilt  # beyond the rank the pivots' order is rounding
    return null / np.linalg.norm(null, axis=1, keepdims=True)


def _eliminate(null, masses, costs):
    """Spend one null vector (row) after the other; each sets one mass to zero and leaves the others' rows.

    Masses belong to columns of unit length, so that no threshold depends on the units of a column.
    """
    masses, alive = masses.copy(), masses > 0
    for pick in range(len(null)):
        row = np.where(alive, null[pick], 0.0)
        longest = int(np.abs(row).argmax())
        size = abs(row[longest])
        if size < 1e-12:
            continue
        row /= size
        terms = costs * row
        total = terms.sum()
        if abs(total) <= NEUTRAL * np.abs(terms).sum():  # the sign of a rounding error decides nothing
            total = row[longest]
        if total < 0.0:  # masses − t·direction with t ≥ 0 must not grow in cost
            row = -row
        if row.max() <= 1e-9:
            continue
        steps = np.divide(masses, row, out=np.full(len(row), np.inf), where=row > 1e-9)
        leaving = int(steps.argmin())
        masses = np.maximum(masses - steps[leaving] * row, 0.0)
        masses[leaving], alive[leaving] = 0.0, False
        left = pick + 1 + np.flatnonzero(null[pick + 1 :, leaving])
        null[left] -= null[left, leaving, None] / row[leaving] * row
    return masses
