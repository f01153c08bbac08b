"""Weighted Gram matrices of tall arrays, the one costly product of the master problem."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

MOSTLY = 0.7  # share of strong rows above which picking them out costs more than it saves
PARALLEL_WORK = 2e7


def weighted_gram(atoms: np.ndarray, weights: np.ndarray, *, weak: float = 0.0) -> np.ndarray:
    """Return Aᵀ diag(d) A, formed in two threads that each run a single-threaded product.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        A.
    weights : ndarray of shape (M,)
        d ≥ 0.
    weak : float
        Rows with d below this fraction of the largest may be left out.

    Examples
    --------
    >>> weighted_gram(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, 3.0]))
    array([[1., 2.],
           [2., 7.]])
    """
    top = float(weights.max(initial=0.0))
    if top == 0.0:
        return np.zeros((atoms.shape[1], atoms.shape[1]))
    root = np.sqrt(weights / top)
    strong = weights > weak * top
    if strong.mean() < MOSTLY:
        atoms, root = atoms[strong], root[strong]

    def part(rows: slice) -> np.ndarray:
        scaled = atoms[rows] * root[rows, None]
        return scaled.T @ scaled

    n_rows, n = atoms.shape
    if n_rows * n**2 < PARALLEL_WORK:
        return part(slice(None)) * top
    with ThreadPoolExecutor(2) as pool:
        total, second = pool.map(part, (slice(0, n_rows // 2), slice(n_rows // 2, None)))
    total += second
    return total * top
