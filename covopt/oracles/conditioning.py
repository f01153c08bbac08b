r"""When faces may be believed: rows whose arrangement double precision decides safely.

The faces of the arrangement {w : z_i·w = 0} are determined by the signs of the determinants det(z_i₁, …, z_i_r)
of all sets of r rows (its oriented matroid). The oracles by faces decide these signs in floating point, by
sorting angles or by reflections one row after the other, with errors of a few u/σ for unit rows, σ the volume of
r − 1 of them. A determinant δ is σ times the height of the last row over the flat of the others, so a height is
decided rightly where δ > C u; it is asked here that every |δ| exceed 10⁻⁹, a million times more than the rounding
of any of these steps, or that the r rows are dependent EXACTLY, in rational arithmetic: then their common flat is
found as one flat, rows that vanish on it move by rounding only, and the oracles' allowances pay for that. What
lies between (rows that nearly depend on each other: clusters, points far from the origin, units that differ by
many orders) is refused.

The determinants themselves are formed as heights over generalised cross products, which are sums of products of unit
rows: their error is below 10⁻¹³ for r ≤ 8 or so, and thus far below the margin.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numba import njit

from covopt.exact.rank import exact_rank

CLEAR = 1e-9
MOST_MINORS = 2e7
MOST_TRIPLES = 1000  # rows: a fifth of a second
MOST_EXACT = 3000
CHUNK = 20_000


def in_clear_position(rows: np.ndarray, given: np.ndarray | None = None) -> bool:
    """Whether every r rows are independent by a wide margin, or dependent exactly.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.
    given : ndarray of shape (N, D), optional
        What the rows were computed from by a linear map that is one to one: dependence is decided by them.

    Returns
    -------
    bool
        False also where deciding it would take too long.

    Examples
    --------
    >>> square = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    >>> in_clear_position(square), in_clear_position(square + np.array([[0.0], [0.0], [0.0], [1e-12]]) * [0.0, 1.0])
    (True, False)
    """
    n, r = rows.shape
    if r == 1:
        return True
    if n < r or comb(n, r - 1) * n > MOST_MINORS:
        return False
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    unclear: set[tuple[int, ...]] = set()
    for chosen in _subsets(n, r - 1):
        heights = np.abs(_cross(units[chosen]) @ units.T)
        np.put_along_axis(heights, chosen, 1.0, axis=1)
        sets, row = np.nonzero(heights <= CLEAR)
        unclear.update(tuple(sorted((*chosen[s].tolist(), int(j)))) for s, j in zip(sets, row, strict=True))
        if len(unclear) > MOST_EXACT:
            return False
    source = rows if given is None else given
    return all(exact_rank(source[list(chosen)]) < r for chosen in unclear)


@njit(cache=True, nogil=True)
def _least_volume(units: np.ndarray, enough: float) -> float:
    """Return the least |det| of three rows, or one that is not above ``enough``."""
    n, least = len(units), np.inf
    for i in range(n):
        for j in range(i + 1, n):
            x = units[i, 1] * units[j, 2] - units[i, 2] * units[j, 1]
            y = units[i, 2] * units[j, 0] - units[i, 0] * units[j, 2]
            z = units[i, 0] * units[j, 1] - units[i, 1] * units[j, 0]
            for k in range(j + 1, n):
                least = min(least, abs(x * units[k, 0] + y * units[k, 1] + z * units[k, 2]))
            if least <= enough:
                return least
    return least


def all_clear(rows: np.ndarray, *, margin: float = CLEAR, most: int = MOST_TRIPLES) -> bool:
    """Whether all volumes of three unit rows in three dimensions exceed a margin: no two crossings can be confused.

    Parameters
    ----------
    rows : ndarray of shape (N, 3)
        Without zero rows.
    margin : float
    most : int
        Rows beyond which the answer is no: there are N³/6 volumes.

    Examples
    --------
    >>> all_clear(np.eye(3)), all_clear(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]]))
    (True, False)
    """
    units = np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return len(rows) <= most and bool(_least_volume(units, margin) > margin)


def _subsets(n: int, size: int):
    """All subsets in chunks."""
    chosen = list(combinations(range(n), size))
    for start in range(0, len(chosen), CHUNK):
        yield np.array(chosen[start : start + CHUNK], dtype=np.int64).reshape(-1, size)


def _cross(vectors: np.ndarray) -> np.ndarray:
    """Generalised cross products: det(v₁, …, v_{r−1}, x) = c·x, for stacks of shape (m, r − 1, r)."""
    m, size, r = vectors.shape
    if size == 1:
        return np.stack([-vectors[:, 0, 1], vectors[:, 0, 0]], axis=1)
    if size == 2:
        return np.cross(vectors[:, 0], vectors[:, 1])
    found = np.empty((m, r))
    for column in range(r):
        found[:, column] = (-1.0) ** (r - 1 + column) * np.linalg.det(np.delete(vectors, column, axis=2))
    return found
