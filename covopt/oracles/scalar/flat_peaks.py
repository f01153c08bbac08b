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
def _is_known(found, value, order, kept, p):
    """Whether entry p is one of those kept, the best first."""
    for x in range(kept - 1, -1, -1):
        q = order[x]
        if abs(value[q]) - abs(value[p]) > 1e-10 * abs(value[p]):
            return False
        if value[q] * value[p] > 0.0:
            distance = 0.0
            for c in range(found.shape[1]):
                distance = max(distance, abs(found[q, c] - found[p, c]))
            if distance < 1e-9:
                return True
    return False


@njit(cache=True, nogil=True)
def compact(found, value, count):
    """Drop repeated entries, then the worse half if more than half remain; returns count, floor."""
    # entry by entry: numba compiles much more for a slice
    sizes = np.empty(count)
    for p in range(count):
        sizes[p] = -abs(value[p])
    order = np.argsort(sizes)
    kept = 0
    for x in range(count):
        if not _is_known(found, value, order, kept, order[x]):
            order[kept] = order[x]
            kept += 1
    floor = 0.0
    if kept > len(value) // 2:
        kept = len(value) // 2
        floor = abs(value[order[kept - 1]])
    new_found, new_value = np.empty((kept, found.shape[1])), np.empty(kept)
    for x in range(kept):
        new_value[x] = value[order[x]]
        for c in range(found.shape[1]):
            new_found[x, c] = found[order[x], c]
    for x in range(kept):
        value[x] = new_value[x]
        for c in range(found.shape[1]):
            found[x, c] = new_found[x, c]
    return kept, floor


@njit(cache=True, nogil=True)
def record(found, value, state, w, v):
    """Append a local maximum; a full buffer gives up its worse half and raises the threshold."""
    count = int(state[COUNT])
    if count == len(value):
        count, floor = compact(found, value, count)
        state[THRESHOLD] = max(state[THRESHOLD], floor)
    for c in range(len(w)):
        found[count, c] = w[c]
    value[count] = v
    state[COUNT] = count + 1
