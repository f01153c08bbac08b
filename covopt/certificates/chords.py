"""Boxes of directions bounded by lines through the ends of rows: what closes each of them, and a tree of few leaves.

All of it is advice in doubles, for :mod:`covopt.proofs.closing`: the reader of a file accepts any a in [0, 1] and any
|p| ≤ 1, and what is chosen here only decides how many boxes it needs. On a box, with chords on the rows that count
positively, the others −σ(r·z) and −H|u| are concave, so their best lines are those that meet them at the maximiser of
the sum. An interior point method finds it: a barrier for the box, and one for each slope, which rounds its kink.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numba import njit

from covopt.oracles.cones.sphere_form import factor, solve
from covopt.proofs.closing import ENTRIES, FALSE

SMALLEST = 2.0**-100
STEPS = 60  # of Newton's method
FASTER, EDGE = 0.2, 0.95  # the barrier from one step to the next; share of the way to a facet
FINE = 1 << 53  # slopes are not rounded


def advise(
    real: np.ndarray, count: np.ndarray, row: np.ndarray, weight: np.ndarray, lo: np.ndarray, hi: np.ndarray,
    linear: np.ndarray, low: np.ndarray, high: np.ndarray, width: np.ndarray, one: int,
    basis: np.ndarray | None = None,
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
    basis : ndarray of shape (r, r), optional
        Its rows are the vectors that the coordinates belong to, where these are not orthonormal; p is not in them.

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
    B = np.eye(low.shape[1]) if basis is None else np.ascontiguousarray(basis)
    slopes, normals, bounds = np.zeros(len(row)), np.zeros(low.shape), np.zeros(len(count))
    axes = np.zeros(len(count), dtype=np.int64)
    # of one kind, compiled once
    real, linear, low, high, width = (np.ascontiguousarray(part) for part in (real, linear, low, high, width))
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


class Chords:
    """Boxes of both signs of G(u) = Σ signs_i σ(y_i·u) on all facets of the cube, cut while their bounds exceed 1.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        y_i, in units of the H that is wanted.
    signs : ndarray of shape (n,)
    most : int
        Boxes. Where they run out the worst have been cut.

    Attributes
    ----------
    bound : float
        Of |G(u)|/|u|, in doubles; 1 where all boxes close with the H that is wanted.
    value : float
        The largest of G(u)/|u| that was met. The search ends where it is above 1.
    cuts : int
        The most along one coordinate.
    code : list of bytes
        Of each root the cuts in preorder, a byte a node: 0 a leaf, j + 1 a cut along coordinate j.
    """

    def __init__(self, rows: np.ndarray, signs: np.ndarray, most: int):
        self.rows, self.signs = rows, signs
        D, step = rows.shape[1], max(1, ENTRIES // len(rows))
        k, roots = np.arange(4 * D), 4 * D
        fixed, side = np.eye(D, dtype=bool)[k // 2 % D], (1.0 - 2.0 * (k % 2))[:, None]
        ends = np.stack([np.where(fixed, side, -1.0), np.where(fixed, side, 1.0)], axis=1)
        sign, lower, made = 1.0 - 2.0 * (k // (2 * D)), np.full(roots, -1), roots
        self.value = 0.0
        bound, axis = self._bounds(ends, sign)
        while self.value <= 1.0 + FALSE:
            open_ = np.flatnonzero((bound[:made] > 1.0) & (axis[:made] >= 0) & (lower[:made] < 0))
            worst = open_[np.argsort(-bound[open_], kind="stable")[: min(step, max(0, most - made) // 2)]]
            if not len(worst):
                break
            end = made + 2 * len(worst)
            if end > len(bound):
                ends, sign, bound, axis, lower = (
                    np.concatenate([part, np.zeros((end, *part.shape[1:]), part.dtype)])
                    for part in (ends, sign, bound, axis, lower)
                )
            cut, new = axis[worst], np.arange(made, end, 2)
            ends[made:end], sign[made:end] = ends[worst].repeat(2, axis=0), sign[worst].repeat(2)
            ends[new, 1, cut] = ends[new + 1, 0, cut] = ends[worst, :, cut].mean(axis=1)
            bound[made:end], axis[made:end] = self._bounds(ends[made:end], sign[made:end])
            lower[worst], lower[made:end], made = new, -1, end
        self.bound = max(1.0, float(bound[:made][lower[:made] < 0].max()))
        width = ends[:made, 1] - ends[:made, 0]
        self.cuts = 2 - math.frexp(float(width[width > 0.0].min()))[1]
        self.code = [bytes(self._preorder(root, lower, axis)) for root in range(roots)]

    @staticmethod
    def _preorder(root: int, lower: np.ndarray, axis: np.ndarray) -> Iterator[int]:
        stack = [root]
        while stack:
            node = stack.pop()
            part = int(lower[node])
            yield 0 if part < 0 else int(axis[node]) + 1
            stack += [] if part < 0 else [part + 1, part]

    def _bounds(self, ends: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of boxes, and the coordinates to cut them along."""
        low, high = ends[:, 0], ends[:, 1]
        middle, reach = 0.5 * (low + high) @ self.rows.T, 0.5 * (high - low) @ np.abs(self.rows).T
        signs = sign[:, None] * self.signs
        linear = np.where(middle >= reach, signs, 0.0) @ self.rows
        undecided = np.abs(middle) < reach
        box, row = np.nonzero(undecided)
        lo, hi = (middle - reach)[box, row], (middle + reach)[box, row]
        count, width = undecided.sum(axis=1), high - low
        _, _, axis, value, bound = advise(
            self.rows, count, row, signs[box, row], lo, hi, linear, low, high, width, FINE
        )
        self.value = max(self.value, value)
        return bound, axis
