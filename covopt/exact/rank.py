r"""Rules for equal points, rays and lines among rows, and for the rank of a matrix.

**Equal rows.** Rows are compared as unit vectors, and are equal if they differ by rounding:

- the same point: every entry equal (:func:`group_equal_rows`);
- the same ray: every entry of the unit vectors within ROUNDING of its own size, so that units of columns do not
  matter. A multiple c·x of a row rounds every entry by half a unit in the last place, and normalising both adds a
  few. Rows on one ray are equivalent constraints: all but the longest may be dropped (:func:`group_rays`). A point
  lies on the hinge of a neuron if x·w is within ROUNDING of ‖x‖‖w‖;
- the same line: unit vectors, or one and the negative of the other, within :data:`LINE` of each other
  (:func:`merge_lines`). These rows are replaced by multiples of one of them and stay in the sums, so the tolerance
  is as small as rounding permits: every oracle's allowance for rounding is larger.

The arrangement's own merging (:mod:`covopt.arrangement.reduction`) is exact for integers.

**Rank.** A matrix of doubles approximates one that differs from it by the rounding of its entries. No singular value
moves further than the norm of that difference (Weyl), so one that is smaller may be zero, and dividing by it would
amplify rounding. A singular value counts as zero below a share of the largest, which depends on how the entries were
computed:

- :func:`of_given`, max(N, D)·ε: given entries, up to powers of two; the error of the factorisation.
- :data:`COMPUTED`, 1e-12: entries that are sums of products, or come from other factorisations.
- :data:`ATOMS`, 1e-11: columns of activations or of squares, computed from computed neurons, whose linear dependence
  Carathéodory's step uses.
- :data:`FOUND`, 1e-9: rows that were chosen because they nearly vanish at a computed neuron.
- :data:`NEAR`, 1e-6: what is only tried, and checked by other means.
- :data:`ROUGH`, 1e-3: what unfinished training leaves, below what a reader would notice.

Comparisons of other numbers use the same relative tolerances.

A rank decided in doubles is no proof. A bound that rests on it adds what was dropped
(:func:`covopt.exact.rounding.transfer_up`), or uses a lower bound on the rank (:func:`rank_at_least`) or the exact
rank (:func:`exact_rank`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from covopt.exact.definite import singular_values_between
from covopt.exact.elimination import integer_row
from covopt.exact.rounding import EPS, ROUNDING, gamma

COMPUTED = 1e-12
ATOMS = 1e-11
FOUND = 1e-9
NEAR = 1e-6
ROUGH = 1e-3
LINE = 4 * EPS


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


def first_of_each(vectors: np.ndarray, step: float = FOUND) -> np.ndarray:
    """Return the indices, ascending, of the vectors that, rounded to multiples of a step, equal none before.

    Parameters
    ----------
    vectors : ndarray of shape (m, r)
        Of size one.
    step : float
        By default larger than the distance to a maximum at which ascents stop.

    Examples
    --------
    >>> first_of_each(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1e-16]]))
    array([0, 1])
    """
    return np.flatnonzero(group_equal_rows(np.round(vectors / step)) == np.arange(len(vectors)))


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
        return (np.abs(unit[i] - unit[j]) <= ROUNDING * np.abs(unit[j])).all(axis=1)

    leader = group_by(_project(unit), same, 4 * ROUNDING)
    # Longest first within each ray, then the earliest row.
    order = np.lexsort((np.arange(len(alive)), -mantissa, -exponent, leader))
    starts = np.concatenate([[True], leader[order][1:] != leader[order][:-1]])
    best = _label(order, starts)
    longest[alive] = alive[best]
    with np.errstate(under="ignore"):
        factor[alive] = np.ldexp(mantissa / mantissa[best], exponent - exponent[best])
    return longest, factor


def merge_lines(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group rows that span the same line up to rounding: the kernels take one row for each hyperplane.

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
    units, length, power = scaled_norms(rows)

    def same(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        apart = [np.linalg.norm(units[i] - side * units[j], axis=1) for side in (1.0, -1.0)]
        return np.minimum(*apart) <= LINE

    leader = group_by(np.abs(_project(units)), same, 4 * LINE + 2 * units.shape[1] * EPS)
    kept, line_of = np.unique(leader, return_inverse=True)
    first = kept[line_of]
    ratio = np.sign(np.einsum("ij,ij->i", units, units[first])) * length / length[first]
    with np.errstate(under="ignore"):
        return rows[kept], line_of, np.ldexp(ratio, power - power[first])


def group_by(
    key: np.ndarray, same: Callable[[np.ndarray, np.ndarray], np.ndarray], apart: float
) -> np.ndarray:
    """Return for each item the first item that equals it.

    Parameters
    ----------
    key : ndarray of shape (n,)
        Nearly equal for equal items.
    same : callable
        Maps two arrays of indices to whether the items of each pair are equal.
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
    """Return the products with a random direction, which differ for rows that are not parallel."""
    probe = np.random.default_rng(0).standard_normal(units.shape[1])
    return np.einsum("ij,j->i", units, probe / np.linalg.norm(probe))


def _label(order: np.ndarray, starts: np.ndarray) -> np.ndarray:
    first = order[np.flatnonzero(starts)]
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = first[np.cumsum(starts) - 1]
    return labels


def of_given(shape: tuple[int, ...]) -> float:
    """Return the share of the largest singular value that counts as zero where the entries are as given.

    Examples
    --------
    >>> of_given((4, 2)) == 4 * 2.0**-52
    True
    """
    return max(shape) * EPS


def numerical_rank(singular: np.ndarray, share: float) -> int:
    """Count the singular values above a share of the largest.

    Parameters
    ----------
    singular : ndarray of shape (r,)
        Or other sizes that tell dependent directions, the diagonal of a pivoted triangle say.
    share : float

    Examples
    --------
    >>> numerical_rank(np.array([3.0, 1.0, 1e-14]), COMPUTED), numerical_rank(np.zeros(2), COMPUTED)
    (2, 0)
    """
    return int((singular > share * singular.max(initial=0.0)).sum())


def row_span(rows: np.ndarray, share: float | None = None) -> np.ndarray:
    """Return orthonormal rows that span the rows of a matrix, shape (r, D); by default entries are as given.

    Examples
    --------
    >>> row_span(np.array([[3.0, 4.0], [6.0, 8.0]])).shape
    (1, 2)
    """
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    return right[: numerical_rank(singular, of_given(rows.shape) if share is None else share)]


def null_space(rows: np.ndarray, share: float) -> np.ndarray:
    """Return orthonormal columns orthogonal to the rows of a matrix, shape (D, D − r).

    Examples
    --------
    >>> np.abs(null_space(np.array([[0.0, 2.0]]), COMPUTED)).ravel().tolist()
    [1.0, 0.0]
    """
    _, singular, right = np.linalg.svd(rows)
    return right[numerical_rank(singular, share) :].T


def rank_at_least(matrix: np.ndarray, *, beside_constants: bool = False) -> int:
    """Return a lower bound on the rank: the number of singular values that are certainly positive.

    Columns are brought to size one by powers of two. Beside the constants it is the rank of PA, P what takes means
    off; the computed means are off by γ(N) and the differences by u, so no singular value of PA differs from that of
    the computed matrix by more than (γ(N) + 2u)·2√(Nk) (Weyl).

    Parameters
    ----------
    matrix : ndarray of shape (N, k)
    beside_constants : bool
        Of the columns modulo the constants: the least rank of Y − 1bᵀ.

    Examples
    --------
    >>> ones = np.array([[1.0], [1.0]])
    >>> rank_at_least(ones), rank_at_least(ones, beside_constants=True)
    (1, 0)
    """
    scale = np.abs(matrix).max(axis=0, initial=0.0)
    units = np.ldexp(matrix[:, scale > 0], -np.frexp(scale[scale > 0])[1])
    off = 0.0
    if beside_constants and units.size:
        units = units - units.mean(axis=0)
        off = 2.0 * gamma(2 * len(units) + 8) * float(np.sqrt(units.size))
    return int((singular_values_between(units)[0] > off).sum())


def exact_rank(matrix: np.ndarray | Sequence[Sequence[Any]]) -> int:
    """Return the rank of a table of doubles or fractions, by elimination in integers.

    Examples
    --------
    >>> from fractions import Fraction
    >>> exact_rank(np.array([[0.1, 0.2], [0.2, 0.4]])), exact_rank([[Fraction(1, 3), 1], [1, Fraction(3)]])
    (1, 1)
    >>> exact_rank(np.array([[0.1, 0.3], [0.3, 0.9]]))
    2
    """
    echelon: list[tuple[int, list[int]]] = []
    for row in matrix.tolist() if isinstance(matrix, np.ndarray) else matrix:
        rest = integer_row(row)[0]
        for column, above in echelon:
            if rest[column]:
                lead, factor = above[column], rest[column]
                rest = [lead * x - factor * y for x, y in zip(rest, above, strict=True)]
                common = math.gcd(*rest) or 1
                rest = [x // common for x in rest]
        first = next((column for column, entry in enumerate(rest) if entry), None)
        if first is not None:
            echelon.append((first, rest))
            if len(echelon) == len(rest):
                break
    return len(echelon)
