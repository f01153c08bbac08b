r"""Quadratic bounds on boxes of directions, for functions that are sums of many small rows in any dimension.

A box is the cone of all w with |w_j − u_j w_0| ≤ s_j w_0, where w_0 = ±w_a > 0 for its chart axis a. The bound is on
F(w) = g·w + Σ ±σ(t_i), t_i = y_i·w, for unit vectors w of the cone, where g holds the rows that are positive on the
whole box. Let t_i/w_0 lie in [L, R], L < 0 < R, W be the largest and W' the smallest w_0. A row of positive weight
has

    σ(t) ≤ t/2 + t²/4τ + τ/4                               for every τ > 0,
    σ(t) ≤ a(t − Lw_0) − k(t − Lw_0)(Rw_0 − t)             a = R/(R − L), k = min(R, −L)/((R − L)² W);

one of negative weight

    σ(t) ≥ 0,   σ(t) ≥ t,   σ(t) ≥ t(t − Lw_0)/((R − L)W),
    σ(t) ≥ t/2 + t²/(2 max(R, −L) W),
    σ(t) ≥ t/2 + t (ℓ·w)/2                                 for every ℓ with |ℓ·w| ≤ 1 on the box,

or any average of these. A box may be cut along the sign of a row as well (``fixed``): σ(t) = t where the row is on,
σ(t) = 0 where it is off, and the two parts make up the box. The last line of the list makes the bound good where
many rows are undecided: given the second moments X of w, the best ℓ is the direction of X y_i. On the box also

    0 ≤ s_j² w_0² − (w_j − u_j w_0)²,   0 ≤ (W − w_0)(w_0 − W').

Multiplied by d_j ≥ 0 and e ≥ 0 and added up, F(w) ≤ wᵀMw + b·w + c. For the smallest ν + μ with
[[νI − M, −b/2], [−bᵀ/2, μ]] ⪰ 0, F(w) ≤ ν + μ + c. All multipliers come from a game: the rows respond to the
average moments (x, X) of the maximisers so far, the sphere responds to the rows. Every move gives a valid bound.

Rounding
--------
The bound is computed from the multipliers as stored, so how they arose does not matter. Let ε = 2⁻⁵², m the number of
undecided rows, p the number of rounds. Centres and half-widths are exact and |u_j| + s_j ≤ 1, so |L|, |R| ≤ ‖y‖₁.

- L and R err by (r + 1)ε‖y‖₁. A row decided wrongly, a part of a box taken for empty (the other part contains it) and
  the inequalities between ends with errors change by less than eight times that. Coefficients of the inequalities
  have errors of a few ε, at sizes of at most 4‖y‖₁ each. ℓ is divided by a length that is rounded up.
- Averages of p rounds have an error of 4pε times the largest term, Σ_i ‖y_i‖ max‖ℓ_i‖ in all.
- M, b, c are sums of at most n + r + 8 terms: (n + r + 8)ε times the sum of the sizes of the terms.
- A Cholesky factorisation that runs to its end proves the matrix positive semidefinite up to rounding: its lowest
  eigenvalue is at least −(r + 4)ε times its trace, and (w, 1) has length √2.

Together less than ε(2n + 8p + 16r + 64) times the ``size`` of all terms, plus 2(r + 6)ε times the trace.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import njit

from covopt.exact.rank import LINE, ROUGH
from covopt.exact.rounding import EPS, TINY
from covopt.oracles.ascent import inner, put
from covopt.oracles.boxes.kernel import SMALLEST
from covopt.oracles.boxes.sphere_form import Sign, narrow, on_sphere, proved_on_sphere

DELAY = 4.0  # delay of the averages of multipliers, in rounds
GROWTH, STEEPEST = 0.25, 8.0  # growth of multipliers: thin boxes need large ones
UNSET = np.iinfo(np.uint8).max  # shares of a box without a parent


class Below(IntEnum):
    """Lower bounds on σ(t) of a row of negative weight, in the order of the list, in addition to zero."""

    LINE = 0
    EDGE = 1
    ROW = 2
    MOMENTS = 3


OPTIONS = len(Below)


@njit(cache=True, nogil=True, error_model="numpy")
def bound_box(
    rows, weights, linear, sizes, a, side, u0, s, x, X, d, e, shares, fixed, rounds, first, H, by_signs,
    narrows,
):  # fmt: skip
    """Bound F over the unit vectors of one box.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
    weights : ndarray of shape (n,)
        ±1.
    linear : ndarray of shape (r,)
    sizes : ndarray of shape (r,)
        At least Σ_i |y_ij| + |linear_j|.
    a, side : int, float
        Chart.
    u0, s : ndarray of shape (r,)
        u0[a] = side and s[a] = 0.
    x, X, d, e : ndarray of shape (r,), (r, r), (r,), (1,)
        Initial moments and multipliers; changed in place.
    shares : ndarray of shape (n, 4), uint8
        Initial share of each option in the response of each row, of 254; all UNSET at the roots.
    fixed : ndarray of shape (n,), uint8
        :class:`~covopt.oracles.boxes.sphere_form.Sign`: the bound is over directions of the box with these signs.
    rounds : int
    first : float
        Weight of the given moments and shares, in rounds.
    H : float
        Stop the rounds once the bound is at most H.
    by_signs : float
        Cut along a row whose unknown sign costs more than this share of bound − H.
    narrows : bool
        Where the bound is above H, leave out of the box, in place, the part with F ≤ H (:mod:`.sphere_form`).

    Returns
    -------
    bound : float
    axis : int
        Where to cut: an axis, r + i for the sign of row i, −1 where the box is too small or empty.
    is_narrower : bool
        Whether the box was halved, so that bounding it again is worthwhile.
    """
    n, r = rows.shape
    near, far = 1.0, 1.0
    for j in range(r):
        if s[j] > 0.0:
            t = max(abs(u0[j]) - s[j], 0.0)
            near += t * t
            t = abs(u0[j]) + s[j]
            far += t * t
    W = (1.0 + (r + 8) * EPS) / np.sqrt(near)
    least = (1.0 - (r + 8) * EPS) / np.sqrt(far)

    g = linear.copy()
    Y = np.empty((n, r))
    low, high, weight = np.empty(n), np.empty(n), np.empty(n)
    index, score = np.empty(n, np.int64), np.zeros(r)
    m = 0
    for i in range(n):
        c, radius = 0.0, 0.0
        for j in range(r):
            c += rows[i, j] * u0[j]
            radius += abs(rows[i, j]) * s[j]
        if (c >= radius and fixed[i] == Sign.OFF) or (c <= -radius and fixed[i] == Sign.ON):
            return 0.0, -1, False
        if c >= radius:
            for j in range(r):
                g[j] += weights[i] * rows[i, j]
        elif c > -radius and fixed[i] != Sign.FREE:
            if fixed[i] == Sign.ON:
                for j in range(r):
                    g[j] += weights[i] * rows[i, j]
        elif c > -radius:
            open_part = 1.0 - (c / radius) ** 2
            for j in range(r):
                Y[m, j] = rows[i, j]
                score[j] += open_part * abs(rows[i, j])
            weight[m], low[m], high[m], index[m] = weights[i], c - radius, c + radius, i
            m += 1
    Y = Y[:m]

    inherited = shares[0, 0] != UNSET
    lengths, peak = np.zeros(m), np.zeros(m)
    for q in range(m):
        lengths[q] = np.sqrt(inner(Y[q], Y[q]))
    share, slope = np.zeros((m, r)), np.zeros(m)  # averages, for the rows of negative weight
    mixed, mix = np.zeros((m, OPTIONS)), np.zeros(OPTIONS)
    T = np.empty((m, r))
    doubts = np.zeros(m)
    M, b = np.empty((r, r)), np.empty(r)
    w, v, nu = np.empty(r), np.empty(r), -np.inf
    top, scratch, factors = u0 + 0.25 * s, np.empty(r), np.empty((r, r))
    top /= np.sqrt(inner(top, top))
    best, best_nu, best_mu, best_const, best_size = np.inf, 0.0, 0.0, 0.0, 0.0
    best_M, best_b = np.empty((r, r)), np.empty(r)
    for turn in range(rounds):
        const, corner, edge, size = 0.0, 0.0, 0.0, 0.0
        put(g, b)
        x0, X00 = x[a] * side, X[a, a]
        Z = np.dot(Y, X)
        for q in range(m):
            L, R = low[q], high[q]
            largest = max(-L, R) * W
            z = Z[q]
            t1, t2, zz = 0.0, 0.0, 0.0
            for j in range(r):
                t1 += x[j] * Y[q, j]
                t2 += z[j] * Y[q, j]
                zz += z[j] * z[j]
            t2 = max(t2, 0.0)
            tw = z[a] * side
            if weight[q] > 0.0:
                tau = max(min(np.sqrt(t2), largest), ROUGH * largest)
                chord = R / (R - L)
                curve = min(R, -L) / ((R - L) * (R - L) * W)
                by_ends = chord * (t1 - L * x0) - curve * ((L + R) * tw - t2 - L * R * X00)
                by_tau = 0.5 * t1 + t2 / (4.0 * tau) + 0.25 * tau
                doubts[q] = min(by_tau, by_ends) - max(t1, 0.0)
                if by_tau <= by_ends:
                    const += 0.25 * tau
                    lead, f = 0.5, 0.25 / tau
                    for j in range(r):
                        T[q, j] = f * Y[q, j]
                else:
                    lead = chord
                    for j in range(r):
                        T[q, j] = curve * Y[q, j]
                    T[q, a] -= curve * (L + R) * side
                    corner += curve * L * R
                    edge -= chord * L * side
                total = inner(T[q], T[q])
                size += lengths[q] * np.sqrt(total)
            else:
                middle, reach = 0.0, 0.0
                for j in range(r):
                    middle += z[j] * u0[j]
                    reach += abs(z[j]) * s[j]
                norm = min(np.sqrt(zz), (abs(middle) + reach) * W) * (1.0 + (2 * r + 16) * EPS)
                steep = 1.0 / ((R - L) * W)
                mix[:] = 0.0
                if turn == 0 and inherited:
                    for k in range(OPTIONS):
                        mix[k] = shares[index[q], k] / UNSET
                else:
                    value, option = 0.0, -1
                    if t1 > value:
                        value, option = t1, Below.LINE
                    if (t2 - L * tw) * steep > value:
                        value, option = (t2 - L * tw) * steep, Below.EDGE
                    if 0.5 * t1 + 0.5 * t2 / largest > value:
                        value, option = 0.5 * t1 + 0.5 * t2 / largest, Below.ROW
                    if norm > 0.0 and 0.5 * t1 + 0.5 * zz / norm > value:
                        option = Below.MOMENTS
                    if option >= 0:
                        mix[option] = 1.0
                straight = mix[Below.LINE] + 0.5 * (mix[Below.ROW] + mix[Below.MOMENTS])
                by_row = mix[Below.EDGE] * steep + mix[Below.ROW] * 0.5 / largest
                by_z = mix[Below.MOMENTS] * 0.5 / norm if norm > 0.0 else 0.0
                by_edge = mix[Below.EDGE] * steep * L * side
                step = 1.0 if turn == 0 else 1.0 / (turn + DELAY)
                slope[q] += step * (straight - slope[q])
                for k in range(OPTIONS):
                    mixed[q, k] += step * (mix[k] - mixed[q, k])
                total = 0.0
                for j in range(r):
                    t = by_row * Y[q, j] + by_z * z[j]
                    if j == a:
                        t -= by_edge
                    total += t * t
                    share[q, j] += step * (t - share[q, j])
                    T[q, j] = -share[q, j]
                peak[q] = max(peak[q], np.sqrt(total))
                size += lengths[q] * peak[q]
                lead = -slope[q]
            for j in range(r):
                b[j] += lead * Y[q, j]
        b[a] += edge
        P = np.dot(Y.T, T)
        for j in range(r):
            for k in range(r):
                M[j, k] = 0.5 * (P[j, k] + P[k, j])
        M[a, a] += corner
        for j in range(r):
            size += 8.0 * sizes[j] + 8.0 * d[j]
            if s[j] > 0.0:
                M[a, a] += d[j] * (s[j] * s[j] - u0[j] * u0[j])
                M[j, j] -= d[j]
                M[a, j] += d[j] * u0[j] * side
                M[j, a] += d[j] * u0[j] * side
        M[a, a] -= e[0]
        b[a] += e[0] * (W + least) * side
        const -= e[0] * W * least
        size += 8.0 * e[0] + abs(const)
        nu, mu = on_sphere(M, b, w, v, top, nu, factors, scratch)
        if nu + mu + const < best:
            best = nu + mu + const
            best_nu, best_mu, best_const, best_size = nu, mu, const, size
            put(b, best_b)
            for j in range(r):
                put(M[j], best_M[j])
        if best <= H:
            break
        # add the moments of this round's maximiser to the average; update the multipliers by its violations
        step = 1.0 / (turn + first)
        for j in range(r):
            x[j] += step * (w[j] - x[j])
            for k in range(r):
                X[j, k] += step * (w[j] * w[k] + v[j] * v[k] - X[j, k])
        square = w[a] * w[a] + v[a] * v[a]
        for j in range(r):
            if s[j] > 0.0:
                cross = w[j] * w[a] + v[j] * v[a]
                spread = w[j] * w[j] + v[j] * v[j] - 2.0 * u0[j] * side * cross + u0[j] * u0[j] * square
                excess = spread / (s[j] * s[j]) - square
                growth = GROWTH * d[j] * min(excess / (square + TINY), STEEPEST)
                d[j] = max(0.0, d[j] + step * (H * excess + growth))
        outside = square - (W + least) * w[a] * side + W * least
        e[0] = max(0.0, e[0] + H * step * outside / ((W - least) ** 2 + 1e-12))

    for q in range(m):
        for k in range(OPTIONS):
            shares[index[q], k] = np.uint8(mixed[q, k] * (UNSET - 1))
    shares[0, 0] = min(shares[0, 0], UNSET - 1)
    allowance = EPS * (2 * n + 8 * rounds + 16 * r + 64) * best_size
    bound = proved_on_sphere(best_M, best_b, best_nu, best_mu, np.empty((r + 1, r + 1)))
    bound += best_const + allowance
    n_axes = 0
    if narrows and bound > H:
        units = EPS * (2 * n + 8 * rounds + 16 * r + 64)
        n_axes = narrow(
            best_M, best_b, best_nu, best_mu, best_const + allowance, H, units, Y, weight, index, fixed, a, side,
            u0, s,
        )  # fmt: skip
    axis, most = -1, -1.0
    for j in range(r):
        if s[j] > SMALLEST and LINE * (abs(u0[j]) + s[j]) < s[j]:
            spread = X[j, j] - 2.0 * u0[j] * side * X[j, a] + u0[j] * u0[j] * X[a, a]
            inside = min(max(spread, 0.0), s[j] * s[j] * X[a, a])  # averages may lie outside of the box
            gain = np.sqrt(inside) * (score[j] + H * s[j])
            if gain > most:
                axis, most = j, gain
    worst = by_signs * max(bound - H, TINY)
    for q in range(m):
        if doubts[q] > worst and fixed[index[q]] == Sign.FREE:
            axis, worst = r + index[q], doubts[q]
    return bound, axis, n_axes > 0
