r"""Vector pricing in three dimensions by walking every great circle, for more rows than a table of faces can hold.

As in :mod:`covopt.oracles.scalar.sphere` the crossings on each circle are sorted once, and one walk over half a
circle sees both antipodal arcs; it carries the map M (k × 3, compensated sums) instead of the gradient: on the
antipodal arc M' = 2L + Σ_{j≠i} μ_j z_jᵀ − M. Arcs are priced by the top eigenvector of a 2 × 2 form, cells by that of
a 3 × 3 form.
A cell is a convex polygon, so some arc of it has a smaller row than the two arcs beside it: only from such arcs a
cell is priced (from all of its arcs where more than two circles meet, there the next arc is not the next crossing).

Nearly everything is ruled out for all arcs of a circle at once, with derived margins
(:mod:`covopt.oracles.vector.circle_screens`).

What counts, what is in doubt and why is told in :mod:`covopt.oracles.vector_faces`. Where every three unit rows have
a volume above 10⁻¹² order and signs are right, all arcs are longer than SLIP, and a crossing of two circles is off by
at most 16u/s, s the sine of their angle (:mod:`covopt.oracles.conditioning`). An arc's end tolerates SLIP/s, eight
times as much, and a row's height SLIP. The map before the first crossing is half of the sum of both ends, and a map
is off by 10u S, S = ‖L‖ + Σ‖μ_j‖‖z_j‖; frames are orthonormal to 8u: both are inside the map's error. What ``worst``
adds to the gap of a piece in doubt is what the form of a vertex may be off by.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.vector.circle_maps import go_on, sum_maps, sum_rows, take
from covopt.oracles.vector.circle_screens import (
    add_heights,
    add_products,
    along,
    screen_cells,
    screen_edges,
    screen_forms,
)
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
def find_chosen(order, cosine, sine, part, chosen, start, stop):
    """Whether an arc of circles ``start … stop − 1`` is the one from which the cells beside it are priced."""
    m = order.shape[1]
    for i in range(start, stop):
        for q in range(m):
            ahead = q + 1 if q + 1 < m else 0
            here, there, _ = _ties(cosine[i], sine[i], part[i], q)
            chosen[i, q] = here or there or (i < order[i, q] and i < order[i, ahead])


@njit(cache=True, nogil=True)
def _ties(cosine, sine, part, q):
    """Whether the ends of arc q are crossings whose order rounding could have changed, and the sine of its length."""
    m = len(cosine)
    cv, sv = cosine[q], sine[q]
    ahead = q + 1 if q + 1 < m else 0
    turned = 1.0 if q + 1 < m else -1.0
    cn, sn = turned * cosine[ahead], turned * sine[ahead]
    beyond = ahead + 1 if ahead + 1 < m else 0
    over = turned if ahead + 1 < m else -turned
    cb, sb = over * cosine[beyond], over * sine[beyond]
    last = q - 1 if q > 0 else m - 1
    turned = 1.0 if q > 0 else -1.0
    cp, sp = turned * cosine[last], turned * sine[last]
    gap = cv * sn - sv * cn
    blur = max(TIE, BLUR / min(part[q], part[ahead]))
    here = gap <= blur or cp * sv - sp * cv <= max(blur, BLUR / part[last])
    there = gap <= blur or cn * sb - sn * cb <= max(blur, BLUR / part[beyond])
    return here, there, gap


@njit(cache=True, nogil=True)
def walk_circles(
    rows, lengths, first, second, order, cosine, sine, after, part, lean, chosen, mu, linear, threshold, map_error,
    worst, blur, start, stop, state, found, best_point, doubts,
):  # fmt: skip
    """Walk circles ``start … stop − 1``; fills ``state`` (see the constants), points, and doubts.

    ``blur`` is above what rounding may change a form by; see :mod:`covopt.oracles.vector.circle_screens`.
    """
    n, k = mu.shape
    m = n - 1
    maps = np.empty((k, 3, m))
    whole, error = np.empty((k, 3)), np.empty((k, 3))
    sum_rows(rows, mu, linear, whole, error)
    x, y, z = np.empty((k, m)), np.empty((k, m)), np.empty((k, m))
    xx, xy, yy, beside = np.empty(m), np.empty(m), np.empty(m), np.empty((3, m))
    cosines, sines, leans = np.empty(m + 5), np.empty(m + 5), np.empty(m + 5)
    earlier, marked = np.empty(m, dtype=np.bool_), np.empty((2, m), dtype=np.bool_)
    normal, step, signs = np.empty(3), np.empty(k), np.empty(n)
    for i in range(start, stop):
        e1, e2 = first[i], second[i]
        total, missed = whole.copy(), error.copy()
        take(total, missed, rows[i], mu[i], -1.0)
        sum_maps(rows, mu, order[i], after[i], total, missed, maps)
        go_on(cosine[i], cosines)
        go_on(sine[i], sines)
        go_on(lean[i], leans)
        for c in range(3):
            normal[c] = rows[i, c] / lengths[i]
        for p in range(k):
            step[p] = mu[i, p] * lengths[i]
        for q in range(m):
            earlier[q] = i < order[i, q]
        floor = min(state[BEST] * (1.0 - 1e-9), threshold)
        squared, slip = floor * floor, SLIP / part[i].min()
        for half in range(2):
            if half == 1:
                for p in range(k):
                    for c in range(3):
                        for q in range(m):
                            maps[p, c, q] = total[p, c] + missed[p, c] - maps[p, c, q]
            xx[:] = 0.0
            xy[:] = 0.0
            yy[:] = 0.0
            for p in range(k):
                along(maps[p], e1, x[p])
                along(maps[p], e2, y[p])
                along(maps[p], normal, z[p])
                add_products(x[p], y[p], xx, xy, yy)
            marked[half] = m < 3  # too few crossings to look back and ahead
            screen_edges(
                xx, xy, yy, cosines[2:-3], sines[2:-3], cosines[3:-2], sines[3:-2], earlier,
                squared, slip, blur, marked[half],
            )  # fmt: skip
            if k == 2:
                screen_cells(
                    x[0], x[1], y[0], y[1], z[0], z[1], cosines, sines, leans, step[0], step[1], 1.0 - 2.0 * half,
                    chosen[i], squared, blur, marked[half],
                )  # fmt: skip
            else:
                for own in range(2):
                    beside[:] = 0.0
                    for p in range(k):
                        add_heights(x[p], y[p], z[p], own * step[p], beside[0], beside[1], beside[2])
                    screen_forms(
                        xx, xy, yy, beside[0], beside[1], beside[2], cosines, sines, leans,
                        (2.0 * own - 1.0) * (1.0 - 2.0 * half), chosen[i], squared, blur, marked[half],
                    )  # fmt: skip
            for q in range(m):
                if marked[half, q]:
                    _look(
                        rows, lengths, e1, e2, order[i], cosine[i], sine[i], after[i], part[i], chosen[i, q], mu,
                        maps[:, :, q].copy(), threshold, map_error, worst, i, q, 1.0 - 2.0 * half, signs,
                        linear, state, found, best_point, doubts,
                    )  # fmt: skip


@njit(cache=True, nogil=True)
def _look(
    rows, lengths, e1, e2, order, cosine, sine, after, part, prices_cells, mu, here, threshold, map_error, worst,
    i, q, side, signs, linear, state, found, best_point, doubts,
):  # fmt: skip
    """Look at the vertex q of circle i, the arc behind it and the cells beside, on one half (``side`` 1 or −1)."""
    n, k = mu.shape
    m = n - 1
    j = order[q]
    ahead = q + 1 if q + 1 < m else 0
    turned = 1.0 if q + 1 < m else -1.0
    cv, sv, cn, sn = cosine[q], sine[q], turned * cosine[ahead], turned * sine[ahead]
    w, image, scratch = np.empty(3), np.empty(k), np.empty(k)
    tied_here, _, gap = _ties(cosine, sine, part, q)
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
                    if side * after[q] > 0.0:  # the formula wants row j silent
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
    flat, form2, vectors2, v2 = np.empty((k, 2)), np.empty((2, 2)), np.empty((2, 2)), np.empty(2)
    trace = 0.0
    for p in range(k):
        flat[p, 0] = here[p, 0] * e1[0] + here[p, 1] * e1[1] + here[p, 2] * e1[2]
        flat[p, 1] = here[p, 0] * e2[0] + here[p, 1] * e2[1] + here[p, 2] * e2[2]
        trace += flat[p, 0] ** 2 + flat[p, 1] ** 2
    if trace > floor * floor:
        top, other, share = top_pair(flat, form2, vectors2, v2)
        turn, doubt = _errors(top, other, share, trace, map_error, worst)
        x = cv * v2[1] - sv * v2[0]
        y = v2[0] * sn - v2[1] * cn
        sign = 1.0 if min(x, y) >= min(-x, -y) else -1.0
        x, y = sign * x, sign * y
        slip = SLIP / min(part[q], part[ahead])
        if top > floor * floor and min(x, y) >= -slip - turn:
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
                along_row, kink = _slope(here, image, mu[i], rows[i], w)
                share = along_row / lengths[i] ** 2
                slack = 64.0 * map_error / lengths[i] + 1e-9 * abs(kink)
                if share >= -slack and share + kink <= slack:
                    _report(state, found, w, 1.0)

    # the two cells beside it
    if gap <= SLIP or not prices_cells:
        return
    cell, form3, vectors3, v3 = np.empty((k, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for x in range(m):
        signs[order[x]] = after[x] if x <= q else -after[x]
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
