"""The compiled walk behind :mod:`covopt.oracles.scalar.flats`; the mathematics is told there."""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.scalar.flat_frames import DELTA, dot, fill_coordinates, fill_frame, prepare_lifts
from covopt.oracles.scalar.flat_peaks import BEST, COUNT, THRESHOLD, compact, is_peak, record

SLACK = 8 * DELTA


@njit(cache=True, nogil=True)
def _has_signs(rows, subset, signs, half, w, slack):
    """Whether w has the signs of the arc on every row outside the subset, up to ``slack``."""
    p = 0
    for i in range(rows.shape[0]):
        if p < len(subset) and subset[p] == i:
            p += 1
            continue
        s = 0.0
        for c in range(len(w)):
            s += rows[i, c] * w[c]
        if half * signs[i] * s < -slack:
            return False
    return True


@njit(cache=True, nogil=True)
def _lifted_faces(
    rows, mu, subset, signs, half, ends, u, g, frame, lower, usable, projector, matrix, offset, tiny, lipschitz,
    state, found, value, top, a, t0, t, w, full, normals, work, factor,
):  # fmt: skip
    """Find the maximisers of |F| inside the faces of dimension ≥ 3 around one arc.

    ``u`` is the part of the gradient g in the plane of the circle; ``ends`` are the rows that end the arc.
    """
    r = rows.shape[1]
    k = r - 2
    for p in range(k):
        a[p] = dot(frame[p], g)
    for lifted in range(1, 1 << k):
        allowed = usable[lifted]
        if allowed == 0:
            continue
        for p in range(k):
            if lifted >> p & 1:
                s = 0.0
                for q in range(k):
                    s += matrix[lifted, p, q] * a[q]
                t0[p] = s
        plus = lifted
        while True:
            up = allowed & 1
            down = allowed & 2
            for p in range(k):
                if lifted >> p & 1:
                    s = t0[p] + offset[lifted, plus, p]
                    t[p] = s
                    if not plus >> p & 1:
                        s = -s
                    if s < -tiny:
                        up = 0
                    elif s > tiny:
                        down = 0
                    if up + down == 0:
                        break
            if up + down > 0:
                for c in range(r):
                    w[c] = u[c]
                full[:k] = a
                for p in range(k):
                    if plus >> p & 1:
                        for q in range(p + 1):
                            full[q] += mu[subset[p]] * lower[p, q]
                for p in range(k):
                    s = dot(projector[lifted, p], full[:k])
                    for c in range(r):
                        w[c] += s * frame[p, c]
                square = dot(w, w)
                floor = min(state[BEST], state[THRESHOLD])
                if square > floor * floor and square > 0.0:
                    length = np.sqrt(square)
                    sign = 1.0 if up else -1.0
                    inside = _inside(rows, subset, signs, half, ends, lifted, plus, t, w, sign, length)
                    if not inside and up and down:
                        sign = -1.0
                        inside = _inside(rows, subset, signs, half, ends, lifted, plus, t, w, sign, length)
                    if inside:
                        for c in range(r):
                            w[c] *= sign / length
                        if length > state[BEST]:
                            state[BEST] = length
                            top[:] = w
                        if length > state[THRESHOLD]:
                            kept = 0
                            full[:] = g
                            for p in range(k):
                                i = subset[p]
                                if not lifted >> p & 1:
                                    normals[kept] = i
                                    kept += 1
                                elif plus >> p & 1:
                                    for c in range(r):
                                        full[c] += mu[i] * rows[i, c]
                            if is_peak(rows, mu, normals[:kept], full, sign, lipschitz, work, factor):
                                record(found, value, state, w, sign * length)
            if plus == 0:
                break
            plus = (plus - 1) & lifted


@njit(cache=True, nogil=True)
def _inside(rows, subset, signs, half, ends, lifted, plus, t, w, sign, length):
    """Whether sign·w lies in the face: the rows most likely to refuse it are asked first."""
    slack = SLACK * length
    side = sign * half
    for i in ends:
        if side * signs[i] * dot(rows[i], w) < -slack:
            return False
    for p in range(len(subset)):
        if lifted >> p & 1:
            s = sign * t[p]
            if (s if plus >> p & 1 else -s) < -slack:
                return False
    return _has_signs(rows, subset, signs, side, w, slack)


@njit(cache=True, nogil=True)
def _cross(rows, subset, e1, e2, angle, others):
    """Angles in [0, π) at which the rows outside the subset vanish on the circle, and which rows they are."""
    p = 0
    q = 0
    for i in range(rows.shape[0]):
        if p < len(subset) and subset[p] == i:
            p += 1
            continue
        phi = np.arctan2(-dot(rows[i], e1), dot(rows[i], e2))
        if phi < 0.0:
            phi += np.pi
        angle[q] = phi
        others[q] = i
        q += 1


@njit(cache=True, nogil=True)
def _advance(subset, n):
    """Replace the subset by the next one in lexicographic order; False at the end."""
    k = len(subset)
    p = k - 1
    while p >= 0 and subset[p] == n - k + p:
        p -= 1
    if p < 0:
        return False
    subset[p] += 1
    for q in range(p + 1, k):
        subset[q] = subset[q - 1] + 1
    return True


@njit(cache=True, nogil=True)
def walk(rows, mu, g0, subset, n_subsets, threshold, found, value, top):
    """Walk ``n_subsets`` circles from ``subset`` on; returns how many maxima were found, and max |F|.

    ``top`` receives the point of the best value, found or not; rows have length one.
    """
    n, r = rows.shape
    k = r - 2
    m = n - k
    n_masks = 1 << k
    frame = np.empty((r, r))
    work = np.empty((r, r))
    factor = np.empty((r, r + 1))
    lower = np.empty((k, k))
    axes = np.empty((k, k))
    projector = np.empty((n_masks, k, k))
    usable = np.zeros(n_masks, np.int64)
    matrix = np.empty((n_masks, k, k))
    offset = np.empty((n_masks, n_masks, k))
    normals = np.empty(r, np.int64)
    ends = np.empty(2, np.int64)
    angle = np.empty(m)
    others = np.empty(m, np.int64)
    signs = np.zeros(n)
    g = np.empty(r)
    h = np.empty(r)
    u = np.empty(r)
    full = np.empty(r)
    a = np.empty(k)
    t0 = np.empty(k)
    t = np.empty(k)
    w = np.empty(r)
    both = np.empty(r)
    total = 2.0 * g0
    lipschitz = np.sqrt(dot(g0, g0))
    for i in range(n):
        lipschitz += abs(mu[i])
        for c in range(r):
            total[c] += mu[i] * rows[i, c]
    tiny = SLACK * lipschitz
    state = np.array([0.0, threshold, 0.0])
    for _ in range(n_subsets):
        if not fill_frame(rows, subset, frame):
            _advance(subset, n)
            continue
        fill_coordinates(rows, subset, frame, lower)
        prepare_lifts(mu, subset, lower, usable, projector, matrix, offset, axes)
        e1 = frame[k]
        e2 = frame[k + 1]
        _cross(rows, subset, e1, e2, angle, others)
        order = np.argsort(angle)
        # the first arc runs from the last crossing, half a turn back, to the first one
        before = angle[order[m - 1]] - np.pi
        start = 0.5 * (before + angle[order[0]])
        for c in range(r):
            w[c] = np.cos(start) * e1[c] + np.sin(start) * e2[c]
            g[c] = g0[c]
            both[c] = total[c]  # the sum of the gradients on an arc and on its antipode
            for p in range(k):
                both[c] -= mu[subset[p]] * rows[subset[p], c]
        for i in others:
            signs[i] = 1.0 if dot(rows[i], w) > 0.0 else -1.0
            if signs[i] > 0.0:
                for c in range(r):
                    g[c] += mu[i] * rows[i, c]
        c1 = np.cos(before)
        s1 = np.sin(before)
        tail = others[order[m - 1]]
        for step in range(m):
            head = others[order[step]]
            c2 = np.cos(angle[order[step]])
            s2 = np.sin(angle[order[step]])
            ends[0] = head
            ends[1] = tail
            for turn in range(2):
                half = 1.0 - 2.0 * turn
                for c in range(r):
                    h[c] = g[c] if turn == 0 else both[c] - g[c]
                ux = dot(h, e1)
                uy = dot(h, e2)
                for c in range(r):
                    u[c] = ux * e1[c] + uy * e2[c]
                vertex = half * (ux * c2 + uy * s2)
                owner = head > subset[k - 1]  # a vertex lies on r − 1 circles; one of them reports it
                if abs(vertex) > state[BEST] or (owner and abs(vertex) > state[THRESHOLD]):
                    for c in range(r):
                        w[c] = half * (c2 * e1[c] + s2 * e2[c])
                    if abs(vertex) > state[BEST]:
                        state[BEST] = abs(vertex)
                        top[:] = w
                    if owner and abs(vertex) > state[THRESHOLD]:
                        normals[:k] = subset
                        normals[k] = head
                        # the formula wants the gradient with the vertex's own rows silent
                        own = mu[head] if half * signs[head] > 0.0 else 0.0
                        for c in range(r):
                            h[c] -= own * rows[head, c]
                        sign = 1.0 if vertex > 0.0 else -1.0
                        if is_peak(rows, mu, normals[: k + 1], h, sign, lipschitz, work, factor):
                            record(found, value, state, w, vertex)
                        for c in range(r):
                            h[c] += own * rows[head, c]
                sign = 1.0 if half * (ux * (c1 + c2) + uy * (s1 + s2)) >= 0.0 else -1.0
                length = np.sqrt(ux * ux + uy * uy)
                if (
                    sign * half * (c1 * uy - s1 * ux) >= 0.0
                    and sign * half * (ux * s2 - uy * c2) >= 0.0
                    and length > min(state[BEST], state[THRESHOLD])
                ):
                    for c in range(r):
                        w[c] = sign * u[c] / length
                    if length > state[BEST]:
                        state[BEST] = length
                        top[:] = w
                    if length > state[THRESHOLD] and is_peak(
                        rows, mu, subset, h, sign, lipschitz, work, factor
                    ):
                        record(found, value, state, w, sign * length)
                _lifted_faces(
                    rows, mu, subset, signs, half, ends, u, h, frame, lower, usable, projector, matrix, offset,
                    tiny, lipschitz, state, found, value, top, a, t0, t, w, full, normals, work, factor,
                )  # fmt: skip
            own = -signs[head] * mu[head]
            signs[head] = -signs[head]
            for c in range(r):
                g[c] += own * rows[head, c]
            c1 = c2
            s1 = s2
            tail = head
        _advance(subset, n)
    count, _ = compact(found, value, int(state[COUNT]))
    return count, state[BEST]
