"""Branch and bound on pairs of boxes, one of directions w and one of output directions v: several outputs.

The gauge of a dual point with k outputs is a maximum over pairs,

    h(Λ) = max over ‖w‖ ≤ 1 of ‖Σ_i λ_i σ(z_i·w)‖ = max over ‖w‖, ‖v‖ ≤ 1 of Σ_i (λ_i·v) σ(z_i·w),

so "h ≤ H" says that Φ(v, w) = Σ_i (λ_i·v) σ(z_i·w) ≤ H ‖v‖‖w‖ for all v in ℝᵏ and w in ℝʳ. Φ is homogeneous in either
argument: it is enough to look at v = ±e_b + … and w = ±e_a + … with all other coordinates in [−1, 1], and these cubes
are halved. On a pair of boxes let t = z_i·w run in [c − ρ, c + ρ] and κ = λ_i·v in [m − n, m + n]. Then

    c ≥ ρ          κσ(t) = κt                      c ≤ −ρ        κσ(t) = 0
    κ ≥ 0          κσ(t) ≤ κ(at + b)               the chord, a = (c + ρ)/2ρ, b = a(ρ − c)
    κ ≤ 0          κσ(t) ≤ κθt                     any θ in [0, 1]
    else           κσ(t) ≤ κθt + E(ακ + β)         0 ≤ σ(t) − θt ≤ E, the chord ακ + β of max(κ, 0)

All of them are bilinear in v and w where constants are written with the coordinates v_b and w_a, which are ±1:
together Φ(v, w) ≤ vᵀMw on the pair. It is closed when either test holds,

1. ‖M‖₂ ≤ H: H²I − MMᵀ is positive semidefinite (Cholesky). It does not see the box, and it is what closes boxes
   around maximisers: with the right θ the two singular vectors of M are the maximising pair.
2. With N = M − H q pᵀ, ‖p‖, ‖q‖ ≤ 1 (tangents of the norms, (q·v)(p·w) ≤ ‖v‖‖w‖), the maximum of vᵀNw on the pair is
   at most v₀ᵀNw₀ + Σ_l τ_l |Nw₀|_l + Σ_j η_j |Nᵀv₀|_j + Σ τ_l η_j |N_lj| ≤ 0.

Both hold for every θ, p, q; these are chosen by a few steps of descent and may be as wrong as they like.

Rounding. On the cubes |v_l|, |w_j| ≤ 1 ≤ ‖v‖, ‖w‖. Every number in a test is a sum of at most N + 2kr + 32 products
whose sizes add up to at most (kr)^½ (S + H), S = Σ‖λ_i‖‖z_i‖, so each test errs by at most

    4 (N + 2kr + 32) ε (kr)^½ (S + H)

which also covers a row that is taken for decided although |t| is a few r ε ‖z_i‖₁ on the other side.
Φ ≤ H‖v‖‖w‖ + this number ≤ (H + this number) ‖v‖‖w‖: the caller adds it to H once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

DEPTH = 300  # halvings of one pair; a pair at the limit is closed by raising the bound
SMALLEST = 2.0**-44  # half-widths below it are not split further
FEW = 24  # undecided rows up to which θ is found by descent
TURNS = 2
SWEEPS = 12


@njit(cache=True, nogil=True)
def _ascend(q, centre, half, axis, bound, u):
    """Move u towards the maximiser of ⟨q, u⟩ − bound·‖u‖ on a box, one coordinate at a time."""
    for _ in range(3):
        for j in range(len(q)):
            if j == axis or half[j] == 0.0:
                continue
            rest = 0.0
            for other in range(len(q)):
                if other != j:
                    rest += u[other] * u[other]
            if q[j] >= bound:
                u[j] = centre[j] + half[j]
            elif q[j] <= -bound:
                u[j] = centre[j] - half[j]
            else:
                t = q[j] * np.sqrt(rest / (bound * bound - q[j] * q[j]))
                u[j] = min(centre[j] + half[j], max(centre[j] - half[j], t))


@njit(cache=True, nogil=True)
def _norm(u):
    total = 0.0
    for entry in u:
        total += entry * entry
    return np.sqrt(total)


@njit(cache=True, nogil=True)
def _is_below(matrix, bound, square):
    """Whether bound²·I − MMᵀ has a Cholesky factor; ``square`` is work space of shape (k, k)."""
    k, r = matrix.shape
    for a in range(k):
        for b in range(a + 1):
            total = 0.0
            for j in range(r):
                total += matrix[a, j] * matrix[b, j]
            square[a, b] = (bound * bound if a == b else 0.0) - total
    for a in range(k):
        for b in range(a):
            total = square[a, b]
            for j in range(b):
                total -= square[a, j] * square[b, j]
            square[a, b] = total / square[b, b]
        total = square[a, a]
        for j in range(a):
            total -= square[a, j] * square[a, j]
        if not total > 0.0:
            return False
        square[a, a] = np.sqrt(total)
    return True


@njit(cache=True, nogil=True)
def _relax(rows, dual, decided, undecided, count, kind, c, rho, m, n, theta, chart, matrix):
    """Fill ``matrix`` with M, Φ(v, w) ≤ vᵀMw on the pair; ``chart`` = (b, ±1, a, ±1)."""
    k, r = matrix.shape
    out_axis, out_side, axis, side = int(chart[0]), chart[1], int(chart[2]), chart[3]
    matrix[:] = decided
    for e in range(count):
        i = undecided[e]
        constant = 0.0
        if kind[e] > 0:
            slope = (c[e] + rho[e]) / (2.0 * rho[e])
            height = slope * (rho[e] - c[e])
        else:
            slope = theta[e]
            height = 0.0
            if kind[e] == 0:
                excess = max((1.0 - slope) * (c[e] + rho[e]), slope * (rho[e] - c[e]))
                share = (m[e] + n[e]) / (2.0 * n[e])
                height = share * excess
                constant = share * (n[e] - m[e]) * excess
        for p in range(k):
            for j in range(r):
                matrix[p, j] += dual[i, p] * slope * rows[i, j]
            matrix[p, axis] += dual[i, p] * height * side
        matrix[out_axis, axis] += out_side * side * constant


@njit(cache=True, nogil=True)
def _descend(rows, dual, undecided, count, kind, lead, matrix, theta, g):
    """Coordinate descent in θ on ‖Mᵀv‖² for the unit vector v = ``lead``; say whether a θ moved."""
    k, r = matrix.shape
    for j in range(r):
        g[j] = 0.0
        for p in range(k):
            g[j] += matrix[p, j] * lead[p]
    moved = False
    for _ in range(SWEEPS):
        largest = 0.0
        for e in range(count):
            if kind[e] >= 0:
                continue
            i = undecided[e]
            weight = 0.0
            for p in range(k):
                weight += dual[i, p] * lead[p]
            if weight >= 0.0:
                continue
            square, along = 0.0, 0.0
            for j in range(r):
                square += rows[i, j] * rows[i, j]
                along += rows[i, j] * g[j]
            if square == 0.0:
                continue
            t = min(1.0, max(0.0, theta[e] - along / (weight * square)))
            step = t - theta[e]
            if step != 0.0:
                for j in range(r):
                    g[j] += weight * step * rows[i, j]
                theta[e] = t
                largest = max(largest, abs(step))
        moved = moved or largest > 0.0
        if largest < 1e-12:
            break
    return moved


@njit(cache=True, nogil=True)
def bound_pair(
    rows, dual, bound, chart, v0, tau, w0, eta, decided, undecided, count, kind, c, rho, m, n, theta,
    matrix, tangent, uv, uw, lead, f, g, square,
):  # fmt: skip
    """Return what vᵀMw − bound·‖v‖‖w‖ does not exceed on the pair, 0 or less when the pair is closed.

    ``tangent`` becomes N, ``uv`` and ``uw`` the points at which the tangents were taken.
    """
    k, r = matrix.shape
    out_axis, axis = int(chart[0]), int(chart[2])
    uv[:] = v0
    uw[:] = w0
    lead[:] = v0 / _norm(v0)
    best = np.inf
    for turn in range(TURNS):
        _relax(rows, dual, decided, undecided, count, kind, c, rho, m, n, theta, chart, matrix)
        if 0 < count <= FEW and _descend(rows, dual, undecided, count, kind, lead, matrix, theta, g):
            _relax(rows, dual, decided, undecided, count, kind, c, rho, m, n, theta, chart, matrix)
        if _is_below(matrix, bound, square):
            return -1.0
        length = _norm(uv)
        for j in range(r):
            g[j] = 0.0
            for p in range(k):
                g[j] += matrix[p, j] * uv[p] / length
        _ascend(g, w0, eta, axis, bound, uw)
        width = _norm(uw)
        for p in range(k):
            f[p] = 0.0
            for j in range(r):
                f[p] += matrix[p, j] * uw[j] / width
        _ascend(f, v0, tau, out_axis, bound, uv)
        length = _norm(uv)
        # a tangent may not be longer than one
        shrink = bound * (1.0 - 8.0 * (k + r) * 2.3e-16) / (length * width)
        for p in range(k):
            for j in range(r):
                tangent[p, j] = matrix[p, j] - shrink * uv[p] * uw[j]
        value = 0.0
        for p in range(k):
            total = 0.0
            for j in range(r):
                total += tangent[p, j] * w0[j]
                value += tau[p] * eta[j] * abs(tangent[p, j])
            value += v0[p] * total + tau[p] * abs(total)
        for j in range(r):
            total = 0.0
            for p in range(k):
                total += v0[p] * tangent[p, j]
            value += eta[j] * abs(total)
        best = min(best, value)
        if best <= 0.0 or turn == TURNS - 1:
            return best
        for p in range(k):
            lead[p] = 0.0
            for j in range(r):
                lead[p] += matrix[p, j] * uw[j]
        length = _norm(lead)
        if length == 0.0:
            return best
        for p in range(k):
            lead[p] /= length
        if count > FEW:  # average towards the activations of the maximiser
            for e in range(count):
                total = 0.0
                for j in range(r):
                    total += rows[undecided[e], j] * uw[j]
                theta[e] += ((1.0 if total > 0.0 else 0.0) - theta[e]) / (turn + 2.0)
    return best


@njit(cache=True, nogil=True)
def classify(rows, dual, v0, tau, w0, eta, decided, undecided, count, kind, c, rho, m, n, theta):
    """Move decided rows into ``decided`` or out, refresh the ranges of the others; return how many are left."""
    k, r = decided.shape
    left = 0
    for e in range(count):
        i = undecided[e]
        middle, reach = 0.0, 0.0
        for j in range(r):
            middle += rows[i, j] * w0[j]
            reach += abs(rows[i, j]) * eta[j]
        if middle >= reach:
            for p in range(k):
                for j in range(r):
                    decided[p, j] += dual[i, p] * rows[i, j]
        elif middle > -reach:
            undecided[left] = i
            theta[left] = theta[e]
            c[left], rho[left] = middle, reach
            middle, reach = 0.0, 0.0
            for p in range(k):
                middle += dual[i, p] * v0[p]
                reach += abs(dual[i, p]) * tau[p]
            m[left], n[left] = middle, reach
            kind[left] = 1 if middle >= reach else (-1 if middle <= -reach else 0)
            left += 1
    return left


@njit(cache=True, nogil=True)
def _worst_axis(rows, dual, bound, tau, w0, eta, undecided, count, kind, c, rho, m, n, tangent, score):
    """Coordinate whose width adds most to the error of the relaxation: v's first; −1 if none can be split."""
    k, r = tangent.shape
    for j in range(r):
        total = bound * eta[j]
        for p in range(k):
            total += 0.5 * tau[p] * abs(tangent[p, j])
        for e in range(count):
            curved = 1.0 - (c[e] / rho[e]) ** 2
            total += (1.0 if kind[e] >= 0 else 0.5) * (abs(m[e]) + n[e]) * curved * abs(rows[undecided[e], j])
        score[k + j] = total * eta[j] if eta[j] > SMALLEST else 0.0
    for p in range(k):
        total = bound * tau[p]
        for j in range(r):
            total += 0.5 * eta[j] * abs(tangent[p, j])
        for e in range(count):
            if kind[e] == 0:
                total += abs(dual[undecided[e], p]) * (rho[e] - c[e] * c[e] / rho[e])
        score[p] = total * tau[p] if tau[p] > SMALLEST else 0.0
    axis = 0
    for j in range(k + r):
        if score[j] > score[axis]:
            axis = j
    return axis if score[axis] > 0.0 else -1


@njit(cache=True, nogil=True)
def search_pairs(rows, dual, bound, chart, max_nodes, points):
    """Close all pairs of one chart.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N, k)
    bound : float
        H.
    chart : ndarray of shape (4,)
        Axis and side of v, axis and side of w.
    max_nodes : int
    points : ndarray of shape (m, r)
        Filled with neurons whose value exceeds H; the search ends when it is full.

    Returns
    -------
    nodes : int
    n_points : int
    raised : float
        How far H has to be raised for the pairs that were closed by force.
    finished : bool
        Whether every pair was closed; else nodes or places for points ran out.
    """
    n_rows, r = rows.shape
    k = dual.shape[1]
    v0, tau = np.zeros((DEPTH, k)), np.zeros((DEPTH, k))
    w0, eta = np.zeros((DEPTH, r)), np.zeros((DEPTH, r))
    undecided, counts = np.zeros((DEPTH, n_rows), np.int64), np.zeros(DEPTH, np.int64)
    theta, decided = np.zeros((DEPTH, n_rows)), np.zeros((DEPTH, k, r))
    c, rho, m, n = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    kind = np.zeros(n_rows, np.int64)
    matrix, tangent, square = np.zeros((k, r)), np.zeros((k, r)), np.zeros((k, k))
    uv, uw, lead, f, g, score = (
        np.zeros(k),
        np.zeros(r),
        np.zeros(k),
        np.zeros(k),
        np.zeros(r),
        np.zeros(k + r),
    )
    tau[0, :] = 1.0
    tau[0, int(chart[0])] = 0.0
    v0[0, int(chart[0])] = chart[1]
    eta[0, :] = 1.0
    eta[0, int(chart[2])] = 0.0
    w0[0, int(chart[2])] = chart[3]
    counts[0] = n_rows
    for i in range(n_rows):
        undecided[0, i] = i
        theta[0, i] = 0.5
    nodes, n_points, raised, d = 0, 0, 0.0, 0
    while d >= 0:
        if nodes >= max_nodes:
            return nodes, n_points, raised, False
        nodes += 1
        count = classify(
            rows, dual, v0[d], tau[d], w0[d], eta[d], decided[d], undecided[d], counts[d], kind, c, rho, m, n,
            theta[d],
        )  # fmt: skip
        counts[d] = count
        value = bound_pair(
            rows, dual, bound, chart, v0[d], tau[d], w0[d], eta[d], decided[d], undecided[d], count, kind, c, rho,
            m, n, theta[d], matrix, tangent, uv, uw, lead, f, g, square,
        )  # fmt: skip
        if value <= 0.0:
            d -= 1
            continue
        for p in range(k):
            f[p] = 0.0
        for i in range(n_rows):
            height = 0.0
            for j in range(r):
                height += rows[i, j] * uw[j]
            if height > 0.0:
                for p in range(k):
                    f[p] += height * dual[i, p]
        if _norm(f) > bound * _norm(uw):
            points[n_points] = uw
            n_points += 1
            if n_points == len(points):
                return nodes, n_points, raised, False
        axis = -1
        if d + 1 < DEPTH:
            axis = _worst_axis(
                rows, dual, bound, tau[d], w0[d], eta[d], undecided[d], count, kind, c, rho, m, n, tangent, score
            )  # fmt: skip
        if axis < 0:
            raised = max(raised, value)
            d -= 1
            continue
        counts[d + 1] = count
        for e in range(count):
            undecided[d + 1, e] = undecided[d, e]
            theta[d + 1, e] = theta[d, e]
        v0[d + 1], tau[d + 1], w0[d + 1], eta[d + 1] = v0[d], tau[d], w0[d], eta[d]
        decided[d + 1] = decided[d]
        if axis < k:  # the half that holds the tangent's point comes first
            half = 0.5 * tau[d, axis]
            first = half if uv[axis] > v0[d, axis] else -half
            tau[d, axis] = half
            tau[d + 1, axis] = half
            v0[d + 1, axis] += first
            v0[d, axis] -= first
        else:
            axis -= k
            half = 0.5 * eta[d, axis]
            first = half if uw[axis] > w0[d, axis] else -half
            eta[d, axis] = half
            eta[d + 1, axis] = half
            w0[d + 1, axis] += first
            w0[d, axis] -= first
        d += 1
    return nodes, n_points, raised, True
