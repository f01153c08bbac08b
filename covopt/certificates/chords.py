"""Slopes, normals and cuts for boxes of a closed proof, as the search by boxes chooses them.

All of it is advice in doubles, for :mod:`covopt.proofs.closing`: the reader of a file accepts any a in [0, 1] and any
|p| ≤ 1, and what is chosen here only decides how many boxes it needs. On a box the best lines meet the concave rest
at the maximiser of the sum (:mod:`covopt.oracles.cones.leaf`): of slopes that answer one maximiser after the other
the best are kept, rounded, and p is chosen for what they are then.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.ascent import inner, make_room
from covopt.oracles.cones.kernel import SMALLEST, average
from covopt.oracles.cones.leaf import affine_bound, relax, tighten, touch

TURNS = 20  # answers to maximisers; with ten there are a tenth more boxes


def advise(
    real: np.ndarray, count: np.ndarray, row: np.ndarray, weight: np.ndarray, lo: np.ndarray, hi: np.ndarray,
    linear: np.ndarray, low: np.ndarray, high: np.ndarray, width: np.ndarray, one: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]:  # fmt: skip
    """Return a for every undecided row, of every box where p points, a coordinate to cut and a bound, a value of G.

    Parameters
    ----------
    real : ndarray of shape (n, r)
        The rows, in coordinates that are orthonormal but for rounding; H is one.
    count : ndarray of shape (boxes,)
        How many of the entries of the next four arrays belong to each box.
    row, weight, lo, hi : ndarray of shape (entries,)
        Undecided rows: their places, σ s_i, and between which numbers they are on the box.
    linear, low, high, width : ndarray of shape (boxes, r)
        Of each box: the sum of the rows that are decided, its corners and widths.
    one : int
        Slopes are to be multiples of its inverse.

    Returns
    -------
    slopes : ndarray of shape (entries,)
    points : ndarray of shape (boxes, r)
        In the direction of p.
    axes : ndarray of shape (boxes,) of int
        −1 for a box that is too small to be cut.
    value : float
        The largest σG(u)/|u| at a centre: above 1 the statement is false.
    bounds : ndarray of shape (boxes,)
        Of σG(u) − |u|, but for rounding.
    """
    slopes, points, bounds = np.zeros(len(row)), np.zeros(low.shape), np.zeros(len(count))
    axes = np.zeros(len(count), dtype=np.int64)
    # of one kind, compiled once
    real, linear, low, high, width = map(np.ascontiguousarray, (real, linear, low, high, width))
    value = _advise(
        real, count.astype(np.int64), row.astype(np.int64), weight, lo, hi, linear, low, high, width, float(one),
        slopes, points, axes, bounds,
    )  # fmt: skip
    return slopes, points, axes, value, bounds


@njit(cache=True, nogil=True, error_model="numpy")
def _advise(real, count, row, weight, lo, hi, linear, low, high, width, one, slopes, points, axes, bounds):
    D, H, best, end = low.shape[1], 1.0, 0.0, 0
    room, q = make_room(max(1, count.max()), D), np.empty(D)
    for box in range(len(count)):
        begin, end = end, end + count[box]
        rows, weights, index = real[row[begin:end]], weight[begin:end], np.arange(count[box])
        centre, radius = 0.5 * (lo[begin:end] + hi[begin:end]), 0.5 * (hi[begin:end] - lo[begin:end])
        u0, s, g, u = 0.5 * (low[box] + high[box]), 0.5 * width[box], linear[box], points[box]
        chosen, theta, least = slopes[begin:end], np.full(count[box], 0.5), np.inf
        for turn in range(TURNS):
            f = relax(rows, weights, index, centre, radius, theta, g, u0, q)
            bound = affine_bound(f, q, u0, s, H, u, touch(q, u0, s, H, u))
            if bound < least:
                least = bound
                chosen[:] = theta
            if least <= 0.0:
                break
            if turn == 0:
                tighten(rows, weights, index, theta, f, q, u0, s.argmin(), H, room)
            else:
                average(rows, weights, index, theta, u)
        for k in range(len(index)):
            if weights[k] > 0.0:
                chosen[k] = 0.5 * (centre[k] + radius[k]) / radius[k]
            chosen[k] = np.rint(chosen[k] * one) / one
        f = relax(rows, weights, index, centre, radius, chosen, g, u0, q)
        bounds[box] = affine_bound(f, q, u0, s, H, u, touch(q, u0, s, H, u))
        wanted, value = np.zeros(D), inner(g, u0)
        for k in range(len(index)):
            value += weights[k] * max(inner(rows[k], u0), 0.0)
            wanted += np.abs(rows[k])
        best = max(best, value / np.sqrt(inner(u0, u0)))
        wanted = np.where(s > SMALLEST, s * (wanted + s), -1.0)
        axes[box] = wanted.argmax() if wanted.max() > 0.0 else -1
    return best
