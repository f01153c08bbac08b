"""Rows that span the same line share a hyperplane: the kernels want one row per line."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

PARALLEL = 4 * np.finfo(float).eps


def merge_lines(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group rows that span the same line, to rounding.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.

    Returns
    -------
    lines : ndarray of shape (n, r)
        The first row of each group.
    line_of : ndarray of shape (N,)
        Group of each row.
    ratio : ndarray of shape (N,)
        Row = ratio · line; negative on the opposite ray.

    Examples
    --------
    >>> lines, line_of, ratio = merge_lines(np.array([[1.0, 0.0], [0.0, 1.0], [-2.0, 0.0]]))
    >>> line_of, ratio
    (array([0, 1, 0]), array([ 1.,  1., -2.]))
    """
    n = len(rows)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = cKDTree(np.concatenate([units, -units])).query_pairs(PARALLEL, output_type="ndarray") % n
    leader = np.arange(n)
    if len(pairs):
        pairs = np.sort(pairs, axis=1)
        for i, j in pairs[np.argsort(pairs[:, 0], kind="stable")]:
            leader[j] = min(leader[j], leader[i])
    kept, line_of = np.unique(leader, return_inverse=True)
    lines = rows[kept]
    matched = lines[line_of]
    ratio = np.einsum("ij,ij->i", rows, matched) / np.einsum("ij,ij->i", matched, matched)
    return lines, line_of, ratio
