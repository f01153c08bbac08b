"""Rows and duals of any size brought to one by powers of two, which is exact."""

from __future__ import annotations

import numpy as np

from covopt.exact.rounding import exponents


def to_size_one(rows: np.ndarray, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, np.ndarray] | None:
    """Bring every row to size one and the products of rows and duals to at most one, by powers of two.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)

    Returns
    -------
    (units, weights, power, kept) or None
        Rows of shape (n, r), duals of shape (n, k), p such that h of the given ones is 2ᵖ times theirs, and which
        rows they are; None when nothing is left.

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
