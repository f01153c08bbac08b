"""The compiled walk behind :mod:`covopt.oracles.scalar.flats`; the mathematics is told there.

A circle is walked in its own coordinates: two in its plane, one for each of its k rows. What is asked of a face is
asked of all arcs of the circle at once, in straight-line code: whether the projected gradient is long enough, has the
right sides of the lifted rows and of the rows that end the arc. The few faces that remain are looked at closely.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.scalar.flat_frames import (
    DELTA,
    MAXIMA,
    MINIMA,
    dot,
    fill_coordinates,
    fill_frame,
    prepare_lifts,
)
from covopt.oracles.scalar.flat_peaks import BEST, COUNT, THRESHOLD, compact, is_peak, record
from covopt.oracles.scalar.flat_screens import add_multiple, heights_at_crossings, prepare_arcs, screen_arcs

SLACK = 8 * DELTA
AT_ONCE = 32  # faces that are marked as bits before they are looked at


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
def sort_circles(rows, subset, orders):
    """Sort, on as many circles as ``orders`` has rows, the other rows by the angle in [0, π) at which they vanish."""
    n, r = rows.shape
    k = r - 2
    frame, key, others = np.empty((r, r)), np.empty(n - k), np.empty(n - k, dtype=np.int64)
    for circle in range(len(orders)):
        if fill_frame(rows, subset, frame):
            p, q = 0, 0
            for i in range(n):
                if p < k and subset[p] == i:
                    p += 1
                    continue
                x, y = dot(rows[i], frame[k]), dot(rows[i], frame[k + 1])
                key[q] = y / x if x != 0.0 else -np.inf  # less the cotangent of the angle
                others[q] = i
                q += 1
            found = np.argsort(key)
            for q in range(n - k):
                orders[circle, q] = others[found[q]]
        _advance(subset, n)


@njit(cache=True, nogil=True)
def _copy(values, out):
    for c in range(len(values)):
        out[c] = values[c]


@njit(cache=True, nogil=True)
def _sides(turned, point, q, slack):
    """Orientations in which a point lies on an arc's side of all rows that are crossed; near ones are asked first."""
    m, r = turned.shape
    left = MAXIMA | MINIMA
    for step in range(m):
        for j in (q - step, q + 1 + step):
            if 0 <= j < m:
                t = 0.0
                for c in range(r):
                    t += turned[j, c] * point[c]
                if j > q:
                    t = -t
                if t < -slack:
                    left &= MINIMA
                if t > slack:
                    left &= MAXIMA
                if left == 0:
                    return left
    return left


@njit(cache=True, nogil=True)
def _to_space(frame, x, y, a, out):
    """Write the point with coordinates (a, x, y) in the circle's frame."""
    k = len(a)
    for c in range(len(out)):
        s = x * frame[k, c] + y * frame[k + 1, c]
        for q in range(k):
            s += a[q] * frame[q, c]
        out[c] = s


@njit(cache=True, nogil=True)
def walk(rows, mu, g0, subset, orders, threshold, found, value, top):
    """Walk as many circles as ``orders`` has rows, from ``subset`` on; return how many maxima there are, and max |F|.

    ``orders`` are the sorted crossings of these circles. ``top`` receives the point of the best value, found or not;
    rows have length one.

    Half 0 is the walked half circle, half 1 its antipode, seen from the walked one: there F(−w) = ⟨u, w⟩.
    """
    n, r = rows.shape
    k = r - 2
    m = n - k
    n_masks = 1 << k
    frame, work, factor = np.empty((r, r)), np.empty((r, r)), np.empty((r, r + 1))
    lower, axes = np.empty((k, k)), np.empty((k, k))
    projector, usable = np.empty((n_masks, k, k)), np.zeros(n_masks, np.int64)
    normals = np.empty(r, np.int64)
    values = np.empty(m)
    columns, heights = np.empty((r, m)), np.empty((r, m + 1))
    cosine, sine, after = np.empty(m), np.empty(m), np.empty(m)
    gradient, u = np.empty((r, m + 1)), np.empty((r, m))
    total = np.empty(r)
    behind, ahead, square, marked = np.empty(m), np.empty(m), np.empty(m), np.empty(m, np.int64)
    along, own, turned = np.empty((k, m)), np.empty((k, m)), np.empty((m, r))
    shifts, sides, own_shift = np.empty((AT_ONCE, k)), np.empty(k), np.empty(k)
    faces = np.empty(AT_ONCE, np.int64)
    a, g, w, point = np.empty(k), np.empty(r), np.empty(r), np.empty(r)
    whole = 2.0 * g0
    lipschitz = np.sqrt(dot(g0, g0))
    for i in range(n):
        lipschitz += abs(mu[i])
        for c in range(r):
            whole[c] += mu[i] * rows[i, c]
    slack = 2.0 * SLACK * lipschitz
    state = np.array([0.0, threshold, 0.0])
    for circle in range(len(orders)):
        if not fill_frame(rows, subset, frame):
            _advance(subset, n)
            continue
        fill_coordinates(rows, subset, frame, lower)
        prepare_lifts(mu, subset, lower, usable, projector, axes)
        order = orders[circle]
        # the rows that are crossed, in the coordinates of the circle, turned to be positive behind their crossing
        for c in range(r):
            for q in range(m):
                columns[c, q] = rows[order[q], c]
        for i in range(r):
            line = heights[i, :m]
            for q in range(m):
                line[q] = 0.0
            axis = frame[k + i] if i < 2 else frame[i - 2]
            for c in range(r):
                add_multiple(line, axis[c], columns[c])
            total[i] = dot(whole, axis)
            for p in range(k):
                total[i] -= mu[subset[p]] * dot(rows[subset[p]], axis)
        for q in range(m):
            x, y = heights[0, q], heights[1, q]
            after[q] = -1.0 if x > 0.0 or (x == 0.0 and y < 0.0) else 1.0
            length = np.sqrt(x * x + y * y)
            cosine[q] = after[q] * y / length if length > 0.0 else 1.0
            sine[q] = -after[q] * x / length if length > 0.0 else 0.0
        for i in range(r):
            at = 0.0
            gradient[i, 0] = 0.0
            for q in range(m):
                heights[i, q] *= after[q]
                at += mu[order[q]] * heights[i, q]
                gradient[i, q + 1] = at
            # half a circle further every row has changed its side: the first and the last gradient sum to the total
            first = 0.5 * (total[i] - at)
            for q in range(m + 1):
                gradient[i, q] += first
            heights[i, m] = -heights[i, 0]
            for q in range(m):
                turned[q, i] = heights[i, q]
        for half in range(2):
            orient = 1.0 - 2.0 * half
            for i in range(r):
                shift = half * total[i]
                for q in range(m):
                    u[i, q] = gradient[i, q + 1] - shift
            if usable[0]:
                most, least = heights_at_crossings(values, u[0], u[1], cosine, sine)
                highest = max(most if usable[0] & MAXIMA else 0.0, -least if usable[0] & MINIMA else 0.0)
                if highest > min(state[BEST], state[THRESHOLD]):
                    for q in range(m):
                        v = values[q]
                        if not (usable[0] & MAXIMA if v > 0.0 else usable[0] & MINIMA):
                            continue
                        head = order[q]
                        # a vertex lies on r − 1 circles; one of them reports it
                        reports = abs(v) > state[THRESHOLD] and head > subset[k - 1]
                        if not reports and not abs(v) > state[BEST]:
                            continue
                        for c in range(r):
                            w[c] = orient * (cosine[q] * frame[k, c] + sine[q] * frame[k + 1, c])
                        if abs(v) > state[BEST]:
                            state[BEST] = abs(v)
                            _copy(w, top)
                        if reports:
                            for p in range(k):
                                normals[p] = subset[p]
                            normals[k] = head
                            # the formula wants the gradient with the vertex's own rows silent
                            at_side = q if (after[q] > 0.0) == (half == 0) else q + 1
                            for p in range(k):
                                a[p] = orient * (gradient[2 + p, at_side] - half * total[2 + p])
                            x = orient * (gradient[0, at_side] - half * total[0])
                            y = orient * (gradient[1, at_side] - half * total[1])
                            _to_space(frame, x, y, a, g)
                            sign = 1.0 if v > 0.0 else -1.0
                            if is_peak(rows, mu, normals[: k + 1], g, sign, lipschitz, work, factor):
                                record(found, value, state, w, v)
            for lifted in range(n_masks):
                allowed = usable[lifted]
                if allowed == 0:
                    continue
                prepare_arcs(projector[lifted], lower, u, heights, along, own, behind, ahead, square)
                plus, count = lifted, 0
                while True:
                    shift = shifts[count]
                    for p in range(k):
                        shift[p] = 0.0
                        sides[p] = (1.0 if plus >> p & 1 else -1.0) if lifted >> p & 1 else 0.0
                    for j in range(k):  # the lifted rows that are active there
                        if sides[j] * orient > 0.0:
                            for p in range(k):
                                shift[p] += orient * mu[subset[j]] * dot(projector[lifted, p], lower[j])
                    for p in range(k):
                        own_shift[p] = dot(lower[p], shift)
                    if count == 0:
                        for q in range(m):
                            marked[q] = 0
                    screen_arcs(
                        shift, sides, own_shift, heights, along, own, behind, ahead, square, slack, allowed,
                        min(state[BEST], state[THRESHOLD]), 1 << count, marked,
                    )  # fmt: skip
                    faces[count] = plus
                    count += 1
                    if plus == 0 or count == AT_ONCE:
                        for q in range(m):
                            for face in range(count):
                                if marked[q] >> face == 0:
                                    break
                                if marked[q] >> face & 1:
                                    point[0], point[1] = u[0, q], u[1, q]
                                    for p in range(k):
                                        point[2 + p] = along[p, q] + shifts[face, p]
                                    left = allowed & _sides(turned, point, q, slack)
                                    if left:
                                        _look(
                                            rows, mu, subset, frame, lower, turned, u, point, lifted, faces[face],
                                            left, orient, q, lipschitz, state, found, value, top, a, w, g, normals,
                                            work, factor,
                                        )  # fmt: skip
                        count = 0
                    if plus == 0:
                        break
                    plus = (plus - 1) & lifted
        _advance(subset, n)
    kept, _ = compact(found, value, int(state[COUNT]))
    return kept, state[BEST]


@njit(cache=True, nogil=True)
def _look(
    rows, mu, subset, frame, lower, turned, u, point, lifted, plus, left, orient, q,
    lipschitz, state, found, value, top, a, w, g, normals, work, factor,
):  # fmt: skip
    """Look at one face beside an arc: whether it holds the point, in an orientation that is left, and a maximum."""
    k = len(subset)
    length = np.sqrt(dot(point, point))
    if not length > min(state[BEST], state[THRESHOLD]):
        return
    tolerance = SLACK * length
    left &= _sides(turned, point, q, tolerance)
    for p in range(k):
        if lifted >> p & 1:
            t = dot(lower[p], point[2:])
            if not plus >> p & 1:
                t = -t
            if t < -tolerance:
                left &= MINIMA
            if t > tolerance:
                left &= MAXIMA
    if left == 0:
        return
    sign = 1.0 if left & MAXIMA else -1.0
    _to_space(frame, point[0], point[1], point[2:], w)
    for c in range(len(w)):
        w[c] *= orient * sign / length
    if length > state[BEST]:
        state[BEST] = length
        _copy(w, top)
    if length > state[THRESHOLD]:
        kept = 0
        # the gradient with the rows that stay at zero silent
        for p in range(k):
            a[p] = orient * u[2 + p, q]
        _to_space(frame, orient * u[0, q], orient * u[1, q], a, g)
        for p in range(k):
            i = subset[p]
            if not lifted >> p & 1:
                normals[kept] = i
                kept += 1
            elif (plus >> p & 1) == (orient > 0.0):
                for c in range(len(g)):
                    g[c] += mu[i] * rows[i, c]
        if is_peak(rows, mu, normals[:kept], g, sign, lipschitz, work, factor):
            record(found, value, state, w, sign * length)
