"""The concave subproblem inside the local search: a box-constrained smallest norm.

Rows with negative weight make F concave. For a linear part b and such rows J

    max_{‖w‖ ≤ 1}  b·w + Σ_{j∈J} μ_j σ(z_j·w)   =   min_{θ ∈ [0,1]^J}  ‖b + Σ_j θ_j μ_j z_j‖

(μ_j σ(t) = min_θ θ μ_j t for μ_j < 0, then minimax on compact convex sets). Every θ on the right is an
upper bound, whether or not the descent has converged, and the maximiser on the left is the minimiser
ℓ*/‖ℓ*‖. Rows with 0 < θ_j < 1 vanish at it: it is the projection of a gradient on a flat,
see Bach 2017 §2.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PIVOT = 1e-13  # relative squared distance below which a row depends on earlier ones
STALL = 1e-15  # relative decrease of the squared norm in one round that ends the descent


@njit(cache=True, nogil=True)
def _free_step(ell, rows, mu, members, theta, scratch, free, shift):
    """Minimise the norm over the θ strictly inside their bounds, or go to the first bound met."""
    r = len(ell)
    f = 0
    for j in range(len(members)):
        if 0.0 < theta[j] < 1.0:
            if f == r:
                return
            free[f] = j
            i = members[j]
            for c in range(r):
                scratch[f, c] = mu[i] * rows[i, c]
            f += 1
    if f < 2:
        return
    # Cholesky of the Gram matrix in the columns behind the vectors, then −AᵀA c = Aᵀℓ
    for p in range(f):
        for q in range(p + 1):
            s = 0.0
            for c in range(r):
                s += scratch[p, c] * scratch[q, c]
            diagonal = s
            for e in range(q):
                s -= scratch[p, r + e] * scratch[q, r + e]
            if p == q:
                scratch[p, r + p] = np.sqrt(s) if s > PIVOT * diagonal else 0.0
            elif scratch[q, r + q] > 0.0:
                scratch[p, r + q] = s / scratch[q, r + q]
            else:
                scratch[p, r + q] = 0.0
    for p in range(f):
        s = 0.0
        for c in range(r):
            s -= scratch[p, c] * ell[c]
        for e in range(p):
            s -= scratch[p, r + e] * shift[e]
        shift[p] = s / scratch[p, r + p] if scratch[p, r + p] > 0.0 else 0.0
    for p in range(f - 1, -1, -1):
        s = shift[p]
        for e in range(p + 1, f):
            s -= scratch[e, r + p] * shift[e]
        shift[p] = s / scratch[p, r + p] if scratch[p, r + p] > 0.0 else 0.0
    step = 1.0
    for p in range(f):
        x = theta[free[p]]
        if shift[p] > 0.0:
            step = min(step, (1.0 - x) / shift[p])
        elif shift[p] < 0.0:
            step = min(step, -x / shift[p])
    for p in range(f):
        d = step * shift[p]
        theta[free[p]] = min(1.0, max(0.0, theta[free[p]] + d))
        for c in range(r):
            ell[c] += d * scratch[p, c]


@njit(cache=True, nogil=True)
def descend(ell, rows, mu, squares, members, theta, max_rounds, scratch, free, shift):
    """Decrease ‖ell‖ by coordinate descent and steps on the free variables; return the norm and the rounds it took.

    ``ell`` enters as b + Σ θ_j μ_j z_j over the rows in ``members`` (all with μ < 0) and leaves with the
    new ``theta``. ``squares`` holds ‖z_i‖²; ``scratch`` is (r, 2r), ``free`` and ``shift`` have length r.
    """
    r = len(ell)
    last = np.inf
    square = 0.0
    rounds = 0
    for turn in range(max_rounds):
        rounds += 1
        for j in range(len(members)):
            i = members[j]
            s = 0.0
            for c in range(r):
                s += ell[c] * rows[i, c]
            x = theta[j]
            y = min(1.0, max(0.0, x - s / (mu[i] * squares[i])))
            if y != x:
                theta[j] = y
                d = (y - x) * mu[i]
                for c in range(r):
                    ell[c] += d * rows[i, c]
        if turn % 2 == 1:
            _free_step(ell, rows, mu, members, theta, scratch, free, shift)
        square = 0.0
        for c in range(r):
            square += ell[c] * ell[c]
        if turn % 2 == 1:
            if square >= last * (1.0 - STALL):
                break
            last = square
    return np.sqrt(square), rounds


@njit(cache=True, nogil=True)
def evaluate(rows, mu, linear, w):
    """F(w) for one w."""
    total = 0.0
    for c in range(len(w)):
        total += linear[c] * w[c]
    for i in range(rows.shape[0]):
        s = 0.0
        for c in range(len(w)):
            s += rows[i, c] * w[c]
        if s > 0.0:
            total += mu[i] * s
    return total
