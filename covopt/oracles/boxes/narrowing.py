r"""The parts of a box that can be left out because its bound excludes them.

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

from covopt.exact.rank import COMPUTED
from covopt.oracles.ascent import inner
from covopt.oracles.boxes.sphere_form import factor, forward, proved_on_sphere, shift

SURE = 1.02  # factor by which the ellipsoid must be missed before a proof is tried, or a value exceeded for a search


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
    if not height * height > SURE * (nu + mu + rest - H) * square:
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
