"""Exact pricing in three dimensions: one walk along every great circle of the arrangement.

On the sphere the faces are vertices, arcs and cells. Circle i is {w : z_i·w = 0}; its crossings with the other
circles are sorted by angle once, when the sweep is made. One walk then carries the gradient g of F from arc to
arc (Θ(1) per crossing) and sees

- every arc, where the maximum of ⟨g, w⟩ is in closed form,
- every vertex, as the end of an arc,
- the two cells beside every arc, where F has a local maximum only if the gradient of the cell lies in the cell;
  the arc's own row and the rows of its two ends rule out nearly all of them before the full sign test.

The walk covers half a circle: on the antipodal arc F(−w) = ⟨g − 2g₀ − S, w⟩ with S = Σ_{j≠i} μ_j z_j.

Maxima of F on circle i need μ_i ≤ 0 (a concave kink), minima μ_i ≥ 0, so each circle is searched for one sign;
cells are searched for both.

Rounding. The upper bound adds 64 ε·Lip, Lip = ‖g₀‖ + Σ|μ_i|‖z_i‖ (ε = 2u). Where every three unit rows have a volume
above 10⁻⁹ (:func:`~covopt.oracles.conditioning.all_clear`) this is proved:

- *Order and signs are right.* With s_j = |z_j × z_i| and unit rows, two crossings on circle i are apart by an angle
  of at least 10⁻⁹/(s_j s_k) ≥ ½ 10⁻⁹(1/s_j + 1/s_k), and each is off by at most 16u/s. At the middle of an arc
  |z_l·w| ≥ ¼ 10⁻⁹ for the same reason, while its computed value is off by 16u. So every arc is visited with the
  signs that it has.
- *Gradients.* Products are off by u of themselves and compensated sums by 2u of theirs, so g and the total by 4u Lip
  in norm, u by 10u Lip, e by 12u Lip. Frames are orthonormal to 8u and orthogonal to z_i to 8u; coordinates of u,
  its length and the slopes at an arc's ends are off by less than 40u Lip in all.
- *No face is missed.* A maximum of F inside a face has the face's signs and slopes ≥ 0 exactly; the computed ones are
  accepted down to −128u Lip (times ‖z_j‖ for the signs of a cell). What is accepted besides is the length of the
  gradient of a face next to it, which only raises the bound. F has no maximum on circle i where μ_i > 0: there the
  two slopes across it have a positive sum.

So |F| ≤ the largest length met + 40u Lip; 128u Lip are added. Without clear position a crossing that is sorted
wrongly moves the walk across a circle where |z_j·w| is a few u‖z_j‖; then the bound is a hint
(:mod:`covopt.oracles.support`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.limits import in_pieces

EPS = np.finfo(float).eps
SIGN_TOLERANCE = 16 * EPS
ALLOWANCE = 64 * EPS
TIE = 1e-12  # crossings closer than this (radians) switch the local-maximum filter off


def circle_frames(normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two orthonormal vectors e₁, e₂ spanning each circle's plane, with e₁ × e₂ = normal."""
    helper = np.eye(3)[np.argmin(np.abs(normals), axis=1)]
    first = np.cross(normals, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return first, np.cross(normals, first)


def sort_crossings(
    rows: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sort, on every circle, the crossings with the other circles by angle in [0, π).

    Returns
    -------
    order : int32 ndarray of shape (n, n - 1)
        Row that is crossed.
    cosine, sine : ndarray of shape (n, n - 1)
        Of the crossing's angle.
    after : int8 ndarray of shape (n, n - 1)
        Sign of that row just behind the crossing.
    """
    n = len(rows)
    order = np.empty((n, n - 1), dtype=np.int32)
    cosine, sine = np.empty((n, n - 1)), np.empty((n, n - 1))
    signs = np.empty((n, n - 1), dtype=np.int8)

    def work(start: int, stop: int) -> None:
        found = _sort_some(rows, first[start:stop], second[start:stop], np.arange(start, stop))
        order[start:stop], cosine[start:stop], sine[start:stop], signs[start:stop] = found

    in_pieces(work, n)
    return order, cosine, sine, signs


def _sort_some(
    rows: np.ndarray, first: np.ndarray, second: np.ndarray, circles: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n = len(rows)
    x = rows @ first.T  # [j, i] coordinates of row j in the frame of circle i
    y = rows @ second.T
    angle = np.arctan2(-x, y).T
    after = np.where((angle >= 0) & (angle < np.pi), 1, -1).astype(np.int8)
    below = angle < 0
    angle[below] += np.pi
    wrapped = angle >= np.pi  # a crossing at π is one at 0, seen from the antipode unless rounding moved it
    after[wrapped & below] = 1
    angle[wrapped] = 0.0
    angle[np.arange(len(circles)), circles] = np.inf
    order = np.argsort(angle, axis=1, kind="stable")[:, : n - 1].astype(np.int32)
    angle = np.take_along_axis(angle, order, axis=1)
    return order, np.cos(angle), np.sin(angle), np.take_along_axis(after, order, axis=1)


@njit(cache=True, nogil=True, inline="always")
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(cache=True, nogil=True, inline="always")
def _add(total, error, a, term):
    """Compensated ``total[a] += term``."""
    new = total[a] + term
    shift = new - total[a]
    error[a] += (total[a] - (new - shift)) + (term - shift)
    total[a] = new


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
        found[i, k] = found[i, k - 1]
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
def _walk(
    rows, norms, first, second, order, cosine, sine, after, mu, g0, threshold,
    start, stop, found, found_value, count, best,
):  # fmt: skip
    """Walk circles ``start … stop - 1`` and note their peaks; ``best[i]`` becomes the largest |F| seen on i.

    ``half`` 0 is the walked half circle, where F(w) = ⟨u, w⟩; half 1 its antipode, where F(−w) = ⟨u, w⟩
    with the shifted u. All tests are made at w, and ``orient`` turns the result to its own half.
    """
    n = rows.shape[0]
    m = n - 1
    g, g_error = np.empty(3), np.empty(3)
    total, total_error = np.empty(3), np.empty(3)
    u, e, w, middle, normal = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    slope_in = np.empty(2)
    running = 0.0
    # where the maximum on an arc falls on its end, rounding must not hide both
    rounding = np.sqrt(_dot(g0, g0))
    for i in range(n):
        rounding += abs(mu[i]) * norms[i]
    rounding *= ALLOWANCE
    for i in range(start, stop):
        e1, e2 = first[i], second[i]
        kink = mu[i] * norms[i]
        for a in range(3):
            normal[a] = rows[i, a] / norms[i]
            g[a] = g0[a]
            total[a] = 2.0 * g0[a]
            g_error[a] = 0.0
            total_error[a] = 0.0
            for k in range(m):
                term = mu[order[i, k]] * rows[order[i, k], a]
                _add(total, total_error, a, term)
                if after[i, k] < 0:
                    _add(g, g_error, a, term)
            total[a] += total_error[a]
        for k in range(m):
            j = order[i, k]
            cv, sv = cosine[i, k], sine[i, k]
            if k + 1 < m:
                jn, cn, sn = order[i, k + 1], cosine[i, k + 1], sine[i, k + 1]
            else:
                jn, cn, sn = order[i, 0], -cosine[i, 0], -sine[i, 0]
            if k > 0:
                cb, sb = cosine[i, k - 1], sine[i, k - 1]
            else:
                cb, sb = -cosine[i, m - 1], -sine[i, m - 1]
            gap = cv * sn - sv * cn
            lone = gap > TIE and cb * sv - sb * cv > TIE
            for half in range(2):
                for a in range(3):
                    u[a] = g[a] + g_error[a] - half * total[a]
                slope_in[half] = _dot(u, e2) * cv - _dot(u, e1) * sv
            for a in range(3):
                _add(g, g_error, a, after[i, k] * mu[j] * rows[j, a])
            for half in range(2):
                orient = 1.0 - 2.0 * half
                for a in range(3):
                    u[a] = g[a] + g_error[a] - half * total[a]
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
                            and sign * slope_in[half] >= -rounding
                            and sign * slope_out <= rounding
                            and _vertex_is_peak(
                                rows[j], normal, kink, w, u, half, sign, rounding * max(1.0, norms[j])
                            )
                        ):
                            _insert(found, found_value, count, i, w, orient, value)

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

                beyond = (
                    cv * cn + sv * sn < 0.0
                )  # longer than a quarter of the circle: sin alone cannot tell 0 from π
                if gap <= SIGN_TOLERANCE and not beyond:
                    continue
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
                                _insert(
                                    found, found_value, count, i, e, orient * sign / length, sign * length
                                )
        best[i] = running


class SphereSweep:
    """All faces of an arrangement of great circles, presorted for repeated pricing.

    Parameters
    ----------
    rows : ndarray of shape (n, 3)
        One row per line, of rank 3.
    """

    def __init__(self, rows: np.ndarray):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.norms = np.linalg.norm(self.rows, axis=1)
        first, second = circle_frames(self.rows / self.norms[:, None])
        self._frames = np.ascontiguousarray(first), np.ascontiguousarray(second)
        self._crossings = sort_crossings(self.rows, *self._frames)
        self.truncated = False  # whether the last pricing left peaks out because a circle had too many

    def price(
        self, mu: np.ndarray, linear: np.ndarray, threshold: float, *, per_circle: int = 4, n_threads: int = 2
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return peaks of |F| above ``threshold`` (neurons, signed values) and an upper bound on |F|."""
        n = len(self.rows)
        found = np.empty((n, per_circle, 3))
        value = np.empty((n, per_circle))
        count = np.zeros(n, dtype=np.int64)
        best = np.zeros(n)

        def work(start: int, stop: int) -> None:
            _walk(
                self.rows, self.norms, *self._frames, *self._crossings, mu, linear, threshold,
                start, stop, found, value, count, best,
            )  # fmt: skip

        in_pieces(work, n, first=50, n_threads=n_threads if n >= 400 else 1)
        self.truncated = bool((count == per_circle).any())
        chosen = np.arange(per_circle) < count[:, None]
        lipschitz = float(np.linalg.norm(linear) + np.abs(mu) @ self.norms)
        return found[chosen], value[chosen], float(best.max()) + ALLOWANCE * lipschitz
