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

from covopt.oracles.ascent import MOST_SWEEPS, inner, least_norm, put
from covopt.oracles.cones.narrowing import FREE, OFF, ON

CONCAVE = 3  # beside FREE, ON and OFF
SPREAD = 0.02
ROUNDS = 12
SWEEPS = 3


@njit(cache=True, nogil=True)
def _limit(state, mu, low, high, coef):
    """Write the limits of the weights, and move the weights between them; return how many rows are undecided."""
    undecided = 0
    for i in range(len(mu)):
        low[i] = high[i] = 0.5 * mu[i]
        if state[i] == FREE:
            undecided += 1
        else:
            low[i] = -np.inf if state[i] == OFF else mu[i]
            high[i] = np.inf if state[i] == ON else 0.0
        coef[i] = min(high[i], max(low[i], coef[i]))
    return undecided


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
def _combine(rows, coef, ell):
    n, r = rows.shape
    ell[:] = 0.0
    for i in range(n):
        if coef[i] != 0.0:
            for c in range(r):
                ell[c] += coef[i] * rows[i, c]


@njit(cache=True, nogil=True)
def _leaf(rows, squares, low, high, coef, target, share, ell, newton):
    """Norm of the projection of the gradient on a decided cone, from above; the direction is left in ``ell``."""
    sweeps = np.int64(MOST_SWEEPS)  # a literal would compile the callee once more
    for _ in range(2):  # the second time without the rounding of the first
        _combine(rows, coef, ell)
        least_norm(rows, squares, low, high, coef, ell, target, sweeps, newton)
    _combine(rows, coef, ell)
    length, spent = np.sqrt(inner(ell, ell)), 0.0
    for i in range(len(coef)):
        spent += abs(coef[i]) * np.sqrt(squares[i])
    return length + share * (length + spent)


@njit(cache=True, nogil=True)
def bound_node(rows, mu, state, coef, tau, nu, squares, target, rounds, share, work):
    """Bound one node, improving (coef, tau) in place; return bound, ν and the row to branch on (−1: none)."""
    n, r = rows.shape
    chol, moved, ell, best_w, gram, w, low, high, lengths, best_c, best_t, newton = work
    if _limit(state, mu, low, high, coef) == 0:
        bound = _leaf(rows, squares, low, high, coef, target, share, ell, newton)
        put(ell, best_w)
        return bound, nu, -1
    best, best_nu = np.inf, nu
    branch = -1
    stalled, sweeps, no_goal = 0, np.int64(SWEEPS), 0.0
    for turn in range(rounds):
        while not _factor(rows, mu, state, tau, nu, chol):
            nu *= 1.3
        for i in range(n):
            _forward(chol, rows[i], moved[i])
            s = inner(moved[i], moved[i])
            lengths[i] = s
        _combine(moved, coef, ell)
        least_norm(moved, lengths, low, high, coef, ell, no_goal, sweeps, newton)
        _combine(moved, coef, ell)
        constant = spectrum = spent = 0.0
        for i in range(n):
            spent += abs(coef[i]) * np.sqrt(lengths[i])
            if state[i] == FREE:
                constant += 0.25 * mu[i] * tau[i]
                spectrum += mu[i] / (4.0 * tau[i]) * squares[i]
        height = 0.25 * inner(ell, ell)
        bound = nu + height + constant
        bound += share * ((r + 1) * nu + spectrum + np.sqrt(r * nu) * spent + height + constant)
        for a in range(r - 1, -1, -1):
            s = 0.5 * ell[a]
            for e in range(a + 1, r):
                s -= chol[e, a] * w[e]
            w[a] = s / chol[a, a]
        # moments of the maximiser: w wᵀ and a share of (ν − Q)⁻¹, whose trace should be one
        stalled = stalled + 1 if bound > best - 0.02 * max(best - target, 0.0) else 0
        trace = inner(w, w)
        slope = 0.0
        spread = SPREAD * bound / r
        inverse_trace = inverse_square = 0.0
        for a in range(r):
            gram[0, :] = 0.0
            gram[0, a] = 1.0
            _forward(chol, gram[0], gram[1])
            s = inner(gram[1], gram[1])
            inverse_trace += s
            inverse_square += s * s
        _forward(chol, w, gram[1])
        for c in range(r):
            slope -= 2.0 * gram[1, c] * gram[1, c]
        total = trace + spread * inverse_trace
        slope -= spread * inverse_square
        if bound < best:
            best, best_nu = bound, nu
            put(coef, best_c)
            put(tau, best_t)
            put(w, best_w)
            most = -1.0
            for i in range(n):
                if state[i] == FREE:
                    t = inner(rows[i], w)
                    second = np.sqrt(t * t + spread * lengths[i])
                    score = mu[i] * (0.5 * (second + t) - max(t, 0.0))
                    score += 0.1 * mu[i] * second
                    if score > most:
                        most, branch = score, i
        if best <= target or stalled >= 3:
            break
        for i in range(n):
            if state[i] == FREE:
                t = inner(rows[i], w)
                second = np.sqrt((t * t + spread * lengths[i]) / total)
                floor = 1e-4 * np.sqrt(squares[i])
                tau[i] = max(floor, np.sqrt(tau[i] * second) if turn < 2 else 0.5 * (tau[i] + second))
        if slope < 0.0:
            nu = max(0.3 * nu, min(3.0 * nu, nu + 2.0 * total * (1.0 - np.sqrt(total)) / slope))
    put(best_c, coef)
    put(best_t, tau)
    return best, best_nu, branch


@njit(cache=True, nogil=True)
def workspace(n, r):
    """Arrays that :func:`bound_node` writes to; the fourth is left with the maximiser's direction."""
    return (
        np.empty((r, r)), np.empty((n, r)), np.empty(r), np.empty(r), np.empty((2, r)), np.empty(r),
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty((4, r, r)),
    )  # fmt: skip
