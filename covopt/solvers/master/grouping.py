r"""The normal matrix of columns by groups of like directions, at a fraction of the products.

A column is 1[Zw > 0] ∘ Zv: the atom of w with v = w, a tangent of its face with another v. Near a centre c the
pattern of w is that of c but for the rows whose hyperplanes lie between the two, near −c it is the opposite one,

    1[Zw > 0] ∘ Zv = D Zv + s,   D = D_c or I − D_c,   s zero but on those few rows, R,

so that Σ d_j (·)(·)ᵀ over a group is a product of |R| × |R| entries and factors of rank r on all rows. With some
√(M/2) centres the first costs about as much as the second, and in three dimensions both together a third of the
plain product. The atom of −w has the same s and the other D, so a pair is one column here. Terms that cancel are of
the size of rounding in the largest entries: the matrix is regularised by more.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.linalg.blas import dsyr2k, dsyrk

PER_CENTRE = 2.0  # columns for every squared number of centres
CLOSE = 1e-9  # allowance for rounding of angles


def grouped_gram(
    rows: np.ndarray,
    atoms: np.ndarray,
    neurons: np.ndarray,
    owner: np.ndarray,
    vectors: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the lower triangle of Σ_j d_j (1[Zw > 0] ∘ Zv)(·)ᵀ + d'_j (1[Zw < 0] ∘ Zv)(·)ᵀ.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Z.
    atoms : ndarray of shape (M, N)
        Positive where Zw > 0.
    neurons : ndarray of shape (M, r)
        w, not zero.
    owner : ndarray of int, shape (m,)
        Which neuron a column belongs to.
    vectors : ndarray of shape (m, r)
        v.
    weights : ndarray of shape (m, 2)
        d and d', not negative.

    Examples
    --------
    >>> rows, neurons = np.eye(2), np.array([[0.6, 0.8], [-0.6, 0.8]])
    >>> atoms, weights = np.maximum(neurons @ rows.T, 0.0), np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> np.tril(grouped_gram(rows, atoms, neurons, np.arange(2), neurons, weights)).round(12)
    array([[0.72, 0.  ],
           [0.48, 1.28]])
    """
    n, r = rows.shape
    units = neurons[owner]
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    centres = np.empty(max(1, int(np.sqrt(len(units) / PER_CENTRE))), dtype=np.int64)
    cosine, nearest = np.zeros(len(units)), np.zeros(len(units), dtype=np.int64)
    _spread(units, centres, cosine, nearest)
    order = np.argsort(nearest, kind="stable")
    cuts = np.searchsorted(nearest[order], np.arange(len(centres) + 1))
    lengths = np.linalg.norm(rows, axis=1) * (1.0 + CLOSE)
    total, buffer = np.zeros((n, n), order="F"), np.empty(0)
    left, right = np.zeros((len(centres), 2, r, n)), np.zeros((len(centres), 2, r, n))
    for g, centre in enumerate(centres):
        some = order[cuts[g] : cuts[g + 1]]
        heights = rows @ units[centre]
        # rows whose hyperplanes lie between the centre and the farthest member
        least = float(np.abs(cosine[some]).min(initial=1.0))
        near = np.flatnonzero(np.abs(heights) <= lengths * np.sqrt(max(1.0 - least**2, CLOSE)))
        size = len(some) * len(near)
        if buffer.size < size:
            buffer = np.empty(2 * size)
        part = buffer[:size].reshape(len(some), len(near))
        _fill(rows, heights, atoms, owner, near, some, vectors, weights, cosine, part, left[g], right[g])
        if size:
            _add_lower(dsyrk(1.0, part.T, trans=0, lower=1), near, total)
    return dsyr2k(
        1.0, left.reshape(-1, n).T, right.reshape(-1, n).T, beta=1.0, c=total, lower=1, overwrite_c=1
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _spread(units, centres, cosine, nearest):
    """Take the unit farthest from all centres so far, and from their opposites, as the next one."""
    farthest = 0
    for g in range(len(centres)):
        centres[g] = farthest
        centre, least = units[centres[g]], 2.0
        for j in range(len(units)):
            t = 0.0
            for c in range(units.shape[1]):
                t += units[j, c] * centre[c]
            if abs(t) > abs(cosine[j]) or g == 0:
                cosine[j], nearest[j] = t, g
            if abs(cosine[j]) < least:
                least, farthest = abs(cosine[j]), j


@njit(cache=True, nogil=True)
def _fill(rows, heights, atoms, owner, near, some, vectors, weights, cosine, part, left, right):
    """Write √(d + d')·s of the members, and the factors of what the group adds on all rows."""
    n, r = rows.shape
    forms = np.zeros((2, r, r))
    for y in range(len(some)):
        j = some[y]
        side = 0 if cosine[j] > 0.0 else 1
        own, other = weights[j, 0], weights[j, 1]
        root = np.sqrt(own + other)
        for x in range(len(near)):
            is_active = atoms[owner[j], near[x]] > 0.0
            s = 0.0
            if is_active != ((heights[near[x]] > 0.0) == (side == 0)):
                for c in range(r):
                    s += rows[near[x], c] * vectors[j, c]
                if not is_active:
                    s = -s
                for c in range(r):
                    right[side, c, near[x]] += own * vectors[j, c] * s
                    right[1 - side, c, near[x]] -= other * vectors[j, c] * s
            part[y, x] = root * s
        for a in range(r):
            for b in range(r):
                product = vectors[j, a] * vectors[j, b]
                forms[side, a, b] += own * product
                forms[1 - side, a, b] += other * product
    for side in range(2):
        for i in range(n):
            if (heights[i] > 0.0) == (side == 0):
                for a in range(r):
                    left[side, a, i] = rows[i, a]
                    for b in range(r):
                        right[side, a, i] += 0.5 * forms[side, a, b] * rows[i, b]


@njit(cache=True, nogil=True)
def _add_lower(block, near, out):
    """Add the lower triangle of a block to the entries of ascending rows ``near``."""
    for y in range(len(near)):
        for x in range(y, len(near)):
            out[near[x], near[y]] += block[x, y]
