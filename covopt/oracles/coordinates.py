"""Coordinates with few rows, few columns and rows of size one; callers add the error that the change causes.

:func:`covopt.exact.rounding.transfer_up` bounds that error, for boxes :mod:`covopt.oracles.boxes.scalar`.
"""

from __future__ import annotations

import numpy as np

from covopt.exact.rank import numerical_rank, of_given, row_span
from covopt.exact.rounding import EPS, exponents

NOISE = 8 * EPS  # rows and directions that contribute less than this share of Σ|λ_i|‖x_i‖ are dropped


def to_size_one(rows: np.ndarray, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, np.ndarray] | None:
    """Bring every row to size one and the products of rows and duals to at most one, by powers of two.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)

    Returns
    -------
    (units, weights, power, kept) or None
        Rows of shape (n, r), duals of shape (n, k), the p for which h of the given ones is 2ᵖ times theirs, and the
        indices of the rows kept; None when no row is left.

    Examples
    --------
    >>> rows, dual = np.array([[1e300], [0.0], [1e-300]]), np.array([1e-300, 1.0, 1e300])
    >>> units, weights, power, kept = to_size_one(rows, dual)
    >>> bool(np.all(units > 0.5)), len(weights), kept
    (True, 2, array([0, 2]))
    """
    outputs = dual.reshape(len(dual), -1)
    kept = np.flatnonzero(rows.any(axis=1) & outputs.any(axis=1))
    if len(kept) == 0:
        return None
    power = exponents(rows[kept])
    units = np.ldexp(rows[kept], -power[:, None])
    top = int((power + exponents(outputs[kept])).max())
    weights = np.ldexp(outputs[kept], (power - top)[:, None])
    heard = weights.any(axis=1)
    return units[heard], weights[heard], top, kept[heard]


def restrict(rows: np.ndarray, subset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce the rows of a subset to their rank.

    F of a dual supported on S depends on w only through its projection on the span V of the rows in S,
    and shortening w lowers |F|. So its dual norm is that of the reduced rows Z_S V, in dimension rank Z_S,
    and a neuron u of the reduced problem is V u in the full one. The rank is the numerical one: this
    changes F by at most Σ |λ_i| ‖z_i − V Vᵀ z_i‖.

    Returns
    -------
    reduced : ndarray of shape (len(subset), k)
        Z_S V, of full column rank.
    basis : ndarray of shape (r, k)
        V, with orthonormal columns.

    Examples
    --------
    >>> import numpy as np
    >>> restrict(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]), np.array([0]))[0].shape
    (1, 1)
    """
    chosen = rows[subset]
    # with rows of length one, a short row with a large dual counts like any other
    units = chosen / np.linalg.norm(chosen, axis=1, keepdims=True)
    basis = row_span(units).T
    if basis.shape[1] == chosen.shape[1]:
        return chosen, np.eye(chosen.shape[1])
    return chosen @ basis, basis


def narrow(vectors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write vectors in as few orthonormal coordinates as they need, up to rounding.

    Any choice is valid: it changes a dual norm by at most Σ w_i ‖x_i − V y_i‖, which the caller adds
    (:func:`covopt.exact.rounding.transfer_up`).

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
        x_i.
    weights : ndarray of shape (n,)
        w_i ≥ 0, the weight of each vector.

    Returns
    -------
    basis : ndarray of shape (d, r)
        V; the identity where r = d.
    coordinates : ndarray of shape (n, r)
        y_i, the vectors themselves where r = d.

    Examples
    --------
    >>> basis, coordinates = narrow(np.array([[3.0, 4.0], [6.0, 8.0]]), np.ones(2))
    >>> basis.shape, coordinates.round(9).ravel().tolist() in ([5.0, 10.0], [-5.0, -10.0])
    ((2, 1), True)
    """
    n, d = vectors.shape
    if d == 1:
        return np.eye(1), vectors
    scaled = vectors * weights[:, None]
    _, singular, right = np.linalg.svd(scaled, full_matrices=False)
    rank = max(1, numerical_rank(singular, of_given((n, d))))
    if rank == d:
        return np.eye(d), vectors
    # orthonormal to double precision, so that projecting the vectors loses only rounding error
    basis = np.linalg.qr(right[:rank].T)[0]
    # aligned with the first axes, as classification needs: relaxations with several outputs depend on the basis
    first = np.linalg.qr(basis @ basis[:rank].T)[0]
    if np.abs(first - basis @ (basis.T @ first)).max() <= NOISE:
        basis = first
    return basis, vectors @ basis
