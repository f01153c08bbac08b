"""Which rows are one point, lie on one ray, or span one line: the one rule, vectorised and safe from overflow.

Rows are compared as unit vectors, and two answer as one where they differ by rounding:

- the same point: every entry equal (:func:`group_equal_rows`);
- the same ray: every entry of the unit vectors within :data:`RAY` of its own size, so that units of columns do not
  matter. A multiple c·x of a row rounds every entry by half a unit in the last place, and normalising both adds a
  few. Rows on one ray are constraints that say the same: all but the longest may go (:func:`group_rays`);
- the same line: unit vectors, or one and the negative of the other, within :data:`LINE` of each other
  (:func:`merge_lines`). These rows are replaced by multiples of one and stay in the sums, so this is as narrow as
  rounding allows: every oracle's allowance for rounding is wider.

The arrangement's own
merging (:mod:`covopt.arrangement.reduction`) is exact for integers, and reports how clear each decision was.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from covopt.exact.rounding import EPS

RAY = 64 * EPS
LINE = 4 * EPS
SAME_DIGITS = 10  # of unit vectors that were computed: further digits are rounding
ASCENT_DIGITS = 8  # of ends of ascents: they stop a little before the maximum


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


def first_of_each(vectors: np.ndarray, digits: int = SAME_DIGITS) -> np.ndarray:
    """Return the indices, ascending, of the vectors that equal none before them to so many digits.

    Parameters
    ----------
    vectors : ndarray of shape (m, r)
        Of size one.
    digits : int

    Examples
    --------
    >>> first_of_each(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1e-16]]))
    array([0, 1])
    """
    return np.flatnonzero(group_equal_rows(np.round(vectors, digits)) == np.arange(len(vectors)))


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

    def same(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return (np.abs(unit[i] - unit[j]) <= RAY * np.abs(unit[j])).all(axis=1)

    leader = group_by(_project(unit), same, 4 * RAY)
    # Longest first within each ray, then the earliest row.
    order = np.lexsort((np.arange(len(alive)), -mantissa, -exponent, leader))
    starts = np.concatenate([[True], leader[order][1:] != leader[order][:-1]])
    best = _label(order, starts)
    longest[alive] = alive[best]
    with np.errstate(under="ignore"):
        factor[alive] = np.ldexp(mantissa / mantissa[best], exponent - exponent[best])
    return longest, factor


def merge_lines(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group rows that span the same line, to rounding: the kernels want one row for each hyperplane.

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
    # powers of two change no digit, and squares of rows of 1e-200 do not vanish
    power = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    scaled = np.ldexp(rows, -power[:, None])
    units = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)

    def same(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        apart = [np.linalg.norm(units[i] - side * units[j], axis=1) for side in (1.0, -1.0)]
        return np.minimum(*apart) <= LINE

    leader = group_by(np.abs(_project(units)), same, 4 * LINE + 2 * units.shape[1] * EPS)
    kept, line_of = np.unique(leader, return_inverse=True)
    first = kept[line_of]
    matched = scaled[first]
    ratio = np.einsum("ij,ij->i", scaled, matched) / np.einsum("ij,ij->i", matched, matched)
    with np.errstate(under="ignore"):
        return rows[kept], line_of, np.ldexp(ratio, power - power[first])


def group_by(
    key: np.ndarray, same: Callable[[np.ndarray, np.ndarray], np.ndarray], apart: float
) -> np.ndarray:
    """Return for each item the first item that it is the same as.

    Parameters
    ----------
    key : ndarray of shape (n,)
        Nearly equal for items that are the same.
    same : callable
        Takes two arrays of indices and says for which pairs the items are the same.
    apart : float
        Items whose keys, sorted, have a wider step between them are not compared.

    Examples
    --------
    >>> values = np.array([1.0, 5.0, 1.001, 5.0])
    >>> group_by(values, lambda i, j: np.abs(values[i] - values[j]) < 0.01, 0.1)
    array([0, 1, 0, 1])
    """
    order = np.argsort(key, kind="stable")
    chain = np.empty(len(key), dtype=np.intp)
    chain[order] = np.cumsum(np.concatenate([[True], np.diff(key[order]) > apart]))
    pending = np.lexsort((np.arange(len(key)), chain))  # the first of a chain leads it
    chain = chain[pending]
    leader = np.arange(len(key))
    while len(pending):
        starts = np.concatenate([[True], chain[1:] != chain[:-1]])
        heads = pending[np.flatnonzero(starts)][np.cumsum(starts) - 1]
        alike = (pending == heads) | same(pending, heads)
        leader[pending[alike]] = heads[alike]
        pending, chain = pending[~alike], chain[~alike]
    return leader


def _project(units: np.ndarray) -> np.ndarray:
    """Return products with a direction of no meaning: those of rows that are not parallel hardly agree."""
    probe = np.random.default_rng(0).standard_normal(units.shape[1])
    return np.einsum("ij,j->i", units, probe / np.linalg.norm(probe))


def _label(order: np.ndarray, starts: np.ndarray) -> np.ndarray:
    first = order[np.flatnonzero(starts)]
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = first[np.cumsum(starts) - 1]
    return labels
