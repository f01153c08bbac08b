r"""Bound of a node of :mod:`covopt.oracles.signs.sign_tree`: F(w) = Σ μ_i σ(z_i·w) over a cone, from above.

A row of negative weight is a minimum of linear functions, μσ(t) = min_{θ∈[0,1]} θμt, and needs no decision. A row of
positive weight is on (weight at least μ: t ≥ 0 there), off (weight at most 0), or undecided, where
σ(t) ≤ t/2 + t²/(4τ) + τ/4 for every τ > 0. So for all weights c within these limits, τ > 0 and ν above the spectrum
of Q = Σ_U μ_i z_i z_iᵀ/(4τ_i),

.. math::
    \max_{\|w\| = 1} F(w) \le ν + \tfrac14 b^T (ν - Q)^{-1} b + \tfrac14 \sum_U μ_i τ_i, \qquad b = \sum_i c_i z_i

with c_i = μ_i/2 on the undecided rows; what rounding does to it is paid (``share``, which is
:func:`covopt.exact.definite.descent_share`). A node takes its parent's (c, τ, ν), descends by coordinates in c and
updates τ, ν from the maximiser. When all is decided Q = 0 and the minimum over ν is ‖b‖: the projection of the
gradient on the cone.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FREE, ON, OFF, CONCAVE = 0, 1, 2, 3
SPREAD = 0.02
ROUNDS = 12
SWEEPS = 3
LEAF_SWEEPS = 400


@njit(cache=True, nogil=True)
def _limits(state, mu):
    if state == CONCAVE:
        return mu, 0.0
    if state == ON:
        return mu, np.inf
    if state == OFF:
        return -np.inf, 0.0
    return 0.5 * mu, 0.5 * mu


@njit(cache=True, nogil=True)
def _factor(rows, mu, state, tau, nu, chol):
    """Cholesky of ν − Q into the lower triangle; False when it is not safely positive."""
    n, r = rows.shape
    for a in range(r):
        for b in range(a + 1):
            chol[a, b] = 0.0
        chol[a, a] = nu
    for i in range(n):
        if state[i] == FREE:
            f = mu[i] / (4.0 * tau[i])
            for a in range(r):
                fa = f * rows[i, a]
                for b in range(a + 1):
                    chol[a, b] -= fa * rows[i, b]
    for a in range(r):
        for b in range(a + 1):
            s = chol[a, b]
            for e in range(b):
                s -= chol[a, e] * chol[b, e]
            if a == b:
                if s <= 1e-7 * nu:
                    return False
                chol[a, a] = np.sqrt(s)
            else:
                chol[a, b] = s / chol[b, b]
    return True


@njit(cache=True, nogil=True)
def _forward(chol, vector, out):
    r = len(vector)
    for a in range(r):
        s = vector[a]
        for e in range(a):
            s -= chol[a, e] * out[e]
        out[a] = s / chol[a, a]


@njit(cache=True, nogil=True)
def _sweep(moved, squares, state, mu, coef, ell):
    """One round of coordinate descent on ‖ell‖² over the weights; return the largest relative move."""
    n, r = moved.shape
    size = 0.0
    for i in range(n):
        if state[i] == FREE or squares[i] == 0.0:
            continue
        s = 0.0
        for c in range(r):
            s += ell[c] * moved[i, c]
        low, high = _limits(state[i], mu[i])
        old = coef[i]
        new = min(high, max(low, old - s / squares[i]))
        if new != old:
            coef[i] = new
            d = new - old
            size = max(size, d * d * squares[i])
            for c in range(r):
                ell[c] += d * moved[i, c]
    return size


@njit(cache=True, nogil=True)
def _newton(moved, state, mu, coef, ell, gram, shift, free):
    """Minimise ‖ell‖ over the weights strictly inside their limits, or go to the first limit met."""
    n, r = moved.shape
    f = 0
    for i in range(n):
        low, high = _limits(state[i], mu[i])
        if low < coef[i] < high:
            if f == r:
                return
            free[f] = i
            f += 1
    if f < 2:
        return
    for p in range(f):
        for q in range(p + 1):
            s = 0.0
            for c in range(r):
                s += moved[free[p], c] * moved[free[q], c]
            diagonal = s
            for e in range(q):
                s -= gram[p, e] * gram[q, e]
            if p == q:
                gram[p, p] = np.sqrt(s) if s > 1e-13 * diagonal else 0.0
            elif gram[q, q] > 0.0:
                gram[p, q] = s / gram[q, q]
            else:
                gram[p, q] = 0.0
    for p in range(f):
        s = 0.0
        for c in range(r):
            s -= moved[free[p], c] * ell[c]
        for e in range(p):
            s -= gram[p, e] * shift[e]
        shift[p] = s / gram[p, p] if gram[p, p] > 0.0 else 0.0
    for p in range(f - 1, -1, -1):
        s = shift[p]
        for e in range(p + 1, f):
            s -= gram[e, p] * shift[e]
        shift[p] = s / gram[p, p] if gram[p, p] > 0.0 else 0.0
    step = 1.0
    for p in range(f):
        i = free[p]
        low, high = _limits(state[i], mu[i])
        if shift[p] > 0.0:
            step = min(step, (high - coef[i]) / shift[p])
        elif shift[p] < 0.0:
            step = min(step, (low - coef[i]) / shift[p])
    for p in range(f):
        i = free[p]
        low, high = _limits(state[i], mu[i])
        new = min(high, max(low, coef[i] + step * shift[p]))
        d = new - coef[i]
        coef[i] = new
        for c in range(r):
            ell[c] += d * moved[i, c]


@njit(cache=True, nogil=True)
def _combine(rows, coef, ell):
    n, r = rows.shape
    ell[:] = 0.0
    for i in range(n):
        if coef[i] != 0.0:
            for c in range(r):
                ell[c] += coef[i] * rows[i, c]


@njit(cache=True, nogil=True)
def height(rows, mu, w):
    """F at w / ‖w‖."""
    n, r = rows.shape
    total = size = 0.0
    for c in range(r):
        size += w[c] * w[c]
    for i in range(n):
        s = 0.0
        for c in range(r):
            s += rows[i, c] * w[c]
        if s > 0.0:
            total += mu[i] * s
    return total / np.sqrt(size) if size > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _leaf(rows, mu, state, coef, squares, target, share, ell, gram, shift, free):
    """Norm of the projection of the gradient on a decided cone, from above; the direction is left in ``ell``."""
    _combine(rows, coef, ell)
    last = np.inf
    for turn in range(LEAF_SWEEPS):
        _sweep(rows, squares, state, mu, coef, ell)
        _newton(rows, state, mu, coef, ell, gram, shift, free)
        if turn % 8 == 7:
            _combine(rows, coef, ell)
        square = (ell**2).sum()
        if square <= target * target or square >= last * (1.0 - 1e-14):
            break
        last = square
    _combine(rows, coef, ell)
    length = np.sqrt((ell**2).sum())
    return length + share * (length + (np.abs(coef) * np.sqrt(squares)).sum())


@njit(cache=True, nogil=True)
def bound_node(rows, mu, state, coef, tau, nu, squares, target, rounds, share, work):
    """Bound one node, improving (coef, tau) in place; return bound, ν and the row to branch on (−1: none)."""
    n, r = rows.shape
    chol, moved, ell, best_w, gram, shift, free, lengths, best_c, best_t = work
    undecided = 0
    for i in range(n):
        low, high = _limits(state[i], mu[i])
        coef[i] = min(high, max(low, coef[i]))
        if state[i] == FREE:
            undecided += 1
    if undecided == 0:
        bound = _leaf(rows, mu, state, coef, squares, target, share, ell, gram, shift, free)
        best_w[:] = ell
        return bound, nu, -1
    best, best_nu = np.inf, nu
    branch = -1
    w = shift[:r]
    stalled = 0
    for turn in range(rounds):
        while not _factor(rows, mu, state, tau, nu, chol):
            nu *= 1.3
        for i in range(n):
            _forward(chol, rows[i], moved[i])
            s = 0.0
            for c in range(r):
                s += moved[i, c] * moved[i, c]
            lengths[i] = s
        _combine(moved, coef, ell)
        for _ in range(SWEEPS):
            _sweep(moved, lengths, state, mu, coef, ell)
        _combine(moved, coef, ell)
        constant = spectrum = spent = 0.0
        for i in range(n):
            spent += abs(coef[i]) * np.sqrt(lengths[i])
            if state[i] == FREE:
                constant += 0.25 * mu[i] * tau[i]
                spectrum += mu[i] / (4.0 * tau[i]) * squares[i]
        height = 0.25 * (ell**2).sum()
        bound = nu + height + constant
        bound += share * ((r + 1) * nu + spectrum + np.sqrt(r * nu) * spent + height + constant)
        for a in range(r - 1, -1, -1):
            s = 0.5 * ell[a]
            for e in range(a + 1, r):
                s -= chol[e, a] * w[e]
            w[a] = s / chol[a, a]
        # moments of the maximiser: w wᵀ and a share of (ν − Q)⁻¹, whose trace should be one
        stalled = stalled + 1 if bound > best - 0.02 * max(best - target, 0.0) else 0
        trace = (w**2).sum()
        slope = 0.0
        spread = SPREAD * bound / r
        inverse_trace = inverse_square = 0.0
        for a in range(r):
            gram[0, :] = 0.0
            gram[0, a] = 1.0
            _forward(chol, gram[0], gram[1])
            s = 0.0
            for c in range(r):
                s += gram[1, c] * gram[1, c]
            inverse_trace += s
            inverse_square += s * s
        _forward(chol, w, gram[1])
        for c in range(r):
            slope -= 2.0 * gram[1, c] * gram[1, c]
        total = trace + spread * inverse_trace
        slope -= spread * inverse_square
        if bound < best:
            best, best_nu = bound, nu
            best_c[:] = coef
            best_t[:] = tau
            best_w[:] = w
            most = -1.0
            for i in range(n):
                if state[i] == FREE:
                    t = 0.0
                    for c in range(r):
                        t += rows[i, c] * w[c]
                    second = np.sqrt(t * t + spread * lengths[i])
                    score = mu[i] * (0.5 * (second + t) - max(t, 0.0))
                    score += 0.1 * mu[i] * second
                    if score > most:
                        most, branch = score, i
        if best <= target or stalled >= 3:
            break
        for i in range(n):
            if state[i] == FREE:
                t = 0.0
                for c in range(r):
                    t += rows[i, c] * w[c]
                second = np.sqrt((t * t + spread * lengths[i]) / total)
                floor = 1e-4 * np.sqrt(squares[i])
                tau[i] = max(floor, np.sqrt(tau[i] * second) if turn < 2 else 0.5 * (tau[i] + second))
        if slope < 0.0:
            nu = max(0.3 * nu, min(3.0 * nu, nu + 2.0 * total * (1.0 - np.sqrt(total)) / slope))
    coef[:] = best_c
    tau[:] = best_t
    return best, best_nu, branch


@njit(cache=True, nogil=True)
def workspace(n, r):
    """Arrays that :func:`bound_node` writes to; the fourth is left with the maximiser's direction."""
    return (
        np.empty((r, r)), np.empty((n, r)), np.empty(r), np.empty(r), np.empty((max(r, 2), r)),
        np.empty(max(r, 1)), np.empty(r, np.int64), np.empty(n), np.empty(n), np.empty(n),
    )  # fmt: skip
