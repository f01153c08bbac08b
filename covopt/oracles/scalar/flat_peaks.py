"""Which points of a walk are local maxima, and the list of those: for :mod:`covopt.oracles.scalar.flats`."""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.scalar.flat_frames import DEPENDENT, dot

EPS = 2.0**-52
COUNT, THRESHOLD, BEST = 0, 1, 2  # entries of the array ``state``


@njit(cache=True, nogil=True)
def is_peak(rows, mu, normals, g, sign, lipschitz, work, factor):
    """Whether some θ ∈ [0, 1] makes g + Σ θ_j μ_j z_j orthogonal to the normals: a local maximum."""
    count = len(normals)
    r = rows.shape[1]
    least = 1.0
    for p in range(count):
        if sign * mu[normals[p]] > 0.0:
            return False
        for c in range(r):
            work[p, c] = rows[normals[p], c]
        for _ in range(2):
            for q in range(p):
                s = dot(work[q], work[p])
                for c in range(r):
                    work[p, c] -= s * work[q, c]
        length = np.sqrt(dot(work[p], work[p]))
        if length < DEPENDENT:
            return False
        least = min(least, length)
        for c in range(r):
            work[p, c] /= length
        for q in range(p + 1):
            factor[p, q] = dot(rows[normals[p]], work[q])
    # the shares' own error: rounding in g, magnified by the rows' dependence
    error = 64.0 * EPS * lipschitz / least
    for q in range(count - 1, -1, -1):
        s = -dot(work[q], g)
        for p in range(q + 1, count):
            s -= factor[p, q] * factor[p, p + 1]
        s /= factor[q, q]
        factor[q, q + 1] = s
        m = mu[normals[q]]
        tolerance = 1e-9 * abs(m) + error
        if sign * s > tolerance or sign * (s - m) < -tolerance:
            return False
    return True


@njit(cache=True, nogil=True)
def compact(found, value, count):
    """Drop repeated entries, then the worse half if more than half remain; returns count, floor."""
    order = np.argsort(-np.abs(value[:count]))
    new_found = np.empty((count, found.shape[1]))
    new_value = np.empty(count)
    kept = 0
    for p in order:
        fresh = True
        q = kept - 1
        while q >= 0 and abs(new_value[q]) - abs(value[p]) <= 1e-10 * abs(value[p]):
            if new_value[q] * value[p] > 0.0 and np.abs(new_found[q] - found[p]).max() < 1e-9:
                fresh = False
                break
            q -= 1
        if fresh:
            new_found[kept] = found[p]
            new_value[kept] = value[p]
            kept += 1
    floor = 0.0
    if kept > len(value) // 2:
        kept = len(value) // 2
        floor = abs(new_value[kept - 1])
    found[:kept] = new_found[:kept]
    value[:kept] = new_value[:kept]
    return kept, floor


@njit(cache=True, nogil=True)
def record(found, value, state, w, v):
    """Append a local maximum; a full buffer gives up its worse half and raises the threshold."""
    count = int(state[COUNT])
    if count == len(value):
        count, floor = compact(found, value, count)
        state[THRESHOLD] = max(state[THRESHOLD], floor)
    found[count] = w
    value[count] = v
    state[COUNT] = count + 1
