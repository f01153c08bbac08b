"""Carathéodory: from any optimal network to one with at most N neurons, at no larger cost."""

from __future__ import annotations

import numpy as np
from scipy.linalg import svd


def caratheodory(atoms: np.ndarray, weights: np.ndarray, *, rank_tol: float = 1e-11) -> np.ndarray:
    """Reduce the support of signed weights without changing the output or raising the cost.

    Moves along null vectors of the atoms, each in the direction in which Σ|c_j| does not grow, until an entry
    vanishes; at most rank(atoms) ≤ N neurons remain (Fisher–Jerome; SP20 after eq. 21).

    Parameters
    ----------
    atoms : ndarray of shape (N, m)
    weights : ndarray of shape (m,)

    Returns
    -------
    ndarray of shape (m,)
        Weights of the same signs, with zeros.

    Examples
    --------
    >>> caratheodory(np.array([[1.0, 1.0, 2.0]]), np.array([1.0, 1.0, 1.0]))
    array([0., 0., 2.])
    """
    sign = np.where(weights < 0, -1.0, 1.0)
    masses = np.abs(weights).astype(float)
    signed = atoms * sign
    scale = np.linalg.norm(signed, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    _, values, right = svd(signed / scale, full_matrices=True, check_finite=False)
    rank = int((values > rank_tol * values[0]).sum()) if len(values) else 0
    null = (right[rank:] / scale).T  # (m, m − rank)
    alive = np.ones(len(masses), dtype=bool)
    for _ in range(null.shape[1]):
        sizes = np.abs(null[alive]).max(axis=0)
        pick = int(sizes.argmax())
        direction = null[:, pick] / sizes[pick]
        null = np.delete(null, pick, axis=1)
        if direction[alive].sum() < 0 or not (direction[alive] > 1e-12).any():
            direction = -direction  # masses − t·direction, t ≥ 0, must not grow in sum
        falling = alive & (direction > 1e-9)
        if not falling.any():
            continue
        ratios = np.full(len(masses), np.inf)
        ratios[falling] = masses[falling] / direction[falling]
        leaving = int(ratios.argmin())
        masses = np.maximum(masses - ratios[leaving] * direction, 0.0)
        masses[leaving] = 0.0
        alive[leaving] = False
        if null.shape[1]:
            null -= np.outer(direction, null[leaving] / direction[leaving])
            null[leaving] = 0.0
    masses[~alive] = 0.0
    return sign * masses
