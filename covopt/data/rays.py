"""Which rows are the same point, which lie on one ray through the origin: vectorised, safe from overflow."""

from __future__ import annotations

import numpy as np

# c·x rounds every entry by half an ulp; normalising adds a few more.
_RAY_RTOL = 64 * np.finfo(np.float64).eps


def group_equal_rows(rows: np.ndarray) -> np.ndarray:
    """Return for each row the index of the first row that is exactly equal to it.

    Examples
    --------
    >>> group_equal_rows(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]]))
    array([0, 1, 0])
    """
    n, d = rows.shape
    if n == 0 or d == 0:
        return np.zeros(n, dtype=np.intp)
    order = np.lexsort(rows.T[::-1])  # stable: the first of equal rows comes first
    ordered = rows[order]
    starts = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    return _label(order, starts)


def _label(order: np.ndarray, starts: np.ndarray) -> np.ndarray:
    first = order[np.flatnonzero(starts)]
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = first[np.cumsum(starts) - 1]
    return labels


def scaled_norms(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return unit directions, and norms as mantissa and exponent: ‖row‖ = mantissa · 2^exponent.

    Splitting off a power of two is exact and keeps rows of size 1e300 from overflowing when squared.
    """
    peak = np.abs(rows).max(axis=1, initial=0.0)
    exponent = np.frexp(peak)[1]
    scaled = np.ldexp(rows, -exponent[:, None])
    mantissa = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    return scaled / np.where(mantissa > 0, mantissa, 1.0)[:, None], mantissa, exponent


def group_rays(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group the rows by their ray through the origin.

    Returns
    -------
    longest : (N,) int array
        For each row the index of the longest row on its ray (the first of them in a tie), -1 for zero rows.
        Longest, because a network that passes through it passes through the others at least as accurately.
    factor : (N,) float array
        ``rows[i] ≈ factor[i] * rows[longest[i]]``, in (0, 1]; 0 for zero rows.

    Examples
    --------
    >>> group_rays(np.array([[1.0, 2.0], [0.0, 0.0], [2.0, 4.0], [-1.0, -2.0]]))
    (array([ 2, -1,  2,  3]), array([0.5, 0. , 1. , 1. ]))
    """
    n = len(rows)
    longest = np.full(n, -1, dtype=np.intp)
    factor = np.zeros(n)
    alive = np.flatnonzero(np.abs(rows).max(axis=1, initial=0.0) > 0)
    if len(alive) == 0:
        return longest, factor
    unit, mantissa, exponent = scaled_norms(rows[alive])
    leader = _group_directions(unit)
    # Longest first within each ray, then the earliest row.
    order = np.lexsort((np.arange(len(alive)), -mantissa, -exponent, leader))
    starts = np.concatenate([[True], leader[order][1:] != leader[order][:-1]])
    best = _label(order, starts)
    longest[alive] = alive[best]
    with np.errstate(under="ignore"):
        factor[alive] = np.ldexp(mantissa / mantissa[best], exponent - exponent[best])
    return longest, factor


def _group_directions(unit: np.ndarray) -> np.ndarray:
    """Label unit vectors that agree entry by entry up to rounding."""
    n, d = unit.shape
    probe = np.random.default_rng(0).standard_normal((d,))
    probe = probe / np.linalg.norm(probe)
    # Equal directions have nearly equal keys; the converse is checked entry by entry below.
    key = np.einsum("ij,j->i", unit, probe)
    order = np.argsort(key, kind="stable")
    starts = np.concatenate([[True], np.diff(key[order]) > 4 * _RAY_RTOL])
    labels = np.empty(n, dtype=np.intp)
    pending, cluster = order, np.cumsum(starts) - 1
    while len(pending):
        starts = np.concatenate([[True], cluster[1:] != cluster[:-1]])
        leaders = pending[np.flatnonzero(starts)][np.cumsum(starts) - 1]
        same = (np.abs(unit[pending] - unit[leaders]) <= _RAY_RTOL * np.abs(unit[leaders])).all(axis=1)
        labels[pending[same]] = leaders[same]
        pending, cluster = pending[~same], cluster[~same]
    return labels
