"""A bound on one pair of boxes, one of directions w and one of output directions v: several outputs.

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
def norm(u):
    """‖u‖."""
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
    lead[:] = v0 / norm(v0)
    best = np.inf
    for turn in range(TURNS):
        _relax(rows, dual, decided, undecided, count, kind, c, rho, m, n, theta, chart, matrix)
        if 0 < count <= FEW and _descend(rows, dual, undecided, count, kind, lead, matrix, theta, g):
            _relax(rows, dual, decided, undecided, count, kind, c, rho, m, n, theta, chart, matrix)
        if _is_below(matrix, bound, square):
            return -1.0
        length = norm(uv)
        for j in range(r):
            g[j] = 0.0
            for p in range(k):
                g[j] += matrix[p, j] * uv[p] / length
        _ascend(g, w0, eta, axis, bound, uw)
        width = norm(uw)
        for p in range(k):
            f[p] = 0.0
            for j in range(r):
                f[p] += matrix[p, j] * uw[j] / width
        _ascend(f, v0, tau, out_axis, bound, uv)
        length = norm(uv)
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
        length = norm(lead)
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
