r"""Least norms: the θ of a box, and local maxima.

The maximum over the unit ball of b·u − Σ σ(y_i·u) is the least ‖Q‖, Q = b − Σ θ_i y_i, over θ in [0, 1], by minimax;
it is attained at u = Q/‖Q‖, and 0 < θ_i < 1 only where y_i·u = 0. On the cone over a box, {u : n_k·u ≥ 0}, it is the
least ‖Q + Σ α_k n_k‖ over θ and α ≥ 0. Every θ gives a bound, wherever the descent stops.
"""

from __future__ import annotations

import numpy as np
from numba import njit

DEPENDENT = 1e-13  # squared relative distance to the span of earlier columns
STALL = 1e-13  # relative decrease of the square in one cycle that ends the descent
GOAL = 0.999  # of H: small enough to close the box
CYCLES = 10  # of two sweeps and a step
CLIMB_CYCLES = 50
TANGENTS = 60


@njit(cache=True, nogil=True, error_model="numpy")
def _add_column(column, basis, triangle, count):
    """Orthogonalise ``column`` against the basis; append it unless it depends on the earlier ones."""
    r = len(column)
    size, rest = 0.0, 0.0
    for j in range(r):
        size += column[j] * column[j]
        basis[count, j] = column[j]
    for p in range(count):
        dot = 0.0
        for j in range(r):
            dot += basis[p, j] * basis[count, j]
        triangle[p, count] = dot
        for j in range(r):
            basis[count, j] -= dot * basis[p, j]
    for j in range(r):
        rest += basis[count, j] * basis[count, j]
    if rest <= DEPENDENT * size:
        return False
    length = np.sqrt(rest)
    triangle[count, count] = length
    for j in range(r):
        basis[count, j] /= length
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _free_step(rows, weights, index, theta, u0, s, a, facets, Q, above, below, work):
    """Minimise ‖Q‖ over the multipliers strictly inside their bounds, or go to the first bound met."""
    r = len(Q)
    columns, basis, triangle = work[0], work[1], work[2]
    shift, kind, place = work[3, 0], work[3, 1], work[3, 2]
    count = 0
    side = u0[a]
    for k in range(len(index)):
        if count < r and weights[index[k]] < 0.0 and 0.0 < theta[k] < 1.0:
            for j in range(r):
                columns[count, j] = -rows[index[k], j]
            if _add_column(columns[count], basis, triangle, count):
                kind[count], place[count] = 0.0, k
                count += 1
    if facets:
        for j in range(r):
            for sign in (1.0, -1.0):
                multiplier = above[j] if sign > 0.0 else below[j]
                if count < r and multiplier > 0.0:
                    for p in range(r):
                        columns[count, p] = 0.0
                    columns[count, j] = sign
                    columns[count, a] = side * (s[j] - sign * u0[j])
                    if _add_column(columns[count], basis, triangle, count):
                        kind[count], place[count] = sign, j
                        count += 1
    if count < 2:
        return
    for p in range(count - 1, -1, -1):
        value = 0.0
        for j in range(r):
            value -= basis[p, j] * Q[j]
        for e in range(p + 1, count):
            value -= triangle[p, e] * shift[e]
        shift[p] = value / triangle[p, p]
    step = 1.0
    for p in range(count):
        i = int(place[p])
        x = theta[i] if kind[p] == 0.0 else (above[i] if kind[p] > 0.0 else below[i])
        if shift[p] < 0.0:
            step = min(step, -x / shift[p])
        elif kind[p] == 0.0 and shift[p] > 0.0:
            step = min(step, (1.0 - x) / shift[p])
    for p in range(count):
        i = int(place[p])
        d = step * shift[p]
        if kind[p] == 0.0:
            theta[i] = min(1.0, max(0.0, theta[i] + d))
        elif kind[p] > 0.0:
            above[i] = max(0.0, above[i] + d)
        else:
            below[i] = max(0.0, below[i] + d)
        for j in range(r):
            Q[j] += d * columns[p, j]


@njit(cache=True, nogil=True, error_model="numpy")
def descend(rows, squares, weights, index, theta, u0, s, a, facets, goal, Q, above, below, work):
    """Minimise ‖Q‖ over θ, with ``facets`` also over the multipliers of the box's facets; stop below ``goal``.

    Sweeps over the coordinates alternate with a step on those inside their bounds, exact once these are found.
    Without a goal there are more of them.
    ``work`` is of shape (4, max(r, 3), r).
    """
    r = len(Q)
    side = u0[a]
    last = np.inf
    cycles = CYCLES if goal > 0.0 else CLIMB_CYCLES
    for turn in range(2 * cycles):
        if facets:
            for j in range(r):
                if s[j] > 0.0:
                    n = side * (s[j] - u0[j])  # the facet u_j ≥ u⁰_j − s_j
                    t = max(0.0, above[j] - (Q[j] + n * Q[a]) / (1.0 + n * n))
                    step = t - above[j]
                    above[j] = t
                    Q[j] += step
                    Q[a] += step * n
                    n = side * (s[j] + u0[j])  # the facet u_j ≤ u⁰_j + s_j
                    t = max(0.0, below[j] - (n * Q[a] - Q[j]) / (1.0 + n * n))
                    step = t - below[j]
                    below[j] = t
                    Q[j] -= step
                    Q[a] += step * n
        for k in range(len(index)):
            i = index[k]
            if weights[i] < 0.0:
                dot = 0.0
                for j in range(r):
                    dot += Q[j] * rows[i, j]
                t = min(1.0, max(0.0, theta[k] + dot / squares[i]))
                step = t - theta[k]
                if step != 0.0:
                    theta[k] = t
                    for j in range(r):
                        Q[j] -= step * rows[i, j]
        if turn % 2 == 1:
            _free_step(rows, weights, index, theta, u0, s, a, facets, Q, above, below, work)
            square = 0.0
            for j in range(r):
                square += Q[j] * Q[j]
            if square >= last * (1.0 - STALL) or square <= goal * goal:
                break
            last = square


@njit(cache=True, nogil=True, error_model="numpy")
def least_norm(rows, squares, weights, index, theta, f, q, u0, s, a, facets, H, Q, above, below, work):
    """Change θ such that the affine bound f + q·δ on the chart, written as Q·u, has a smaller norm."""
    r = rows.shape[1]
    rest = f
    for j in range(r):
        Q[j] = q[j]
        above[j] = 0.0
        below[j] = 0.0
        if j != a:
            rest -= q[j] * u0[j]
    Q[a] = u0[a] * rest
    descend(rows, squares, weights, index, theta, u0, s, a, facets, GOAL * H, Q, above, below, work)


@njit(cache=True, nogil=True, error_model="numpy")
def settle(rows, weights, index, theta, u, work):
    """Move u, in place, to where the rows with 0 < θ_i < 1 vanish, by the shortest way.

    Q/‖Q‖ is there in exact arithmetic; in floating point Q is a small difference of large rows, u need not be.
    """
    r = len(u)
    columns, basis, triangle, shift = work[0], work[1], work[2], work[3, 0]
    for _ in range(2):
        count = np.int64(0)  # a literal would compile the call below once more
        for k in range(len(index)):
            i = index[k]
            if count < r - 1 and weights[i] < 0.0 and 0.0 < theta[k] < 1.0:
                value = 0.0
                for j in range(r):
                    columns[count, j] = rows[i, j]
                    value -= rows[i, j] * u[j]
                if _add_column(columns[count], basis, triangle, count):
                    for p in range(count):
                        value -= triangle[p, count] * shift[p]
                    shift[count] = value / triangle[count, count]
                    count += 1
        for p in range(count):
            for j in range(r):
                u[j] += shift[p] * basis[p, j]


@njit(cache=True, nogil=True, error_model="numpy")
def height(rows, weights, linear, u):
    """F(u) = linear·u + Σ w_i σ(y_i·u)."""
    r = rows.shape[1]
    total = 0.0
    for j in range(r):
        total += linear[j] * u[j]
    for i in range(len(rows)):
        t = 0.0
        for j in range(r):
            t += rows[i, j] * u[j]
        if t > 0.0:
            total += weights[i] * t
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def rise(rows, squares, weights, linear, u):
    """Climb from the unit vector u to a local maximum of F on the sphere, in place; return F there.

    The rows with w_i > 0 are replaced by their tangent at u, a minorant, and the concave rest is maximised over the
    ball: its maximum is the least norm over θ, its maximiser Q/‖Q‖. No step descends, and tangents are finitely many.
    """
    n, r = rows.shape
    index, theta = np.arange(n).astype(np.int32), np.empty(n)  # the type that a stack has
    Q, above, below, v = np.empty(r), np.zeros(r), np.zeros(r), np.empty(r)
    work = np.empty((4, max(r, 3), r))
    axis, facets = np.int64(0), r == 0  # none; literals would compile everything below once more
    value = height(rows, weights, linear, u)
    for _ in range(TANGENTS):
        for j in range(r):
            Q[j] = linear[j]
        for i in range(n):
            t = 0.0
            for j in range(r):
                t += rows[i, j] * u[j]
            theta[i] = 1.0 if t > 0.0 else 0.0
            if t > 0.0:
                for j in range(r):
                    Q[j] += weights[i] * rows[i, j]
        descend(rows, squares, weights, index, theta, u, v, axis, facets, 0.0, Q, above, below, work)
        size = np.sqrt((Q * Q).sum())
        if not size > 0.0:
            break
        for j in range(r):
            v[j] = Q[j] / size
        last = value
        for attempt in range(2):
            if attempt == 1:
                settle(rows, weights, index, theta, v, work)
            size = np.sqrt((v * v).sum())
            if not size > 0.0:
                break
            found = height(rows, weights, linear, v) / size
            if found > value:
                value = found
                for j in range(r):
                    u[j] = v[j] / size
        if not value > last:
            break
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def rise_all(rows, squares, weights, linear, starts):
    """:func:`rise` from every start, in place."""
    for k in range(len(starts)):
        rise(rows, squares, weights, linear, starts[k])
