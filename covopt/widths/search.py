"""Numerical search for z_1 … z_m with given (K, P): least squares from many starts."""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import least_squares

EPS = 1e-15
FREEZE = (-1.0, 3e-4, 3e-3, 3e-2)  # entries up to these stay zero from then on: minima lie on kinks


def pair_residual(Z: np.ndarray, K: np.ndarray, P: np.ndarray) -> float:
    """Return the largest error of (ZZᵀ, σ(Z)σ(Z)ᵀ), entries against √(K_ii K_jj)."""
    roots = np.sqrt(np.maximum(np.diag(K), 0.0))
    roots = np.where(roots > 0, roots, roots.max(initial=0.0) or 1.0)
    active = np.maximum(Z, 0.0)
    errors = (np.abs(Z @ Z.T - K), np.abs(active @ active.T - P))
    return float(max((e / np.outer(roots, roots)).max() for e in errors))


def decompose(
    K: np.ndarray,
    P: np.ndarray,
    width: int,
    *,
    n_starts: int,
    tol: float,
    rng: np.random.Generator,
    end: float,
    max_iter: int = 300,
) -> np.ndarray | None:
    r"""Look for Z of a given width with :math:`ZZ^T = K`, :math:`\sigma(Z)\sigma(Z)^T = P`.

    .. math:: \min_Z \|ZZ^T - K\|_F^2 + \|\sigma(Z)\sigma(Z)^T - P\|_F^2

    with K scaled to a unit diagonal. Starts have ZZᵀ = K exactly. Then again with more
    and more of the small entries at zero, where the minima have their kinks. Heuristic: None proves nothing.

    Parameters
    ----------
    K, P : ndarray of shape (N, N)
        With a positive diagonal of K.
    width : int
    n_starts : int
    tol : float
    rng : numpy.random.Generator
    end : float
        ``time.perf_counter()`` at which to stop.
    max_iter : int

    Returns
    -------
    ndarray of shape (N, width) or None

    Examples
    --------
    >>> Z = np.array([[1.0, -1.0], [0.5, 2.0]])
    >>> K, P = Z @ Z.T, np.maximum(Z, 0) @ np.maximum(Z, 0).T
    >>> found = decompose(
    ...     K, P, 2, n_starts=10, tol=1e-9, rng=np.random.default_rng(0), end=time.perf_counter() + 60
    ... )
    >>> pair_residual(found, K, P) < 1e-9
    True
    """
    roots = np.sqrt(np.diag(K))
    unit, active = K / np.outer(roots, roots), P / np.outer(roots, roots)
    values, vectors = np.linalg.eigh(unit)
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    for _ in range(n_starts):
        if time.perf_counter() >= end:
            return None
        mixing = np.linalg.qr(rng.standard_normal((max(width, len(K)), max(width, len(K)))))[0]
        Z = factor @ mixing[: len(K), :width]
        for size in FREEZE:
            Z = _descend(unit, active, Z, np.abs(Z) > size, max_iter)
            if pair_residual(Z, unit, active) <= tol:
                return Z * roots[:, None]
    return None


def _descend(
    unit: np.ndarray, active: np.ndarray, Z: np.ndarray, mask: np.ndarray, max_iter: int
) -> np.ndarray:
    """Least squares on the entries in the mask; the others are zero."""
    i, j = np.triu_indices(len(Z))
    rows = np.arange(len(i))
    missing = max(0, int(mask.sum()) - 2 * len(i))  # method "lm" wants as many errors as unknowns

    def full(z: np.ndarray) -> np.ndarray:
        found = np.zeros_like(Z)
        found[mask] = z
        return found

    def errors(z: np.ndarray) -> np.ndarray:
        A = np.maximum(V := full(z), 0.0)
        return np.pad(np.concatenate([(V @ V.T - unit)[i, j], (A @ A.T - active)[i, j]]), (0, missing))

    def jacobian(z: np.ndarray) -> np.ndarray:
        V = full(z)
        J = np.zeros((2, len(i), *V.shape))
        for block, W in enumerate((V, np.maximum(V, 0.0))):
            np.add.at(J[block], (rows, i), W[j])
            np.add.at(J[block], (rows, j), W[i])
        J[1] *= V > 0
        return np.pad(J.reshape(2 * len(i), *V.shape)[:, mask], ((0, missing), (0, 0)))

    if not mask.any():
        return np.zeros_like(Z)
    return full(least_squares(
        errors, Z[mask], jacobian, method="lm", xtol=EPS, ftol=EPS, gtol=EPS, max_nfev=max_iter
    ).x)  # fmt: skip
