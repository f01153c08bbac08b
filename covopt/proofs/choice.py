"""Slopes and normals for the leaves of a cover, chosen in floating point. Nothing here is trusted.

The checker accepts any a in [0, 1] and any |p| ≤ 1 (:mod:`covopt.proofs.checker.cover`); what is chosen here only
decides how many boxes it needs. On a box let f be the linear functions that are not negative on it (its facets). For
chords a on the rows with w = +1 the best a on the others, and the best p, come from

    minimise |q + Σ μ_f f|  over a_i in [0, 1] and μ_f ≥ 0,

by convex duality: the box is closed if and only if the minimum is at most H, with p parallel to that vector. It is
found coordinate by coordinate, for many boxes at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BITS = 60  # a and p are multiples of 2^-60
CORNER = 2.0**-60
SMALLEST = 2.0**-50
CELLS = 150_000  # rows times boxes at a time
SWEEPS = (1, 2, 4, 8, 16, 32)


def choose(rows: Any, boxes: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return a for every undecided row, p for every box, a coordinate to cut it along, and a value of G.

    Parameters
    ----------
    rows, boxes : Rows, Boxes
        Of :mod:`covopt.proofs.checker.cover`.

    Returns
    -------
    slopes : ndarray of shape (rows,) of int, times 2^60
    normals : ndarray of shape (boxes, r) of int, times 2^60
    axes : ndarray of shape (boxes,) of int
        −1 for a box that is too small to be cut.
    value : float
        The largest σG(u)/(H|u|) at a centre: above 1 the statement is false.
    """
    count, start = boxes.undecided, np.cumsum(boxes.undecided) - boxes.undecided
    slopes = np.zeros(len(boxes.row), dtype=np.int64)
    normals, axes = np.zeros(boxes.low.shape, dtype=np.int64), np.zeros(len(count), dtype=np.int64)
    if not float(rows.H) > 0.0:
        return slopes, normals, axes - 1, 0.0
    order = np.argsort(count, kind="stable")
    real = rows.y.astype(float) / float(rows.H)
    unit = float(rows.H) * 2.0**rows.shift
    begin, best = 0, 0.0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and (end + 1 - begin) * (count[order[end]] + 4) <= CELLS:
            end += 1
        which, begin = order[begin:end], end
        entry = start[which] + np.arange(count[which[-1]])[:, None]
        there = entry < (start + count)[which]
        entry = np.where(there, entry, 0)
        row = boxes.row[entry]
        weight = np.where(there, boxes.sigma[which] * rows.sign[row], 0)
        lo = np.where(there, boxes.lo[entry].astype(float) / unit, -1.0)
        hi = np.where(there, boxes.hi[entry].astype(float) / unit, 1.0)
        signed = np.ascontiguousarray((real[row] * weight[..., None]).transpose(0, 2, 1))  # (rows, r, boxes)
        linear = boxes.linear[which].astype(float).T / float(rows.H)
        low, high = boxes.low[which].T * CORNER, boxes.high[which].T * CORNER
        # corners are rounded here: what is a point and what is an interval must come from the integers
        width = np.where(boxes.low[which] == boxes.high[which], 0.0, 2.0 ** (1 - boxes.level[which])).T
        a, normal = _descend(signed, weight, lo, hi, linear, low, high, width)
        wanted = np.where(width > SMALLEST, width * (np.abs(signed).sum(axis=0) + width), -1.0)
        axes[which] = np.where(wanted.max(axis=0) > 0, wanted.argmax(axis=0), -1)
        centre = 0.5 * (low + high)
        heights = (signed * centre).sum(axis=1)
        heights = np.where(weight > 0, np.maximum(heights, 0.0), np.minimum(heights, 0.0)).sum(axis=0)
        values = ((linear * centre).sum(axis=0) + heights) / np.sqrt((centre**2).sum(axis=0))
        best = max(best, float(values.max()))
        slopes[entry[there]] = np.rint(np.clip(a, 0.0, 1.0) / CORNER).astype(np.int64)[there]
        normals[which] = np.trunc(normal / CORNER).astype(np.int64).T
    return slopes, normals, axes, best


def _descend(
    signed: np.ndarray, weight: np.ndarray, lo: np.ndarray, hi: np.ndarray, linear: np.ndarray, low: np.ndarray,
    high: np.ndarray, width: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return a and p for boxes side by side; H is one."""
    dimension, number = low.shape
    place = np.arange(number)
    fixed = width.argmin(axis=0)
    side = low[fixed, place]
    a = hi / (hi - lo)
    q = linear + (a[:, None] * signed).sum(axis=0)
    q[fixed, place] -= side * np.where(weight > 0, a * lo, 0.0).sum(axis=0)
    facets = np.zeros((2 * dimension, dimension, number))
    for j in range(dimension):
        for k, sign, corner in ((2 * j, 1.0, low[j]), (2 * j + 1, -1.0, high[j])):
            facets[k, j] += sign
            facets[k, fixed, place] -= sign * corner * side

    concave = np.flatnonzero((weight < 0).any(axis=1))
    is_concave = weight[concave] < 0
    step = np.concatenate([signed[concave], facets])
    value = np.concatenate([np.where(is_concave, a[concave], 0.0), np.zeros((2 * dimension, number))])
    top = np.concatenate([is_concave.astype(float), np.full((2 * dimension, number), np.inf)])
    square = (step**2).sum(axis=1)
    inverse = np.where((top > 0) & (square > 0), 1.0 / np.where(square > 0, square, 1.0), 0.0)
    todo = place
    for sweeps in SWEEPS:
        todo = todo[(q[:, todo] ** 2).sum(axis=0) > 1.0 - 1e-14]
        if not len(todo):
            break
        s, v, t, i, z = step[:, :, todo], value[:, todo], top[:, todo], inverse[:, todo], q[:, todo]
        for _ in range(sweeps):
            for k in range(len(s)):
                new = np.clip(v[k] - (z * s[k]).sum(axis=0) * i[k], 0.0, t[k])
                z += (new - v[k]) * s[k]
                v[k] = new
        value[:, todo], q[:, todo] = v, z
    a[concave] = np.where(is_concave, value[: len(concave)], a[concave])

    length = np.sqrt((q**2).sum(axis=0))
    centre = 0.5 * (low + high)
    centre /= np.sqrt((centre**2).sum(axis=0))
    # where |q| < 1 there is room for a little of the centre in p, and that pays for the rounding of a and p
    normal = (q / np.maximum(length, 1.0) + np.maximum(0.0, 1.0 - length) * centre) * (1.0 - 1e-15)
    return a, normal
