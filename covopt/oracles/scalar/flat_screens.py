"""What is asked of all arcs of a circle at once, in straight-line code, for :mod:`covopt.oracles.scalar.flat_walk`.

The two and three coordinates that circles have beside their plane in four and five dimensions are written out: there
the compiler sees that arcs do not depend on one another.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.scalar.flat_frames import MAXIMA, MINIMA, dot

FAST = {"nnan", "nsz", "contract"}  # of straight-line code: no sums are taken in another order


@njit(cache=True, nogil=True, fastmath=FAST)
def add_multiple(out, share, values):
    """Add a multiple of an array to another."""
    for k in range(len(out)):
        out[k] += share * values[k]


@njit(cache=True, nogil=True, fastmath=FAST)
def prepare_arcs(projector, lower, u, heights, along, own, behind, ahead, square):
    """Project the gradients of all arcs; write their products with the circle's rows and those that end the arcs."""
    k, m = along.shape
    x, y, h0, h1 = u[0], u[1], heights[0], heights[1]
    if k == 2:
        a, b, a0, a1 = u[2], u[3], along[0], along[1]
        h2, h3, own0, own1 = heights[2], heights[3], own[0], own[1]
        p00, p01, p11 = projector[0, 0], projector[0, 1], projector[1, 1]
        l00, l10, l11 = lower[0, 0], lower[1, 0], lower[1, 1]
        for q in range(m):
            s, t = p00 * a[q] + p01 * b[q], p01 * a[q] + p11 * b[q]
            a0[q], a1[q], own0[q], own1[q] = s, t, l00 * s, l10 * s + l11 * t
            square[q] = x[q] * x[q] + y[q] * y[q] + s * s + t * t
            behind[q] = x[q] * h0[q] + y[q] * h1[q] + s * h2[q] + t * h3[q]
            ahead[q] = x[q] * h0[q + 1] + y[q] * h1[q + 1] + s * h2[q + 1] + t * h3[q + 1]
        return
    if k == 3:
        a, b, c, a0, a1, a2 = u[2], u[3], u[4], along[0], along[1], along[2]
        h2, h3, h4, own0, own1, own2 = heights[2], heights[3], heights[4], own[0], own[1], own[2]
        p00, p01, p02 = projector[0, 0], projector[0, 1], projector[0, 2]
        p11, p12, p22 = projector[1, 1], projector[1, 2], projector[2, 2]
        l00, l10, l11, l20, l21, l22 = (
            lower[0, 0], lower[1, 0], lower[1, 1], lower[2, 0], lower[2, 1], lower[2, 2],
        )  # fmt: skip
        for q in range(m):
            s = p00 * a[q] + p01 * b[q] + p02 * c[q]
            t = p01 * a[q] + p11 * b[q] + p12 * c[q]
            v = p02 * a[q] + p12 * b[q] + p22 * c[q]
            a0[q], a1[q], a2[q] = s, t, v
            own0[q], own1[q], own2[q] = l00 * s, l10 * s + l11 * t, l20 * s + l21 * t + l22 * v
            square[q] = x[q] * x[q] + y[q] * y[q] + s * s + t * t + v * v
            behind[q] = x[q] * h0[q] + y[q] * h1[q] + s * h2[q] + t * h3[q] + v * h4[q]
            ahead[q] = x[q] * h0[q + 1] + y[q] * h1[q + 1] + s * h2[q + 1] + t * h3[q + 1] + v * h4[q + 1]
        return
    for q in range(m):
        square[q] = x[q] * x[q] + y[q] * y[q]
        behind[q] = x[q] * h0[q] + y[q] * h1[q]
        ahead[q] = x[q] * h0[q + 1] + y[q] * h1[q + 1]
    for p in range(k):
        line, height = along[p], heights[2 + p]
        for q in range(m):
            line[q] = 0.0
        for j in range(k):
            add_multiple(line, projector[p, j], u[2 + j])
        for q in range(m):
            square[q] += line[q] * line[q]
            behind[q] += line[q] * height[q]
            ahead[q] += line[q] * height[q + 1]
    for p in range(k):
        line = own[p]
        for q in range(m):
            line[q] = 0.0
        for j in range(p + 1):
            add_multiple(line, lower[p, j], along[j])


@njit(cache=True, nogil=True, fastmath=FAST)
def screen_arcs(
    shift, sides, own_shift, heights, along, own, behind, ahead, square, slack, allowed, level, bit, marked
):  # fmt: skip
    """Mark the arcs beside which a face may hold its own projected gradient, longer than the level.

    ``shift`` is what the active ones of the lifted rows add to it; ``sides`` are the lifted rows' signs, else 0.
    """
    k, m = along.shape
    floor = -slack if allowed & MAXIMA else np.inf
    ceiling = slack if allowed & MINIMA else -np.inf
    least = level * level - dot(shift, shift)
    if k == 2:
        c0, c1, s0, s1, d0, d1 = shift[0], shift[1], sides[0], sides[1], own_shift[0], own_shift[1]
        a0, a1, h0, h1, own0, own1 = along[0], along[1], heights[2], heights[3], own[0], own[1]
        for q in range(m):
            t0 = behind[q] + c0 * h0[q] + c1 * h1[q]
            t1 = -ahead[q] - c0 * h0[q + 1] - c1 * h1[q + 1]
            t2, t3 = s0 * (own0[q] + d0), s1 * (own1[q] + d1)
            low, high = min(t0, t1, t2, t3), max(t0, t1, t2, t3)
            long = square[q] + 2.0 * (c0 * a0[q] + c1 * a1[q]) > least
            marked[q] |= bit if long & ((low >= floor) | (high <= ceiling)) else 0
    elif k == 3:
        c0, c1, c2, s0, s1, s2 = shift[0], shift[1], shift[2], sides[0], sides[1], sides[2]
        d0, d1, d2, h0, h1, h2 = own_shift[0], own_shift[1], own_shift[2], heights[2], heights[3], heights[4]
        a0, a1, a2, own0, own1, own2 = along[0], along[1], along[2], own[0], own[1], own[2]
        for q in range(m):
            t0 = behind[q] + c0 * h0[q] + c1 * h1[q] + c2 * h2[q]
            t1 = -ahead[q] - c0 * h0[q + 1] - c1 * h1[q + 1] - c2 * h2[q + 1]
            t2, t3, t4 = s0 * (own0[q] + d0), s1 * (own1[q] + d1), s2 * (own2[q] + d2)
            low = min(t0, t1, t2, t3, t4)
            high = max(t0, t1, t2, t3, t4)
            long = square[q] + 2.0 * (c0 * a0[q] + c1 * a1[q] + c2 * a2[q]) > least
            marked[q] |= bit if long & ((low >= floor) | (high <= ceiling)) else 0
    else:
        for q in range(m):
            t0, t1, s = behind[q], -ahead[q], square[q]
            for p in range(k):
                t0 += shift[p] * heights[2 + p, q]
                t1 -= shift[p] * heights[2 + p, q + 1]
                s += 2.0 * shift[p] * along[p, q]
            low, high = min(t0, t1), max(t0, t1)
            for p in range(k):
                t = sides[p] * (own[p, q] + own_shift[p])
                low, high = min(low, t), max(high, t)
            marked[q] |= bit if (s > least) & ((low >= floor) | (high <= ceiling)) else 0


@njit(cache=True, nogil=True, fastmath=FAST)
def heights_at_crossings(values, x, y, cosine, sine):
    """Write F at the crossings; return the largest and the least, or zero."""
    most = 0.0
    least = 0.0
    for k in range(len(values)):
        v = x[k] * cosine[k] + y[k] * sine[k]
        values[k] = v
        most = max(most, v)
        least = min(least, v)
    return most, least
