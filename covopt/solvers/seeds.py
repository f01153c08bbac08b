"""Neurons to start from: vertices of the arrangement, where most optimal neurons of noisy targets lie."""

from __future__ import annotations

import numpy as np

PIECE = 1 << 19  # random numbers at a time


def random_vertices(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return unit neurons ±w, each orthogonal to r − 1 random rows.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    count : int
        Number of subsets; twice as many neurons come back.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (2 * count, r)
    """
    n, rank = rows.shape
    if rank == 1:
        return np.array([[1.0], [-1.0]])
    chosen = np.tile(np.arange(rank - 1), (1, 1))
    if n > rank - 1:  # in pieces: a number for each subset and row is much
        sizes = [len(part) for part in np.array_split(np.arange(count), -(-count * n // PIECE) or 1)]
        parts = [rng.random((m, n)).argpartition(rank - 2, axis=1)[:, : rank - 1].copy() for m in sizes]
        chosen = np.concatenate(parts)
    subsets = rows[chosen] / np.linalg.norm(rows[chosen], axis=2, keepdims=True)
    null = np.linalg.svd(subsets, full_matrices=True)[2][:, -1, :]
    return np.concatenate([null, -null])


def spanning_directions(rows: np.ndarray) -> np.ndarray:
    """Return neurons whose atoms span all of ℝᴺ for rows on distinct rays without antipodal dependence.

    For every row a neuron orthogonal to it, tilted a little either way, so that the pair tells this row
    from all others.
    """
    n, rank = rows.shape
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    tangent = rng.standard_normal((n, rank))
    tangent -= np.einsum("ij,ij->i", tangent, units)[:, None] * units
    norms = np.linalg.norm(tangent, axis=1, keepdims=True)
    tangent = tangent / np.where(norms > 0, norms, 1.0)
    return np.concatenate([units, -units, tangent, -tangent])
