"""Boxes of directions bounded by lines through the ends of rows: what closes each of them, and a tree of few leaves.

All of it is advice in doubles, for :mod:`covopt.proofs.closing`: the reader of a file accepts any a in [0, 1] and any
|p| ≤ 1, and what is chosen here only decides how many boxes it needs. On a box, with chords on the rows that count
positively, the others −σ(r·z) and −H|u| are concave, so their best lines are those that meet them at the maximiser of
the sum. An interior point method finds it: a barrier for the box, and one for each slope, which rounds its kink.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.cones.sphere_form import factor, solve

SMALLEST = 2.0**-100
STEPS = 60  # of Newton's method
FASTER, EDGE = 0.2, 0.95  # the barrier from one step to the next; share of the way to a facet


def advise(
    real: np.ndarray, count: np.ndarray, row: np.ndarray, weight: np.ndarray, lo: np.ndarray, hi: np.ndarray,
    linear: np.ndarray, low: np.ndarray, high: np.ndarray, width: np.ndarray, one: int,
    basis: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, np.ndarray]:  # fmt: skip
    """Return a for every undecided row, p and a coordinate to cut along for every box, a value of G, and bounds.

    Parameters
    ----------
    real : ndarray of shape (n, r)
        The rows; H is one.
    count : ndarray of shape (boxes,)
        How many of the entries of the next four arrays belong to each box.
    row, weight, lo, hi : ndarray of shape (entries,)
        Undecided rows: their places, σ s_i, and between which numbers they are on the box.
    linear, low, high, width : ndarray of shape (boxes, r)
        Of each box: the sum of the rows that are decided, its corners and widths.
    one : int
        Slopes are to be multiples of its inverse.
    basis : ndarray of shape (r, r)
        Its rows are the vectors that the coordinates belong to, which need not be orthonormal; p is not in them.

    Returns
    -------
    slopes : ndarray of shape (entries,)
    normals : ndarray of shape (boxes, r)
    axes : ndarray of shape (boxes,) of int
        −1 for a box that is too small to be cut.
    value : float
        The largest σG(u)/(H|u|) at a centre: above 1 the statement is false.
    bounds : ndarray of shape (boxes,)
        With which multiple of H each box closes, but for rounding; at most 1 where it closes with H.
    """
    slopes, normals, bounds = np.zeros(len(row)), np.zeros(low.shape), np.zeros(len(count))
    axes = np.zeros(len(count), dtype=np.int64)
    # of one kind, compiled once
    real, linear, low, high, width, B = map(np.ascontiguousarray, (real, linear, low, high, width, basis))
    value = _advise(
        real, count.astype(np.int64), row.astype(np.int64), weight, lo, hi, linear, low, high, width, float(one), B,
        slopes, normals, axes, bounds,
    )  # fmt: skip
    return np.nan_to_num(slopes).clip(0.0, 1.0), np.nan_to_num(normals).clip(-1.0, 1.0), axes, value, bounds


@njit(cache=True, nogil=True, error_model="numpy")
def _advise(
    real, count, row, weight, lo, hi, linear, low, high, width, one, B, slopes, normals, axes, bounds
):
    D, best, begin = low.shape[1], 0.0, 0
    most = max(1, count.max())
    Y, a, y, gram = np.empty((most, D)), np.empty(most), np.empty(D), B @ B.T
    for box in range(len(count)):
        end = begin + count[box]
        q, wanted, constant, m = linear[box].copy(), np.zeros(D), 0.0, 0
        centre = 0.5 * (low[box] + high[box])
        value = (q * centre).sum()
        for e in range(begin, end):
            r = real[row[e]]
            wanted += np.abs(r)
            value += weight[e] * max((r * centre).sum(), 0.0)
            if weight[e] > 0.0:
                slopes[e] = np.rint(hi[e] / (hi[e] - lo[e]) * one) / one
                q += slopes[e] * r
                constant += max(-slopes[e] * lo[e], (1.0 - slopes[e]) * hi[e])
            else:
                Y[m] = r
                m += 1
        wanted = np.where(width[box] > SMALLEST, width[box] * (wanted + width[box]), -1.0)
        axes[box] = wanted.argmax() if wanted.max() > 0.0 else -1
        value /= np.sqrt(((B.T @ centre) ** 2).sum())
        best = max(best, value)
        y[:] = 0.0
        barrier = _meet(q, constant, Y[:m], low[box], high[box], B, gram, np.inf, y, a, normals[box])
        if m:  # rounded first: what that costs is of second order once the rest is chosen for it
            k = 0
            for e in range(begin, end):
                if weight[e] < 0.0:
                    slopes[e] = np.rint(a[k] * one) / one
                    q -= slopes[e] * real[row[e]]
                    k += 1
            _meet(q, constant, Y[:0], low[box], high[box], B, gram, barrier, y, a, normals[box])
        top, least, p = constant, 0.0, B @ normals[box]
        for j in range(D):
            top += max((q[j] - p[j]) * low[box, j], (q[j] - p[j]) * high[box, j])
            least += min(p[j] * low[box, j], p[j] * high[box, j])
        bounds[box] = 1.0 + max(top, 0.0) / least if least > 0.0 else 1.0 if top <= 0.0 else np.inf
        begin = end
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _meet(q, constant, Y, low, high, B, gram, barrier, y, a, normal):
    """Maximise q·z + constant − Σ σ(Y z) − |u| over a box, at y of its half-widths; return the last barrier.

    What is written to ``a`` and ``normal`` are the best lines met: with a for σ(Y z) and normal·u for |u|.
    """
    D, m = len(q), len(Y)
    centre, half = 0.5 * (low + high), 0.5 * (high - low)
    z, g, p, d = np.empty(D), np.empty(D), np.empty(D), np.empty(D)
    line, bend, (M, A) = np.full(m, 0.5), np.empty(m), np.empty((2, D, D))
    best, sure = np.inf, -np.inf
    for _ in range(STEPS):
        for j in range(D):
            z[j] = centre[j] + half[j] * y[j]
        u = B.T @ z
        length = np.sqrt((u * u).sum())
        p[:] = B @ u / length
        here = (q * z).sum() + constant - length
        g[:] = q - p
        for j in range(D):
            for k in range(D):
                M[j, k] = (gram[j, k] - p[j] * p[k]) / length
        for i in range(m):
            here -= max((Y[i] * z).sum(), 0.0)
            g -= line[i] * Y[i]
        top, sure = constant, max(sure, here)
        for j in range(D):
            top += max(g[j] * low[j], g[j] * high[j])
        if top < best:
            best = top
            a[:m] = line
            normal[:] = u / length * (1.0 - 1e-15)
        if best <= 0.5 * sure or 0.0 < best <= 2.0 * sure:
            break
        if barrier == np.inf:
            barrier = (best - sure) / (2.0 * m + 2.0 * D)
            continue
        if barrier < SMALLEST:
            break
        for i in range(m):
            t = (Y[i] * z).sum() / barrier
            rest = 2.0 / (2.0 + abs(t) + np.sqrt(4.0 + t * t))
            slope = 1.0 - rest if t > 0.0 else rest
            bend[i] = 1.0 / (barrier * (1.0 / rest**2 + 1.0 / (1.0 - rest) ** 2))
            g += (line[i] - slope) * Y[i]
            line[i] = slope
            for j in range(D):
                for k in range(D):
                    M[j, k] += bend[i] * Y[i, j] * Y[i, k]
        for j in range(D):
            inside = 1.0 - y[j] * y[j]
            d[j] = half[j] * g[j] - 2.0 * barrier * y[j] / inside
            for k in range(D):
                M[j, k] *= half[j] * half[k]
            M[j, j] += 2.0 * barrier * (1.0 + y[j] * y[j]) / inside**2
        grad = d.copy()
        if not factor(-M, 0.0, 0.0, A):
            break
        solve(A, d, False)
        drop = (grad * d).sum() / barrier
        step = 1.0 if drop < 0.25 else 1.0 / (1.0 + np.sqrt(drop))
        for j in range(D):
            if d[j] != 0.0:
                step = min(step, EDGE * ((1.0 if d[j] > 0.0 else -1.0) - y[j]) / d[j])
        y += step * d
        d *= step * half
        for i in range(m):  # as it is after the step, but for its square
            line[i] = min(max(line[i] + bend[i] * (Y[i] * d).sum(), 0.0), 1.0)
        if drop < 1.0:
            barrier *= FASTER
    return barrier
