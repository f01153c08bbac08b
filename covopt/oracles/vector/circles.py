r"""Vector pricing in three dimensions by walking every great circle, for more rows than a table of faces can hold.

As in :mod:`covopt.oracles.scalar.sphere` the crossings on each circle are sorted once, and one walk over half a
circle sees both antipodal arcs; it carries the map M (k × 3, compensated sums) instead of the gradient: on the
antipodal arc M' = 2L + Σ_{j≠i} μ_j z_jᵀ − M. Arcs are priced by the top eigenvector of a 2 × 2 form, cells by that of
a 3 × 3 form.
A cell is a convex polygon, so some arc of it has a smaller row than the two arcs beside it: only from such arcs a
cell is priced (from all of its arcs where more than two circles meet, there the next arc is not the next crossing).

What counts, what is in doubt and why is told in :mod:`covopt.oracles.vector_faces`. Where rows are clear, order and
signs are right, and a crossing of two circles is off by at most 16u/s, s the sine of their angle
(:mod:`covopt.oracles.scalar.sphere`); an arc's end tolerates SLIP/s, eight times as much, and a row's height SLIP.
Frames are orthonormal to 8u, which is inside the map's error. What ``worst`` adds to the gap of a piece in doubt is
what the form of a vertex may be off by.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.vector.face_kernel import top_pair

SLIP = 2.0**-46
TIE = 1e-10
BLUR = 1e-13
INTERIOR = 1e-12
BEST, SETTLED, FOUND, DOUBTS = 0, 1, 2, 3  # entries of ``state``


@njit(cache=True, nogil=True)
def _value(rows, mu, linear, w, image):
    """‖G(w)‖, from the rows."""
    k = mu.shape[1]
    for p in range(k):
        image[p] = linear[p, 0] * w[0] + linear[p, 1] * w[1] + linear[p, 2] * w[2]
    for i in range(len(rows)):
        t = rows[i, 0] * w[0] + rows[i, 1] * w[1] + rows[i, 2] * w[2]
        if t > 0.0:
            for p in range(k):
                image[p] += mu[i, p] * t
    s = 0.0
    for p in range(k):
        s += image[p] * image[p]
    return np.sqrt(s)


@njit(cache=True, nogil=True)
def _slope(gradient, image, mu_i, row, w):
    """Along a row: p·M z (p = image/‖image‖, M w the image; the part along w taken off) and the kink p·μ_i."""
    length = 0.0
    kink = 0.0
    for p in range(len(image)):
        length += image[p] * image[p]
        kink += image[p] * mu_i[p]
    length = np.sqrt(length)
    along = 0.0
    across = 0.0
    for c in range(3):
        g = 0.0
        for p in range(len(image)):
            g += gradient[p, c] * image[p]
        g /= length
        along += g * row[c]
        across += row[c] * w[c]
    return along - across * length, kink / length


@njit(cache=True, nogil=True)
def _area_squared(a, b):
    """Return ‖a × b‖²."""
    x, y, z = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
    return x * x + y * y + z * z


@njit(cache=True, nogil=True)
def _report(state, found, w, sign):
    """Append sign · w to the points found; what does not fit is left out."""
    count = int(state[FOUND])
    if count < len(found):
        for c in range(3):
            found[count, c] = sign * w[c]
        state[FOUND] = count + 1


@njit(cache=True, nogil=True)
def _settle(state, top, doubt, w, sign, surely, rows, mu, linear, map_error, best_point, doubts, image):
    """Count a piece's maximum at sign · w, or note its doubt; a full list counts it, which is valid too."""
    v = np.empty(3)
    for c in range(3):
        v[c] = sign * w[c]
    value = _value(rows, mu, linear, v, image)
    if value > state[BEST]:
        state[BEST] = value
        best_point[:] = v
    if top <= state[SETTLED]:
        return value
    count = int(state[DOUBTS])
    if surely or value * value >= top - 2.0 * map_error * np.sqrt(top) or count == len(doubts):
        state[SETTLED] = top
    else:
        doubts[count, 0] = top
        doubts[count, 1] = doubt
        state[DOUBTS] = count + 1
    return value


@njit(cache=True, nogil=True)
def _errors(top, other, share, trace, map_error, worst):
    """Return what the eigenvector may be off by, and what a descent from a piece in doubt may lose."""
    wrong = (2.0 * np.sqrt(top) + map_error) * map_error + 2.0 * share * trace
    turn = min(2.0, 2.0 * wrong / (top - other)) if top - other > 8.0 * wrong else 2.0
    return turn + share, top - other + 4.0 * wrong + 2.0 * (2.0 * np.sqrt(top) + worst) * worst


@njit(cache=True, nogil=True)
def walk_circles(
    rows, lengths, first, second, order, cosine, sine, after, part, mu, linear, threshold, map_error, worst,
    start, stop, state, found, best_point, doubts,
):  # fmt: skip
    """Walk circles ``start … stop − 1``; fills ``state`` (see the constants), points, and doubts."""
    n = len(rows)
    m = n - 1
    k = mu.shape[1]
    maps = np.empty((k, 3))
    lost = np.empty((k, 3))
    total = np.empty((k, 3))
    missed = np.empty((k, 3))
    here = np.empty((k, 3))
    cell = np.empty((k, 3))
    flat = np.empty((k, 2))
    form2, vectors2, v2 = np.empty((2, 2)), np.empty((2, 2)), np.empty(2)
    form3, vectors3, v3 = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    w, image, scratch = np.empty(3), np.empty(k), np.empty(k)
    signs = np.empty(n)
    for i in range(start, stop):
        e1, e2 = first[i], second[i]
        for p in range(k):
            for c in range(3):
                maps[p, c] = linear[p, c]
                lost[p, c] = 0.0
                total[p, c] = 2.0 * linear[p, c]
                missed[p, c] = 0.0
        for q in range(m):
            j = order[i, q]
            signs[j] = -after[i, q]
            for p in range(k):
                for c in range(3):
                    term = mu[j, p] * rows[j, c]
                    new = total[p, c] + term
                    shift = new - total[p, c]
                    missed[p, c] += (total[p, c] - (new - shift)) + (term - shift)
                    total[p, c] = new
                    if signs[j] > 0.0:
                        new = maps[p, c] + term
                        shift = new - maps[p, c]
                        lost[p, c] += (maps[p, c] - (new - shift)) + (term - shift)
                        maps[p, c] = new
        for q in range(m):
            j = order[i, q]
            cv, sv = cosine[i, q], sine[i, q]
            ahead = q + 1 if q + 1 < m else 0
            turned = 1.0 if q + 1 < m else -1.0
            jn, cn, sn = order[i, ahead], turned * cosine[i, ahead], turned * sine[i, ahead]
            beyond = ahead + 1 if ahead + 1 < m else 0
            over = turned if ahead + 1 < m else -turned
            cb, sb = over * cosine[i, beyond], over * sine[i, beyond]
            last = q - 1 if q > 0 else m - 1
            turned = 1.0 if q > 0 else -1.0
            cp, sp = turned * cosine[i, last], turned * sine[i, last]
            gap = cv * sn - sv * cn
            length = 2.0  # of the arc, from above: (π/2) sin θ where θ is below a right angle
            if cv * cn + sv * sn > 0.0:
                length = 1.58 * abs(gap) + SLIP / part[i, q] + SLIP / part[i, ahead]
            # crossings whose order rounding could have changed
            blur = max(TIE, BLUR / min(part[i, q], part[i, ahead]))
            tied_here = gap <= blur or cp * sv - sp * cv <= max(blur, BLUR / part[i, last])
            tied_ahead = gap <= blur or cn * sb - sn * cb <= max(blur, BLUR / part[i, beyond])
            signs[j] = after[i, q]
            for p in range(k):
                for c in range(3):
                    term = after[i, q] * mu[j, p] * rows[j, c]
                    new = maps[p, c] + term
                    shift = new - maps[p, c]
                    lost[p, c] += (maps[p, c] - (new - shift)) + (term - shift)
                    maps[p, c] = new
            for half in range(2):
                side = 1.0 - 2.0 * half
                for p in range(k):
                    for c in range(3):
                        x = maps[p, c] + lost[p, c]
                        here[p, c] = x if half == 0 else total[p, c] + missed[p, c] - x
                floor = min(state[BEST] * (1.0 - 1e-9), threshold)

                # the vertex where the arc begins
                if i < j:
                    s = 0.0
                    for c in range(3):
                        w[c] = side * (cv * e1[c] + sv * e2[c])
                    for p in range(k):
                        image[p] = here[p, 0] * w[0] + here[p, 1] * w[1] + here[p, 2] * w[2]
                        s += image[p] * image[p]
                    if s > floor * floor:
                        state[SETTLED] = max(state[SETTLED], s)
                        value = np.sqrt(s)
                        if value > state[BEST]:
                            state[BEST] = value
                            best_point[:] = w
                        if value >= threshold and value > 4.0 * map_error:
                            peak = True
                            # (‖z_i‖‖z_j‖)² − (z_i·z_j)² would vanish for rows 1e-8 apart
                            det = _area_squared(rows[i], rows[j])
                            if not tied_here and det > 0.0:
                                ai, kink_i = _slope(here, image, mu[i], rows[i], w)
                                aj, kink_j = _slope(here, image, mu[j], rows[j], w)
                                cross = 0.0
                                for c in range(3):
                                    cross += rows[i, c] * rows[j, c]
                                if side * signs[j] > 0.0:  # the formula wants row j silent
                                    ai -= kink_j * cross
                                    aj -= kink_j * lengths[j] ** 2
                                share_i = (ai * lengths[j] ** 2 - aj * cross) / det
                                share_j = (aj * lengths[i] ** 2 - ai * cross) / det
                                slack = 64.0 * map_error * lengths[i] * lengths[j] / det
                                slack_i = slack * lengths[j] + 1e-9 * abs(kink_i)
                                slack_j = slack * lengths[i] + 1e-9 * abs(kink_j)
                                peak = (
                                    share_i >= -slack_i
                                    and share_i + kink_i <= slack_i
                                    and share_j >= -slack_j
                                    and share_j + kink_j <= slack_j
                                )
                            if peak:
                                _report(state, found, w, 1.0)

                # the arc
                trace, s = 0.0, 0.0
                for p in range(k):
                    flat[p, 0] = here[p, 0] * e1[0] + here[p, 1] * e1[1] + here[p, 2] * e1[2]
                    flat[p, 1] = here[p, 0] * e2[0] + here[p, 1] * e2[1] + here[p, 2] * e2[2]
                    trace += flat[p, 0] ** 2 + flat[p, 1] ** 2
                    s += (cv * flat[p, 0] + sv * flat[p, 1]) ** 2
                # from the arc's beginning a value grows by the map's norm times the arc's length at most
                if trace > floor * floor and np.sqrt(s) + np.sqrt(trace) * length > floor:
                    top, other, share = top_pair(flat, form2, vectors2, v2)
                    if top > floor * floor:
                        turn, doubt = _errors(top, other, share, trace, map_error, worst)
                        x = cv * v2[1] - sv * v2[0]
                        y = v2[0] * sn - v2[1] * cn
                        sign = 1.0 if min(x, y) >= min(-x, -y) else -1.0
                        x, y = sign * x, sign * y
                        slip = SLIP / min(part[i, q], part[i, ahead])
                        if min(x, y) >= -slip - turn:
                            for c in range(3):
                                w[c] = v2[0] * e1[c] + v2[1] * e2[c]
                            value = _settle(
                                state, top, doubt, w, sign * side, min(x, y) >= -slip,
                                rows, mu, linear, map_error, best_point, doubts, scratch,
                            )  # fmt: skip
                            if (
                                min(x, y) > INTERIOR
                                and value >= threshold
                                and value > 4.0 * map_error
                                and abs(value - np.sqrt(top)) <= 1e-9 * value
                            ):
                                for c in range(3):
                                    w[c] *= sign * side
                                for p in range(k):
                                    image[p] = here[p, 0] * w[0] + here[p, 1] * w[1] + here[p, 2] * w[2]
                                along, kink = _slope(here, image, mu[i], rows[i], w)
                                share = along / lengths[i] ** 2
                                slack = 64.0 * map_error / lengths[i] + 1e-9 * abs(kink)
                                if share >= -slack and share + kink <= slack:
                                    _report(state, found, w, 1.0)

                # the two cells beside it
                if gap <= SLIP or not (tied_here or tied_ahead or (i < j and i < jn)):
                    continue
                for own in range(2):  # whether row i is active
                    trace = 0.0
                    for p in range(k):
                        for c in range(3):
                            cell[p, c] = here[p, c] + own * mu[i, p] * rows[i, c]
                            trace += cell[p, c] ** 2
                    floor = min(state[BEST] * (1.0 - 1e-9), threshold)
                    if trace <= floor * floor:
                        continue
                    top, other, share = top_pair(cell, form3, vectors3, v3)
                    if top <= floor * floor:
                        continue
                    turn, doubt = _errors(top, other, share, trace, map_error, worst)
                    reach = SLIP + turn
                    signs[i] = side * (2.0 * own - 1.0)
                    plus, minus = np.inf, np.inf
                    for row in range(n):
                        t = rows[row, 0] * v3[0] + rows[row, 1] * v3[1] + rows[row, 2] * v3[2]
                        t *= side * signs[row] / lengths[row]
                        plus = min(plus, t)
                        minus = min(minus, -t)
                        if plus < -reach and minus < -reach:
                            break
                    if plus < -reach and minus < -reach:
                        continue
                    sign = 1.0 if plus >= minus else -1.0
                    margin = max(plus, minus)
                    value = _settle(
                        state, top, doubt, v3, sign, margin >= -SLIP,
                        rows, mu, linear, map_error, best_point, doubts, scratch,
                    )  # fmt: skip
                    if margin > INTERIOR and value >= threshold and value > 4.0 * map_error:
                        _report(state, found, v3, sign)
