"""The walk along great circles that :mod:`covopt.oracles.scalar.sphere` prices by, compiled.

Three passes over every circle. The first sums the gradient from arc to arc. The second asks of all arcs at once, in
straight-line code, whether they can hold anything above the level that matters: a few products in the coordinates of
the circle. The third looks closely at the few arcs that remain. What the second pass rules out by signs it rules out
by twice the slack that the third one allows, so it decides nothing that rounding could turn.
"""

from __future__ import annotations

import numpy as np
from numba import njit

EPS = np.finfo(float).eps
SIGN_TOLERANCE = 16 * EPS
ALLOWANCE = 64 * EPS
TIE = 1e-12  # crossings closer than this (radians) switch the local-maximum filter off
LEAST_SLOPE = 1e-15  # of a unit row along a circle that it crosses
FAST = {"nnan", "nsz", "contract"}  # of straight-line code: no sums are taken in another order


@njit(cache=True, nogil=True)
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(cache=True, nogil=True)
def _blur(lean, other):
    """Angle between two crossings that rounding can account for: 1/s ≤ 1 + |lean| for the sine s of two circles."""
    return SIGN_TOLERANCE * (2.0 + abs(lean) + abs(other))


@njit(cache=True, nogil=True)
def _add(total, error, a, term):
    """Compensated ``total[a] += term``."""
    new = total[a] + term
    shift = new - total[a]
    error[a] += (total[a] - (new - shift)) + (term - shift)
    total[a] = new


@njit(cache=True, nogil=True)
def sum_rows(linear, weighted):
    """Return 2·linear + Σ rows, compensated, as a sum and its error."""
    total, error = 2.0 * linear, np.zeros(3)
    for j in range(weighted.shape[0]):
        for a in range(3):
            _add(total, error, a, weighted[j, a])
    return total, error


@njit(cache=True, nogil=True)
def find_leans(rows, norms, first, second, order, cosine, sine, after, lean, tied, start, stop):
    """Write height over slope of every crossing row, and whether a circle has crossings too close to tell apart.

    Seen from circle i, the row that is crossed has a height along the circle's normal and a slope along the circle.
    """
    m = order.shape[1]
    for i in range(start, stop):
        tied[i] = False
        for k in range(m):
            j, c, s = order[i, k], cosine[i, k], sine[i, k]
            slope = c * _dot(rows[j], second[i]) - s * _dot(rows[j], first[i])
            slope = after[i, k] * max(abs(slope), LEAST_SLOPE * norms[j])
            lean[i, k] = _dot(rows[j], rows[i]) / norms[i] / slope
        for k in range(m):
            c, s, n = cosine[i, k], sine[i, k], (k + 1) % m
            cn, sn = (cosine[i, n], sine[i, n]) if k + 1 < m else (-cosine[i, 0], -sine[i, 0])
            near = max(2.0 * TIE, _blur(lean[i, k], lean[i, n]))
            if c * sn - s * cn <= near and c * cn + s * sn > 0.0:
                tied[i] = True


@njit(cache=True, nogil=True)
def _insert(found, found_value, count, i, w, scale, value):
    """Keep the few best candidates ``scale * w`` of circle i, sorted by absolute value."""
    k = count[i]
    if k == found.shape[1]:
        k -= 1
        if abs(value) <= abs(found_value[i, k]):
            return
    else:
        count[i] = k + 1
    while k > 0 and abs(found_value[i, k - 1]) < abs(value):
        found_value[i, k] = found_value[i, k - 1]
        for a in range(3):
            found[i, k, a] = found[i, k - 1, a]
        k -= 1
    found_value[i, k] = value
    for a in range(3):
        found[i, k, a] = scale * w[a]


@njit(cache=True, nogil=True)
def _holds_cell(rows, norms, i, e, sign, middle, slack):
    """Whether sign·e has the signs that the arc's middle has, on all rows but i, up to rounding."""
    for j in range(rows.shape[0]):
        if j != i:
            t = sign * _dot(rows[j], e)
            if abs(t) > slack * norms[j] and t * _dot(rows[j], middle) < 0.0:
                return False
    return True


@njit(cache=True, nogil=True)
def _vertex_is_peak(row_j, normal, kink, w, u, half, sign, slack):
    """Whether sign·F does not ascend from the vertex w along circle j, where its own row is silent."""
    d = np.empty(3)
    d[0] = row_j[1] * w[2] - row_j[2] * w[1]
    d[1] = row_j[2] * w[0] - row_j[0] * w[2]
    d[2] = row_j[0] * w[1] - row_j[1] * w[0]
    side = _dot(d, normal)
    along = _dot(d, u)
    if side < 0.0:
        side, along = -side, -along
    if half == 0:
        return sign * (along + kink * side) <= slack and -sign * along <= slack
    return sign * along <= slack and -sign * (along - kink * side) <= slack


@njit(cache=True, nogil=True)
def _sum_arcs(weighted, order, after, total, gradient):
    """Gradients (3, m + 1) of F on the arcs behind the crossings; entry 0 is the one before the first crossing.

    Half a circle further every other row has changed its activity: the first and the last gradient sum to the total.
    """
    m = len(order)
    at, error = np.zeros(3), np.zeros(3)
    for k in range(m):
        j = order[k]
        for a in range(3):
            _add(at, error, a, after[k] * weighted[j, a])
            gradient[a, k + 1] = at[a] + error[a]
    for a in range(3):
        base = 0.5 * (total[a] - gradient[a, m])
        gradient[a, 0] = 0.0
        for k in range(m + 1):
            gradient[a, k] += base


@njit(cache=True, nogil=True, fastmath=FAST)
def _along(gx, gy, gz, direction, shift, out):
    """Coordinates of the gradients along a direction, less a shift."""
    x, y, z = direction
    for k in range(len(out)):
        out[k] = gx[k] * x + gy[k] * y + gz[k] * z - shift


@njit(cache=True, nogil=True, fastmath=FAST)
def _screen_edges(
    x_in, y_in, x, y, cosine, sine, cosine_next, sine_next, kink, tied, threshold, level, slack, heights, marked
):  # fmt: skip
    """Mark crossings that may be peaks above the threshold and arcs whose best point may be above the level.

    x, y are coordinates of the gradient before and behind a crossing; ``heights`` becomes |F| at crossings where the
    circle may hold a maximum.
    """
    squared = level * level
    rising, falling = kink <= 0.0, kink >= 0.0
    for k in range(len(marked)):
        value = x[k] * cosine[k] + y[k] * sine[k]
        before, behind = y_in[k] * cosine[k] - x_in[k] * sine[k], y[k] * cosine[k] - x[k] * sine[k]
        ahead = y[k] * cosine_next[k] - x[k] * sine_next[k]
        height, bent = abs(value), value * kink <= 0.0
        heights[k] = height if bent else 0.0
        turning = ((value >= 0.0) & (before >= -slack) & (behind <= slack)) | (
            (value <= 0.0) & (before <= slack) & (behind >= -slack)
        )
        within = (rising & (behind >= -slack) & (ahead <= slack)) | (
            falling & (behind <= slack) & (ahead >= -slack)
        )
        marked[k] |= (bent & (height > threshold) & (turning | tied)) | (
            within & (x[k] * x[k] + y[k] * y[k] > squared)
        )


@njit(cache=True, nogil=True, fastmath=FAST)
def _screen_cells(
    x, y, z, cosine, sine, lean, upper, lower, chosen, level, slack, marked
):  # fmt: skip
    """Mark chosen arcs beside which a cell may hold its own gradient, longer than the level.

    Crossings k, k + 1, k + 2 come before arc k, the next three behind it. The height of a row at (x, y, z), divided
    by its slope along the circle where it is crossed, is the slope of (x, y, z) there plus ``lean`` times z.
    ``upper`` and ``lower`` are what the circle's own row adds to z in the cells beside.
    """
    squared = level * level
    c0, c1, c2, c3, c4, c5 = cosine[:-5], cosine[1:-4], cosine[2:-3], cosine[3:-2], cosine[4:-1], cosine[5:]
    s0, s1, s2, s3, s4, s5 = sine[:-5], sine[1:-4], sine[2:-3], sine[3:-2], sine[4:-1], sine[5:]
    l0, l1, l2, l3, l4, l5 = lean[:-5], lean[1:-4], lean[2:-3], lean[3:-2], lean[4:-1], lean[5:]
    for k in range(len(marked)):
        a, b = x[k], y[k]
        plane = a * a + b * b
        t0, t1, t2 = b * c0[k] - a * s0[k], b * c1[k] - a * s1[k], b * c2[k] - a * s2[k]
        t3, t4, t5 = b * c3[k] - a * s3[k], b * c4[k] - a * s4[k], b * c5[k] - a * s5[k]
        steepest = max(abs(l0[k]), abs(l1[k]), abs(l2[k]), abs(l3[k]), abs(l4[k]), abs(l5[k]))
        room = slack * (1.0 + steepest) * (1.0 + steepest)
        held = False
        for side in range(2):
            e = z[k] + (upper if side == 0 else lower)
            behind = min(t0 + e * l0[k], t1 + e * l1[k], t2 + e * l2[k])
            behind_most = max(t0 + e * l0[k], t1 + e * l1[k], t2 + e * l2[k])
            ahead = max(t3 + e * l3[k], t4 + e * l4[k], t5 + e * l5[k])
            ahead_least = min(t3 + e * l3[k], t4 + e * l4[k], t5 + e * l5[k])
            outwards = e if side == 0 else -e
            held |= (
                ((outwards >= -slack) & (behind >= -room) & (ahead <= room))
                | ((outwards <= slack) & (behind_most <= room) & (ahead_least >= -room))
            ) & (plane + e * e > squared)
        marked[k] |= held & chosen[k]


@njit(cache=True, nogil=True)
def _go_on(values, out):
    """Write values of half a circle to ``out[2:]``, with two before and three behind from the opposite half."""
    m = len(values)
    for k in range(m):  # entry by entry: numba compiles much more for a slice
        out[2 + k] = values[k]
    for k in range(2):
        out[k] = -values[max(m - 2 + k, 0)]
    for k in range(3):
        out[m + 2 + k] = -values[min(k, m - 1)]


@njit(cache=True, nogil=True, fastmath=FAST)
def _largest(values):
    largest = 0.0
    for value in values:
        largest = max(largest, value)
    return largest


@njit(cache=True, nogil=True)
def _look(
    rows, norms, mu, e1, e2, normal, order, cosine, sine, lean, total, gradient,
    threshold, rounding, i, k, running, found, found_value, count,
):  # fmt: skip
    """Look at the vertex k of circle i, the arc behind it and the cells beside, in both halves; see :func:`walk`."""
    m = len(order)
    u, e, w, middle = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    kink = mu[i] * norms[i]
    j, jn = order[k], order[(k + 1) % m]
    cv, sv, cn, sn = cosine[k], sine[k], cosine[k + 1], sine[k + 1]
    cb, sb = (cosine[k - 1], sine[k - 1]) if k > 0 else (-cosine[m - 1], -sine[m - 1])
    gap = cv * sn - sv * cn
    blur, before = _blur(lean[k], lean[k + 1]), _blur(lean[k], lean[k - 1] if k > 0 else lean[m - 1])
    # longer than a quarter of the circle: sin alone cannot tell 0 from π
    beyond = cv * cn + sv * sn < 0.0
    lone = gap > max(TIE, blur) and cb * sv - sb * cv > max(TIE, before)
    for half in range(2):
        orient = 1.0 - 2.0 * half
        for a in range(3):
            u[a] = gradient[a, k] - half * total[a]
        slope_in = _dot(u, e2) * cv - _dot(u, e1) * sv
        for a in range(3):
            u[a] = gradient[a, k + 1] - half * total[a]
        ux, uy, un = _dot(u, e1), _dot(u, e2), _dot(u, normal)

        value = ux * cv + uy * sv
        sign = 1.0 if value >= 0.0 else -1.0
        if sign * kink <= 0.0:
            running = max(running, abs(value))
            if abs(value) > threshold:
                slope_out = uy * cv - ux * sv
                for a in range(3):
                    w[a] = cv * e1[a] + sv * e2[a]
                if not lone or (
                    i < j
                    and sign * mu[j] <= 0.0
                    and sign * slope_in >= -rounding
                    and sign * slope_out <= rounding
                    and _vertex_is_peak(
                        rows[j], normal, kink, w, u, half, sign, rounding * max(1.0, norms[j])
                    )
                ):
                    _insert(found, found_value, count, i, w, orient, value)

        if (
            gap <= blur and not beyond
        ):  # crossings that may as well be one: what is between them may not exist
            continue
        for want in range(2):
            sign = 1.0 - 2.0 * want
            inside = min(sign * (cv * uy - sv * ux), sign * (ux * sn - uy * cn))
            if sign * kink <= 0.0 and inside >= -rounding:
                value = np.sqrt(ux * ux + uy * uy)
                running = max(running, value)
                # away from the circle, on either side, sign·F must not ascend
                up = sign * (un + (1 - half) * kink)
                down = sign * (half * kink - un)
                slack = SIGN_TOLERANCE * (abs(un) + abs(kink)) + rounding
                if value > threshold and inside >= 0.0 and up <= slack and down <= slack:
                    for a in range(3):
                        w[a] = ux * e1[a] + uy * e2[a]
                    _insert(found, found_value, count, i, w, orient * sign / value, sign * value)

        for a in range(3):
            if beyond:  # the ends turned inwards by a quarter do not cancel on half a circle
                middle[a] = (sn - sv) * e1[a] + (cv - cn) * e2[a]
            else:
                middle[a] = (cv + cn) * e1[a] + (sv + sn) * e2[a]
        for side in range(2):  # the cell where z_i·w is positive (0) or negative (1)
            own = mu[i] if side == half else 0.0
            own = -own if half == 1 else own
            for a in range(3):
                e[a] = u[a] + own * rows[i, a]
            square = _dot(e, e)
            if square <= running * running and square <= threshold * threshold:
                continue
            length = np.sqrt(square)
            sharp = SIGN_TOLERANCE * length
            slack = max(sharp, rounding)
            across = _dot(e, normal) * (1.0 - 2.0 * side)
            sign = 1.0 if across >= 0.0 else -1.0
            for turn in range(2):
                if turn == 1:  # on the circle to rounding, so that either sign may be right
                    if abs(across) > slack:
                        break
                    sign = -sign
                t = sign * _dot(e, rows[j])
                if t * _dot(middle, rows[j]) < 0.0 and abs(t) > slack * norms[j]:
                    continue
                t = sign * _dot(e, rows[jn])
                if t * _dot(middle, rows[jn]) < 0.0 and abs(t) > slack * norms[jn]:
                    continue
                if _holds_cell(rows, norms, i, e, sign, middle, slack):
                    running = max(running, length)
                    sharply = turn == 0 and length > threshold
                    if sharply and _holds_cell(rows, norms, i, e, sign, middle, sharp):
                        _insert(found, found_value, count, i, e, orient * sign / length, sign * length)
    return running


@njit(cache=True, nogil=True)
def walk(
    rows, norms, first, second, order, cosine, sine, after, lean, tied, mu, weighted, whole, error, rounding,
    threshold, start, stop, found, found_value, count, best,
):  # fmt: skip
    """Walk circles ``start … stop - 1`` and note their peaks; ``best[i]`` becomes the largest |F| seen up to i.

    ``half`` 0 is the walked half circle, where F(w) = ⟨u, w⟩; half 1 its antipode, where F(−w) = ⟨u, w⟩
    with the shifted u. All tests are made at w, and ``orient`` turns the result to its own half.
    """
    m = rows.shape[0] - 1
    gradient, heights = np.empty((3, m + 1)), np.empty(m)
    x, y, z = np.empty(m + 1), np.empty(m + 1), np.empty(m + 1)
    c, s, leans, crossed = np.empty(m + 5), np.empty(m + 5), np.empty(m + 5), np.empty(m + 1, dtype=np.int32)
    marked, chosen = np.empty(m, dtype=np.bool_), np.empty(m, dtype=np.bool_)
    total, total_error, normal = np.empty(3), np.empty(3), np.empty(3)
    running, slack = 0.0, 2.0 * rounding
    for i in range(start, stop):
        e1, e2 = first[i], second[i]
        kink = mu[i] * norms[i]
        for a in range(3):
            normal[a] = rows[i, a] / norms[i]
            total[a], total_error[a] = whole[a], error[a]
            _add(total, total_error, a, -weighted[i, a])
            total[a] += total_error[a]
        _sum_arcs(weighted, order[i], after[i], total, gradient)
        _go_on(cosine[i], c)
        _go_on(sine[i], s)
        _go_on(lean[i], leans)
        for k in range(m):
            crossed[k] = order[i, k]
        crossed[m] = order[i, 0]
        # a cell is looked at from its edge of least index: its neighbours on the circle bound the cell as well
        for k in range(m):
            chosen[k] = tied[i] | ((i < crossed[k]) & (i < crossed[k + 1]))
            marked[k] = m < 3  # too few crossings to look back and ahead
        level = min(running, threshold)
        for half in range(2):
            _along(gradient[0], gradient[1], gradient[2], e1, half * _dot(total, e1), x)
            _along(gradient[0], gradient[1], gradient[2], e2, half * _dot(total, e2), y)
            _along(gradient[0], gradient[1], gradient[2], normal, half * _dot(total, normal), z)
            _screen_edges(
                x[:m], y[:m], x[1:], y[1:], c[2:-3], s[2:-3], c[3:-2], s[3:-2],
                kink, tied[i], threshold, level, slack, heights, marked,
            )  # fmt: skip
            running = max(running, _largest(heights))
            upper, lower = (kink, 0.0) if half == 0 else (0.0, -kink)
            _screen_cells(x[1:], y[1:], z[1:], c, s, leans, upper, lower, chosen, level, slack, marked)
        for k in range(m):
            if marked[k]:
                running = _look(
                    rows, norms, mu, e1, e2, normal, order[i], c[2:-2], s[2:-2], leans[2:-2], total, gradient,
                    threshold, rounding, i, k, running, found, found_value, count,
                )  # fmt: skip
        best[i] = running
