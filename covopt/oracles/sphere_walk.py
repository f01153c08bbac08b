"""The walk along great circles behind :mod:`covopt.oracles.sphere`: a compiled screen, then a close look.

Two passes over every circle are compiled. The first sums the gradient from arc to arc. The second tests all arcs at
once, in straight-line code, for values above the level that matters: a few products in the coordinates of the circle.
The remaining arcs are examined closely, all at once (:func:`look`). Where the screen rules out by signs it uses twice
the slack of the look, so its rounding decides nothing.

The walk covers half a circle, ``half`` 0, where F(w) = ⟨u, w⟩; half 1 is its antipode, where F(−w) = ⟨u, w⟩ with the
shifted u. All tests are made at w, and ``orient`` turns the result to its own half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from covopt.exact.rank import COMPUTED
from covopt.exact.rounding import EPS

SIGN_TOLERANCE = 16 * EPS
FAST = {"nnan", "nsz", "contract"}  # for straight-line code: no flag that reorders sums


@dataclass(frozen=True)
class Circles:
    """Circles in three dimensions with their crossings, m = n − 1 on each half circle.

    Attributes
    ----------
    rows : ndarray of shape (n, 3)
    norms : ndarray of shape (n,)
    frames : ndarray of shape (n, 3, 3)
        e₁, e₂ and the unit normal of each circle.
    order : int32 ndarray of shape (n, m)
        Row that is crossed.
    cosine, sine : ndarray of shape (n, m)
        Of the angle of the crossing.
    after : int8 ndarray of shape (n, m)
        Sign of that row just behind the crossing.
    lean : ndarray of shape (n, m)
        Component of the crossed row along the circle's normal, divided by its slope along the circle.
    lone : ndarray of shape (n, m), bool
        Crossings that can be told from both their neighbours.
    merged : ndarray of shape (n, m), bool
        Crossings that may coincide with the next one, so that the arc between may not exist.
    tied : ndarray of shape (n,), bool
        Circles with crossings too close to tell apart.
    """

    rows: np.ndarray
    norms: np.ndarray
    frames: np.ndarray
    order: np.ndarray
    cosine: np.ndarray
    sine: np.ndarray
    after: np.ndarray
    lean: np.ndarray
    lone: np.ndarray
    merged: np.ndarray
    tied: np.ndarray


def find_leans(rows, norms, frames, order, cosine, sine, after):
    """Return ``lean``, ``lone``, ``merged`` and ``tied`` of some circles, given by their frames."""
    x, y, height = (np.take_along_axis(frames[:, a] @ rows.T, order, axis=1) for a in range(3))
    slope = after * np.maximum(np.abs(cosine * y - sine * x), EPS * norms[order])
    lean = height / slope
    turned = [np.concatenate([each[:, 1:], -each[:, :1]], axis=1) for each in (cosine, sine)]
    # bound on the rounding error of the angle: 1/s ≤ 1 + |lean| for the sine s of two circles
    blur = SIGN_TOLERANCE * (2.0 + np.abs(lean) + np.abs(np.roll(lean, -1, axis=1)))
    gap, ahead = cosine * turned[1] - sine * turned[0], cosine * turned[0] + sine * turned[1] > 0.0
    clear = gap > np.maximum(COMPUTED, blur)
    lone = clear & np.roll(clear, 1, axis=1)
    tied = ((gap <= np.maximum(2.0 * COMPUTED, blur)) & ahead).any(axis=1)
    return lean, lone, (gap <= blur) & ahead, tied


def sum_rows(linear, weighted):
    """Return 2·linear + Σ rows, compensated, as a sum and its error."""
    terms = np.concatenate([2.0 * linear[None], weighted])
    sums = np.cumsum(terms, axis=0)
    before, new = np.concatenate([np.zeros((1, 3)), sums[:-1]]), sums
    shift = new - before
    return sums[-1], ((before - (new - shift)) + (terms - shift)).sum(axis=0)


@njit(cache=True, nogil=True, fastmath=FAST)
def _screen_edges(x, y, c, s, kink, tied, threshold, level, slack, marked):
    """Mark crossings that may be peaks above the threshold and arcs whose best point may be above the level.

    x, y are the coordinates of the gradient before and behind crossings. Return the largest |F| at crossings where
    the circle may hold a maximum.
    """
    squared, largest = level * level, 0.0
    rising, falling = kink <= 0.0, kink >= 0.0
    for k in range(len(marked)):
        c0, s0, c1, s1 = c[k + 2], s[k + 2], c[k + 3], s[k + 3]
        a, b = x[k + 1], y[k + 1]
        value = a * c0 + b * s0
        before, behind, ahead = y[k] * c0 - x[k] * s0, b * c0 - a * s0, b * c1 - a * s1
        height, bent = abs(value), value * kink <= 0.0
        largest = max(largest, height if bent else 0.0)
        turning = ((value >= 0.0) & (before >= -slack) & (behind <= slack)) | (
            (value <= 0.0) & (before <= slack) & (behind >= -slack)
        )
        within = (rising & (behind >= -slack) & (ahead <= slack)) | (
            falling & (behind <= slack) & (ahead >= -slack)
        )
        marked[k] |= (bent & (height > threshold) & (turning | tied)) | (within & (a * a + b * b > squared))
    return largest


@njit(cache=True, nogil=True, fastmath=FAST)
def _screen_cells(x, y, z, c, s, lean, upper, lower, chosen, level, slack, marked):
    """Mark chosen arcs beside which a cell may contain its own gradient, if that is longer than the level.

    Crossings k, k + 1, k + 2 of the lists come before arc k, the next three behind it. The height of a row at
    (x, y, z), divided by its slope along the circle where it is crossed, is the slope of (x, y, z) there plus
    ``lean`` times z. ``upper`` and ``lower`` are added to z by the circle's own row in the two cells beside.
    """
    squared = level * level
    for k in range(len(marked)):
        a, b = x[k + 1], y[k + 1]
        plane = a * a + b * b
        t0, t1, t2 = b * c[k] - a * s[k], b * c[k + 1] - a * s[k + 1], b * c[k + 2] - a * s[k + 2]
        t3, t4, t5 = (
            b * c[k + 3] - a * s[k + 3], b * c[k + 4] - a * s[k + 4], b * c[k + 5] - a * s[k + 5]
        )  # fmt: skip
        l0, l1, l2, l3, l4, l5 = lean[k], lean[k + 1], lean[k + 2], lean[k + 3], lean[k + 4], lean[k + 5]
        steepest = max(abs(l0), abs(l1), abs(l2), abs(l3), abs(l4), abs(l5))
        room = slack * (1.0 + steepest) * (1.0 + steepest)
        held = False
        for side in range(2):
            e = z[k + 1] + (upper if side == 0 else lower)
            h0, h1, h2, h3, h4, h5 = (
                t0 + e * l0,
                t1 + e * l1,
                t2 + e * l2,
                t3 + e * l3,
                t4 + e * l4,
                t5 + e * l5,
            )
            outwards = e if side == 0 else -e
            held |= (
                ((outwards >= -slack) & (min(h0, h1, h2) >= -room) & (max(h3, h4, h5) <= room))
                | ((outwards <= slack) & (max(h0, h1, h2) <= room) & (min(h3, h4, h5) >= -room))
            ) & (plane + e * e > squared)
        marked[k] |= held & chosen[k]


@njit(cache=True, nogil=True, fastmath=FAST)
def screen(
    order, cosine, sine, after, lean, tied, frames, weighted, kinks, totals, rounding, threshold, running,
    start, stop, index, values,
):  # fmt: skip
    """Walk circles ``start … stop - 1`` and list arcs that may hold a peak, with coordinates of the gradient there.

    ``totals`` are the coordinates of Σ_{j≠i} μ_j z_j + 2 g₀ in each circle's frame. A line of ``index`` is a circle,
    a crossing, a half and a code (1: test the circle, 2: the cells beside it), one of ``values`` x and y before the
    crossing and x, y, z behind it. Return the number of lines, and the largest |F| at crossings where a circle may
    hold a maximum, or ``running``.
    """
    m, count, slack = order.shape[1], 0, 2.0 * rounding
    at, lost, lists = np.empty((3, m + 1)), np.empty((3, m + 1)), np.empty((6, m + 5))
    x, y, z, c, s, leans = lists[0], lists[1], lists[2], lists[3], lists[4], lists[5]
    flags = np.empty((3, m), dtype=np.bool_)
    marked, beside, chosen = flags[0], flags[1], flags[2]
    for i in range(start, stop):
        for a in range(3):
            total, error = 0.0, 0.0
            at[a, 0] = lost[a, 0] = 0.0
            for k in range(m):
                term = after[i, k] * weighted[order[i, k], a]
                new = total + term
                shift = new - total
                error += (total - (new - shift)) + (term - shift)
                total = new
                at[a, k + 1], lost[a, k + 1] = total, error
        for k in range(-2, m + 3):  # pad with two crossings before and three behind, from the opposite half
            far = k < 0 or k >= m
            source, turn = max(m + k, 0) if k < 0 else min(k - m, m - 1) if far else k, -1.0 if far else 1.0
            c[k + 2], s[k + 2], leans[k + 2] = (
                turn * cosine[i, source],
                turn * sine[i, source],
                turn * lean[i, source],
            )
        for k in range(m):
            # a cell is tested at its edge of least index: its neighbours on the circle bound the cell as well
            chosen[k] = tied[i] | ((i < order[i, k]) & (i < order[i, k + 1 if k + 1 < m else 0]))
        level, kink = min(running, threshold), kinks[i]
        for half in range(2):
            for a in range(3):
                out, f = lists[a], frames[i, a]
                end = (
                    (at[0, m] + lost[0, m]) * f[0]
                    + (at[1, m] + lost[1, m]) * f[1]
                    + (at[2, m] + lost[2, m]) * f[2]
                )
                # after half a circle every other row has changed sign: first and last gradient sum to the total
                shift = (0.5 - half) * totals[i, a] - 0.5 * end
                for k in range(m + 1):
                    out[k] = (
                        (at[0, k] + lost[0, k]) * f[0]
                        + (at[1, k] + lost[1, k]) * f[1]
                        + (at[2, k] + lost[2, k]) * f[2]
                    ) + shift
            for k in range(m):
                marked[k] = beside[k] = m < 3  # too few crossings to look back and ahead
            running = max(running, _screen_edges(x, y, c, s, kink, tied[i], threshold, level, slack, marked))
            upper, lower = (kink, 0.0) if half == 0 else (0.0, -kink)
            _screen_cells(x, y, z, c, s, leans, upper, lower, chosen, level, slack, beside)
            for k in range(m):
                if marked[k] | beside[k]:
                    index[count, 0], index[count, 1], index[count, 2] = i, k, half
                    index[count, 3] = marked[k] + 2 * beside[k]
                    values[count, 0], values[count, 1] = x[k], y[k]
                    values[count, 2], values[count, 3], values[count, 4] = x[k + 1], y[k + 1], z[k + 1]
                    count += 1
    return count, running


# circles, neurons, and values of F above the threshold in size
Peaks = tuple[np.ndarray, np.ndarray, np.ndarray]


class Arcs:
    """Arcs listed by :func:`screen`, with the crossings before and behind and coordinates of the gradient.

    Parameters
    ----------
    circles : Circles
    mu : ndarray of shape (n,)
    index, values
        Lines of :func:`screen`.
    """

    def __init__(self, circles: Circles, mu, index, values):
        self.circles, self.mu = circles, mu
        self.i, self.k, self.half = i, k, half = index[:, 0], index[:, 1], index[:, 2]
        self.orient = 1.0 - 2.0 * half
        self.before, self.x, self.y, self.z = values[:, :2].T, *np.ascontiguousarray(values[:, 2:].T)
        last = k + 1 == circles.order.shape[1]
        nxt, turn = np.where(last, 0, k + 1), np.where(last, -1.0, 1.0)
        self.cosine, self.sine = circles.cosine[i, k], circles.sine[i, k]
        self.cosine_next, self.sine_next = turn * circles.cosine[i, nxt], turn * circles.sine[i, nxt]
        self.kink, self.apart, self.frames = (
            mu[i] * circles.norms[i],
            ~circles.merged[i, k],
            circles.frames[i],
        )

    def _vector(self, some, *coordinates):
        return np.einsum("ai,iab->ib", np.stack(coordinates), self.frames[some, : len(coordinates)])

    def vertices(self, rounding: float, threshold: float) -> tuple[Peaks, float]:
        """Return peaks at the crossings before the arcs, and the largest |F| there."""
        c, s, circles = self.cosine, self.sine, self.circles
        value = self.x * c + self.y * s
        sign = np.where(value >= 0.0, 1.0, -1.0)
        bent = sign * self.kink <= 0.0
        largest = float(np.abs(value[bent]).max(initial=0.0))
        some = np.flatnonzero(bent & (np.abs(value) > threshold))
        i, half, sign, c, s = self.i[some], self.half[some], sign[some], c[some], s[some]
        x, y, (xb, yb) = self.x[some], self.y[some], self.before[:, some]
        j, point = circles.order[i, self.k[some]], self._vector(some, c, s)
        along = np.cross(circles.rows[j], point)
        side = np.einsum("ia,ia->i", along, self.frames[some, 2])
        along = np.einsum("ia,ia->i", along, self._vector(some, x, y, self.z[some]))
        along, bend = np.where(side < 0.0, -along, along), self.kink[some] * np.abs(side)
        room = rounding * np.maximum(1.0, circles.norms[j])
        # a point with no peak along circle j, where row j itself is silent, is no peak
        peak = ~circles.lone[i, self.k[some]] | (
            (i < j) & (sign * self.mu[j] <= 0.0)
            & (sign * (yb * c - xb * s) >= -rounding) & (sign * (y * c - x * s) <= rounding)
            & (sign * (along + (1 - half) * bend) <= room) & (sign * (half * bend - along) <= room)
        )  # fmt: skip
        some = some[peak]
        return (i[peak], self.orient[some, None] * point[peak], value[some]), largest

    def best_points(self, sign: float, rounding: float, threshold: float) -> tuple[Peaks, float]:
        """Return peaks of sign·F inside the arcs, and the largest value there."""
        x, y, z, kink = self.x, self.y, self.z, self.kink
        behind = self.cosine * y - self.sine * x
        inside = np.minimum(sign * behind, sign * (x * self.sine_next - y * self.cosine_next))
        some = np.flatnonzero(self.apart & (sign * kink <= 0.0) & (inside >= -rounding))
        length = np.hypot(x[some], y[some])
        largest = float(length.max(initial=0.0))
        kept = (length > threshold) & (inside[some] >= 0.0)
        some, length = some[kept], length[kept]
        # away from the circle, on either side, sign·F must not ascend
        z, kink, half = z[some], kink[some], self.half[some]
        slack = SIGN_TOLERANCE * (np.abs(z) + np.abs(kink)) + rounding
        kept = (sign * (z + (1 - half) * kink) <= slack) & (sign * (half * kink - z) <= slack)
        some, length = some[kept], length[kept]
        point = self._vector(some, x[some], y[some]) * (sign * self.orient[some] / length)[:, None]
        return (self.i[some], point, sign * length), largest

    def cells(self, rounding: float, threshold: float, level: float) -> tuple[Peaks, float]:
        """Return the gradients that lie in their own cells beside the arcs, and the largest length of those."""
        n = len(self.i)
        # where z_i·w is positive (first) or negative
        heights = [self.z + np.where(self.half == side, self.orient * self.kink, 0.0) for side in range(2)]
        plane = self.x * self.x + self.y * self.y
        some = np.concatenate(
            [
                side * n + np.flatnonzero(self.apart & (plane + heights[side] ** 2 > level**2))
                for side in range(2)
            ]
        )
        at, height = some % n, np.concatenate(heights)[some]
        across = np.where(some < n, height, -height)
        gradient = self._vector(at, self.x[at], self.y[at], height)
        length = np.linalg.norm(gradient, axis=1)
        sharp = SIGN_TOLERANCE * length
        slack = np.maximum(sharp, rounding)
        c, s, cn, sn = self.cosine[at], self.sine[at], self.cosine_next[at], self.sine_next[at]
        # longer than a quarter circle: here the sum of the ends could cancel, so each is turned by a quarter first
        beyond = c * cn + s * sn < 0.0
        middle = self._vector(at, np.where(beyond, sn - s, c + cn), np.where(beyond, c - cn, s + sn))
        sign = np.where(across >= 0.0, 1.0, -1.0)

        def held(chosen, signs, slack):
            """Return the chosen cells in which all rows but their own have the signs of the arc's middle."""
            vectors, there, own = signs[:, None] * gradient[chosen], middle[chosen], self.i[at[chosen]]
            for step in (math.isqrt(len(self.mu)), 1):  # a few rows rule out most
                rows, norms = self.circles.rows[::step].T, self.circles.norms[::step]
                t = vectors @ rows
                against = (t * (there @ rows) < 0.0) & (np.abs(t) > slack[:, None] * norms)
                against &= np.arange(0, len(self.mu), step) != own[:, None]
                kept = ~against.any(axis=1)
                chosen, vectors, there, own, slack = (
                    each[kept] for each in (chosen, vectors, there, own, slack)
                )
            return chosen

        either = np.flatnonzero(np.abs(across) <= slack)  # on the circle, up to rounding: test both signs
        inside = held(np.arange(len(some)), sign, slack)
        both = np.concatenate([inside, held(either, -sign[either], slack[either])])
        largest = float(length[both].max(initial=0.0))
        inside = inside[length[inside] > threshold]
        inside = held(inside, sign[inside], sharp[inside])
        signs, own = sign[inside], at[inside]
        point = (self.orient[own] * signs / length[inside])[:, None] * gradient[inside]
        return (self.i[own], point, signs * length[inside]), largest


def look(circles: Circles, mu, index, values, rounding, threshold, running) -> tuple[list[Peaks], float]:
    """Examine the vertices, arcs and cells listed by :func:`screen`; return peaks and the largest |F| seen."""
    found: list[Peaks] = []

    def see(seen: tuple[Peaks, float]) -> None:
        nonlocal running
        found.append(seen[0])
        running = max(running, seen[1])

    some = index[:, 3] % 2 == 1
    if some.any():
        arcs = Arcs(circles, mu, index[some], values[some])
        see(arcs.vertices(rounding, threshold))
        for sign in (1.0, -1.0):
            see(arcs.best_points(sign, rounding, threshold))
    some = index[:, 3] >= 2
    if some.any():
        see(Arcs(circles, mu, index[some], values[some]).cells(rounding, threshold, min(running, threshold)))
    return found, running
