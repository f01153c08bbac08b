"""Numerical search for z_1 … z_m with given (K, P): Levenberg–Marquardt from many starts."""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import least_squares

EPS = 1e-15
DONE = 1e-13
_FREEZE = (3e-2, 3e-3, 3e-4, 0.0)


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

    with K scaled to a unit diagonal. Starts have ZZᵀ = K exactly. A start that comes close is finished by
    Gauss–Newton steps with the signs and the small entries frozen, where σ is linear. Heuristic: None proves nothing.

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
        Z = _descend(unit, active, factor @ mixing[: len(K), :width], max_iter)
        for size in _FREEZE:
            polished = _finish(unit, active, Z, size)
            if pair_residual(polished, unit, active) <= tol:
                return polished * roots[:, None]
    return None


def _residual(
    unit: np.ndarray, active: np.ndarray, Z: np.ndarray, upper: tuple[np.ndarray, ...]
) -> np.ndarray:
    A = np.maximum(Z, 0.0)
    return np.concatenate([(Z @ Z.T - unit)[upper], (A @ A.T - active)[upper]])


def _jacobian(Z: np.ndarray, mask: np.ndarray, upper: tuple[np.ndarray, ...]) -> np.ndarray:
    """Rows: upper entries of both matrices; columns: the entries of Z."""
    n, m = Z.shape
    i, j = upper
    rows = np.arange(len(i))
    J = np.zeros((2, len(i), n, m))
    for block, V in ((0, Z), (1, np.maximum(Z, 0.0))):
        np.add.at(J[block], (rows, i), V[j])
        np.add.at(J[block], (rows, j), V[i])
    J[1] *= Z > 0
    return (J * mask).reshape(2 * len(i), n * m)


def _descend(unit: np.ndarray, active: np.ndarray, Z: np.ndarray, max_iter: int) -> np.ndarray:
    upper, everything = np.triu_indices(len(Z)), np.ones_like(Z, dtype=bool)
    missing = max(0, Z.size - 2 * len(upper[0]))  # method "lm" wants as many errors as unknowns
    return least_squares(
        lambda z: np.pad(_residual(unit, active, z.reshape(Z.shape), upper), (0, missing)), Z.ravel(),
        lambda z: np.pad(_jacobian(z.reshape(Z.shape), everything, upper), ((0, missing), (0, 0))),
        method="lm", xtol=EPS, ftol=EPS, gtol=EPS, max_nfev=max_iter,
    ).x.reshape(Z.shape)  # fmt: skip


def _finish(unit: np.ndarray, active: np.ndarray, Z: np.ndarray, size: float) -> np.ndarray:
    """Gauss–Newton steps of least length on the entries above ``size``, the others zero."""
    upper = np.triu_indices(len(Z))
    mask = np.abs(Z) > size
    sign = np.sign(Z)
    best = Z = np.where(mask, Z, 0.0)
    error = np.inf
    for _ in range(12):
        r = _residual(unit, active, Z, upper)
        found = float(np.abs(r).max())
        if found >= error or found > 0.5:
            break
        best, error = Z, found
        if error < DONE / 100:
            break
        step = np.linalg.lstsq(_jacobian(Z, mask, upper), r, rcond=1e-10)[0].reshape(Z.shape)
        Z = Z - step
        Z = np.where(Z * sign < 0, 0.0, Z)
    return best
