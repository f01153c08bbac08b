r"""The largest value of wᵀMw + b·w over unit vectors w: dual multipliers, a maximiser, and a proof.

With ν above the spectrum of M it is at most ν + ¼ bᵀ(ν − M)⁻¹b, convex in ν. The best ν makes s = (ν − M)⁻¹b/2 a unit
vector; if s is always shorter, it is the top eigenvalue, and a multiple of its eigenvector is added to s. No
eigenvalue is computed: ν moves by Newton's method on ‖s‖ and by inverse iteration towards the top eigenvalue, with a
Cholesky factor each. For ten coordinates that is three times as fast, and it is most of the work where rows are few.

**Parts of a box that can be left out because its bound excludes them.**
A quadratic bound says F(w) ≤ wᵀMw + b·w + c = B − Q(w) with Q(w) ≥ 0 on the sphere. Where F exceeds a level H,
Q(w) < B − H: an ellipsoid around ŵ = ½(ν − M)⁻¹b. A half-space y·w ≤ 0 misses it when (y·ŵ)² > (B − H) yᵀ(ν − M)⁻¹y
and y·ŵ > 0. Then the sign of a row is known, or half of the box is not needed.

Such half-spaces are found in floating point and then proved: where y·w ≤ 0, F(w) ≤ wᵀMw + (b − κy)·w + c for every κ
≥ 0, and a Cholesky factorisation bounds this as it does the whole box. Half-spaces are given by rows, or by one axis
of the box, whose centre is exact; b − κy has an error of 2ε(|b_j| + |κy_j|) in a coordinate, which is added as in
:mod:`.quadratic`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import njit

from covopt.exact.rank import COMPUTED, NEAR, ROUGH
from covopt.exact.rounding import EPS, TINY
from covopt.oracles.ascent import MOST_STEPS, inner, put


@njit(cache=True, nogil=True, error_model="numpy")
def factor(M, nu, least, A):
    """Write the Cholesky factor of ν − M, with inverse pivots; return whether all pivots exceed ``least``."""
    for j in range(len(M)):
        for k in range(j):
            t = -M[j, k]
            for i in range(k):
                t -= A[j, i] * A[k, i]
            A[j, k] = t * A[k, k]
        t = nu - M[j, j]
        for i in range(j):
            t -= A[j, i] * A[j, i]
        if not t > least:
            return False
        A[j, j] = 1.0 / np.sqrt(t)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def forward(A, x):
    """Multiply x by the inverse of the factor in place: the first half of x ↦ (ν − M)⁻¹x."""
    for j in range(len(A)):
        t = x[j]
        for i in range(j):
            t -= A[j, i] * x[i]
        x[j] = t * A[j, j]


@njit(cache=True, nogil=True, error_model="numpy")
def solve(A, x):
    """Multiply x by (ν − M)⁻¹ in place."""
    r = len(A)
    forward(A, x)
    for j in range(r - 1, -1, -1):
        t = x[j]
        for i in range(j + 1, r):
            t -= A[i, j] * x[i]
        x[j] = t * A[j, j]


@njit(cache=True, nogil=True, error_model="numpy")
def shift(A, b, s):
    """Write (ν − M)⁻¹b/2 to s, and return its length."""
    for j in range(len(b)):
        s[j] = 0.5 * b[j]
    solve(A, s)
    return np.sqrt(inner(s, s))


@njit(cache=True, nogil=True, error_model="numpy")
def on_sphere(M, b, w, v, z, start, A, y):
    """Return ν and μ for the maximum of wᵀMw + b·w over unit w; the maximiser has moments w and wwᵀ + vvᵀ.

    Parameters
    ----------
    M, b : ndarray of shape (r, r), (r,)
    w, v : ndarray of shape (r,)
        Outputs.
    z : ndarray of shape (r,)
        A unit vector, near the top eigenvector if that is known; changed in place.
    start : float
        Starting value of ν.
    A, y : ndarray of shape (r, r), (r,)
        Scratch.
    """
    r = len(b)
    low = -np.inf
    for j in range(r):
        low = max(low, M[j, j])
    size, length = 0.0, np.sqrt(inner(b, b))
    for j in range(r):
        size += inner(M[j], M[j])
    size = np.sqrt(size)
    scale = size + length
    if scale == 0.0:
        w[:] = 0.0
        put(z, v)
        return 0.0, 0.0
    high = size + 0.5 * length + 1e-13 * scale
    nu = start if low < start < high else high
    norm, done = 0.0, False
    for _ in range(MOST_STEPS):
        if not factor(M, nu, 1e-14 * scale, A):
            low = max(low, nu)
            nu = low + 0.2 * (high - low)
            continue
        norm = shift(A, b, w)
        done = abs(norm - 1.0) <= NEAR
        if done:
            break
        put(w, y)
        forward(A, y)
        square = inner(y, y)
        step = norm * norm / square * (norm - 1.0) if square > 0.0 else -np.inf
        if norm > 1.0:
            low = max(low, nu)
            nu = nu + step if nu + step < high else 0.5 * (nu + high)
            done = nu - low <= 1e-13 * scale
        else:
            high = min(high, nu)
            put(z, y)
            solve(A, y)
            square = inner(y, y)
            low = max(low, nu - inner(y, z) / square)  # a value of zᵀMz: at most the top eigenvalue
            square = 1.0 / np.sqrt(square)
            for j in range(r):
                z[j] = y[j] * square
            done = high - low <= COMPUTED * scale
            if not done:
                nu += step
                if not nu > low + 0.1 * COMPUTED * scale:
                    nu = low + max(0.02 * (high - low), 0.5 * COMPUTED * scale)
        if done:
            break
    if not done:
        nu = high
        factor(M, nu, 0.0, A)
        norm = shift(A, b, w)
    mu = 0.5 * inner(w, b)
    longest, rest = max(1.0, norm), np.sqrt(max(0.0, 1.0 - norm * norm))
    for j in range(r):
        w[j] /= longest
        v[j] = z[j] * rest
    return nu, mu


@njit(cache=True, nogil=True, error_model="numpy")
def proved_on_sphere(M, b, nu, mu, A):
    """Return an upper bound on wᵀMw + b·w on the sphere, about ν + μ; infinity if the proof fails."""
    r = len(b)
    for _ in range(6):
        trace = abs(mu)
        for j in range(r):
            trace += abs(nu) + abs(M[j, j])
        lift = 8.0 * (r + 4) * EPS * trace + TINY
        nu, mu = nu + lift, mu + lift
        for j in range(r):
            for k in range(j):
                A[j, k] = -M[j, k]
            A[j, j] = nu - M[j, j]
            A[r, j] = -0.5 * b[j]
        A[r, r] = mu
        trace = mu
        for j in range(r):
            trace += A[j, j]
        failed = False
        for j in range(r + 1):
            for k in range(j + 1):
                total = A[j, k]
                for i in range(k):
                    total -= A[j, i] * A[k, i]
                if k < j:
                    A[j, k] = total / A[k, k]
                elif total > 0.0:
                    A[j, j] = np.sqrt(total)
                else:
                    failed = True
            if failed:
                break
        if not failed:
            return nu + mu + 2.0 * (r + 6) * EPS * trace
        nu, mu = nu + 16.0 * lift, mu + 16.0 * lift
    return np.inf


class Sign(IntEnum):
    """Assumed sign of a row: none, t ≥ 0, t ≤ 0; or a row that needs no decision, of negative weight or linear."""

    FREE = 0
    ON = 1
    OFF = 2
    CONCAVE = 3
    LINEAR = 4


@njit(cache=True, nogil=True, error_model="numpy")
def missed(M, b, nu, mu, rest, H, w, A, y, units, tilted, z, scratch):
    """Return 1 where F ≤ H is proved for all w with y·w ≤ 0, −1 for y·w ≥ 0, 0 for neither.

    Parameters
    ----------
    M, b, nu, mu, rest : ndarray, ndarray, float, float, float
        F is at most wᵀMw + b·w + rest, and that is at most ν + μ + rest.
    H : float
    w, A : ndarray of shape (r,), (r, r)
        Centre of the ellipsoid, and the factor of ν − M.
    y : ndarray of shape (r,)
    units : float
        Rounding error relative to the size of the terms.
    tilted, z, scratch : ndarray
        Scratch.
    """
    height = 0.0
    for j in range(len(b)):
        height += y[j] * w[j]
        z[j] = y[j]
    forward(A, z)
    square = inner(z, z)
    if not height * height > (1.0 + ROUGH) * (nu + mu + rest - H) * square:
        return 0
    kappa, size = 2.0 * height / square, 0.0
    for j in range(len(b)):
        tilted[j] = b[j] - kappa * y[j]
        size += 8.0 * abs(kappa * y[j]) + 2.0 * abs(b[j])
    if proved_on_sphere(M, tilted, nu, mu - height * height / square, scratch) + rest + units * size <= H:
        return 1 if height > 0.0 else -1
    return 0


@njit(cache=True, nogil=True, error_model="numpy")
def narrow(M, b, nu, mu, rest, H, units, Y, weights, index, fixed, a, side, u0, s):
    """Fix signs of rows of positive weight and halve the box, where F ≤ H is proved for the part left out.

    The signs of other rows stay free: assuming one would lose the bounds on that row from below.

    Parameters
    ----------
    M, b, nu, mu, rest, H, units
        As for :func:`missed`.
    Y, weights, index : ndarray of shape (m, r), (m,), (m,)
        Undecided rows, their signs, and their places in ``fixed``.
    fixed : ndarray of shape (n,), uint8
        Changed in place, as are the centre ``u0`` and the half-widths ``s``.
    a, side : int, float
        Chart.

    Returns
    -------
    int
        Number of axes along which the box was halved.
    """
    r = len(b)
    A, scratch = np.empty((r, r)), np.empty((r + 1, r + 1))
    w, z, tilted, y = np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    lift = COMPUTED * (abs(nu) + abs(mu))
    nu, mu = nu + lift, mu + lift
    if not nu + mu + rest < np.inf or not factor(M, nu, 0.0, A):
        return 0
    shift(A, b, w)
    n_axes = 0
    for q in range(len(Y)):
        if weights[q] > 0.0:
            found = missed(M, b, nu, mu, rest, H, w, A, Y[q], units, tilted, z, scratch)
            if found != 0:
                fixed[index[q]] = Sign.ON if found > 0 else Sign.OFF
    for j in range(r):
        if s[j] > 0.0:
            y[:] = 0.0
            y[j], y[a] = 1.0, -u0[j] * side
            found = missed(M, b, nu, mu, rest, H, w, A, y, units, tilted, z, scratch)
            if found != 0:
                s[j] *= 0.5
                u0[j] += found * s[j]
                n_axes += 1
    return n_axes
