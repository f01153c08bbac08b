r"""Least norms over boxes, and the ascent to local maxima of F: one kernel for local search, boxes and signs.

Rows with negative weight make F concave. For a linear part b and such rows J

    max_{‖w‖ ≤ 1}  b·w + Σ_{j∈J} μ_j σ(z_j·w)   =   min_{θ ∈ [0,1]^J}  ‖b + Σ_j θ_j μ_j z_j‖

(μ_j σ(t) = min_θ θ μ_j t for μ_j < 0, then minimax on compact convex sets). Every θ gives an upper bound, whether or
not the descent has converged. If Q is the vector of least norm, the maximiser on the left is Q/‖Q‖. Rows with
0 < θ_j < 1 vanish there: it is the projection of a gradient on a flat (Bach 2017 §2).

A step of a climb linearises the rows of positive weight at w. This gives a minorant of F that is exact at w, and the
step moves to its maximiser. F never decreases, and there are finitely many tangents: mostly three or four steps
suffice. With several outputs F is ‖Λᵀσ(Zw)‖ = max over unit v of ⟨Λv, σ(Zw)⟩: each step sets v to the direction of
the outputs at w, then takes one step on the scalar function of that v.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from covopt.exact.rank import COMPUTED, FOUND
from covopt.limits import PIECE, checkpoint

MOST_STEPS = 200  # most steps of a climb (tangents or output directions), and most sweeps per tangent
LEAST_SWEEPS = 8  # sweeps where a solution need not be accurate: first tangents, boxes, cones of signs


@njit(cache=True, nogil=True, error_model="numpy")
def inner(x, y):
    """Return the dot product of two vectors: a loop compiles in a tenth of the time of ``np.dot``."""
    total = 0.0
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def put(values, vector):
    """Copy values into a vector: a slice assignment takes seconds to compile."""
    for j in range(len(vector)):
        vector[j] = values[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_column(column, basis, triangle, count):
    """Orthogonalise ``column`` against the basis; append it unless it depends on the earlier ones."""
    r = len(column)
    size, rest = 0.0, 0.0
    for j in range(r):
        size += column[j] * column[j]
        basis[count, j] = column[j]
    for p in range(count):
        dot = inner(basis[p], basis[count])
        triangle[p, count] = dot
        for j in range(r):
            basis[count, j] -= dot * basis[p, j]
    for j in range(r):
        rest += basis[count, j] * basis[count, j]
    if rest <= COMPUTED * size:
        return False
    length = np.sqrt(rest)
    triangle[count, count] = length
    for j in range(r):
        basis[count, j] /= length
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _newton(columns, low, high, x, Q, work):
    """Minimise ‖Q‖ over the x strictly inside their limits, or stop at the first limit met."""
    r = len(Q)
    basis, triangle, shift, free = work[0], work[1], work[2, 0], work[3, 0]
    count = np.int64(0)  # a literal would compile the call below once more
    for p in range(len(x)):
        if count < r and low[p] < x[p] < high[p] and _add_column(columns[p], basis, triangle, count):
            free[count] = p
            count += 1
    if count < 2:
        return
    step = 1.0
    for k in range(count - 1, -1, -1):
        value = -inner(basis[k], Q)
        for e in range(k + 1, count):
            value -= triangle[k, e] * shift[e]
        shift[k] = value / triangle[k, k]
        p = int(free[k])
        if shift[k] != 0.0:
            step = min(step, ((high[p] if shift[k] > 0.0 else low[p]) - x[p]) / shift[k])
    for k in range(count):
        p = int(free[k])
        d = min(high[p], max(low[p], x[p] + step * shift[k])) - x[p]
        x[p] += d
        for j in range(r):
            Q[j] += d * columns[p, j]


@njit(cache=True, nogil=True, error_model="numpy")
def least_norm(columns, squares, low, high, x, Q, goal, most, work):
    """Decrease ‖Q‖, Q = b + Σ x_p c_p, over low ≤ x ≤ high: coordinate sweeps, every second with a Newton step.

    Parameters
    ----------
    columns : ndarray of shape (m, r)
        The c_p.
    squares, low, high : ndarray of shape (m,)
        ‖c_p‖² and the limits, which may be infinite.
    x, Q : ndarray of shape (m,) and (r,)
        Changed in place.
    goal : float
        Stop when ‖Q‖ is at most this.
    most : int
        Most sweeps.
    work : ndarray of shape (4, r, r)

    Returns
    -------
    int
        The number of sweeps made.
    """
    r = len(Q)
    last = np.inf
    for turn in range(most):
        for p in range(len(x)):
            if low[p] < high[p] and squares[p] > 0.0:
                dot = inner(Q, columns[p])
                t = min(high[p], max(low[p], x[p] - dot / squares[p]))
                step = t - x[p]
                if step != 0.0:
                    x[p] = t
                    for j in range(r):
                        Q[j] += step * columns[p, j]
        if turn % 2 == 1:
            _newton(columns, low, high, x, Q, work)
            square = inner(Q, Q)
            if square >= last * (1.0 - COMPUTED) or square <= goal * goal:
                return turn + 1
            last = square
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def settle(columns, low, high, x, u, work):
    """Project u, in place, on the subspace where the columns with low < x < high vanish.

    In exact arithmetic Q/‖Q‖ lies there. In floating point Q may be a small difference of large rows and miss it.
    """
    r = len(u)
    basis, triangle, shift = work[0], work[1], work[2, 0]
    for _ in range(2):
        count = np.int64(0)
        for p in range(len(x)):
            free = count < r - 1 and low[p] < x[p] < high[p]
            if free and _add_column(columns[p], basis, triangle, count):
                value = -inner(columns[p], u)
                for k in range(count):
                    value -= triangle[k, count] * shift[k]
                shift[count] = value / triangle[count, count]
                count += 1
        for k in range(count):
            for j in range(r):
                u[j] += shift[k] * basis[k, j]


@njit(cache=True, nogil=True, error_model="numpy")
def height(rows, mu, linear, w):
    """Return F(w) = linear·w + Σ μ_i σ(z_i·w)."""
    total = inner(linear, w)
    for i in range(len(rows)):
        t = inner(rows[i], w)
        if t > 0.0:
            total += mu[i] * t
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def make_room(n, r):
    """Allocate the arrays of a descent over n rows: columns, squares, low, high, x, Q, v, work, sweeps."""
    return (
        np.empty((n, r)), np.empty(n), np.zeros(n), np.ones(n), np.empty(n), np.empty(r), np.empty(r),
        np.empty((4, r, r)), np.zeros(1, np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def put_column(room, p, factor, row):
    """Set column p of a descent to factor · row, with limits 0 and 1."""
    columns, squares, low, high = room[0], room[1], room[2], room[3]
    square = 0.0
    for j in range(len(row)):
        columns[p, j] = factor * row[j]
        square += columns[p, j] * columns[p, j]
    squares[p], low[p], high[p] = square, 0.0, 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def ascend(rows, mu, linear, w, value, taken, most, budget, room):
    """Climb from the unit vector w, in place; return F, the number of tangents, whether it ended, rows visited.

    ``taken`` of the ``most`` tangents were taken by earlier calls; ``room`` must be as they left it.

    No tangent is begun after ``budget`` rows.
    """
    n, r = rows.shape
    Q, v, work = room[5], room[6], room[7]
    m = np.int64(0)
    for i in range(n):
        if mu[i] < 0.0:
            put_column(room, m, mu[i], rows[i])
            m += 1
    columns, squares, low, high, x = room[0][:m], room[1][:m], room[2][:m], room[3][:m], room[4][:m]
    most_sweeps, goal = np.int64(MOST_STEPS), 0.0
    if taken == 0:  # a few sweeps suffice while tangents gain; a single tangent is solved to the end
        room[8][0] = most_sweeps if most == 1 else LEAST_SWEEPS
    looked = n
    for tangents in range(taken, most):
        if looked > budget:
            return value, tangents, False, looked
        for j in range(r):
            Q[j] = linear[j]
        p = 0
        for i in range(n):
            t = inner(rows[i], w)
            share = 1.0 if t > 0.0 else 0.0
            if mu[i] < 0.0:
                if tangents == 0:
                    x[p] = share
                share = x[p]
                p += 1
            if share > 0.0:
                for j in range(r):
                    Q[j] += share * mu[i] * rows[i, j]
        sweeps = min(room[8][0], most_sweeps)
        made = least_norm(columns, squares, low, high, x, Q, goal, sweeps, work)
        looked += 2 * n + m * made
        last = value
        for j in range(r):
            v[j] = Q[j]
        for attempt in range(2):
            if attempt == 1:
                settle(columns, low, high, x, v, work)
            size = np.sqrt(inner(v, v))
            if not size > 0.0:
                break
            for j in range(r):
                v[j] /= size
            found = height(rows, mu, linear, v)
            if found > value:
                value = found
                for j in range(r):
                    w[j] = v[j]
            if value > last + FOUND * abs(value):
                break
        if not value > last + FOUND * abs(value):
            if made < sweeps or sweeps == most_sweeps:
                return value, tangents + 1, True, looked
            room[8][0] = 4 * sweeps
    return value, most, False, looked


@njit(cache=True, nogil=True, error_model="numpy")
def climb_on(rows, mu, linear, starts, values, steps, room, budget):
    """Climb from every start, in place, until about ``budget`` rows are visited; return whether all climbs ended.

    ``steps`` counts the tangents of each climb so far, MOST_STEPS where it has ended; the next call continues.
    """
    most, left = np.int64(MOST_STEPS), budget  # a literal would compile the callee once more
    for p in range(len(starts)):
        if steps[p] >= MOST_STEPS:
            continue
        if left <= 0:
            return False
        if steps[p] == 0:
            values[p] = height(rows, mu, linear, starts[p])
        values[p], steps[p], ended, looked = ascend(
            rows, mu, linear, starts[p], values[p], steps[p], most, budget, room
        )
        if ended:
            steps[p] = most
        left -= looked
    return (steps >= most).all()


@njit(cache=True, nogil=True, error_model="numpy")
def climb_outputs_on(rows, dual, starts, values, steps, room, budget):
    """Climb on ‖Λᵀσ(Zw)‖ from every start, in place: turn the output direction, then follow one tangent.

    ``steps`` and ``budget`` are as in :func:`climb_on`; each turn counts as a step.
    """
    n, r = rows.shape
    k = dual.shape[1]
    mu, output, zero, none, most = np.empty(n), np.empty(k), np.zeros(r), np.int64(0), np.int64(1)
    left = budget
    for p in range(len(starts)):
        if steps[p] >= MOST_STEPS:
            continue
        w = starts[p]
        last = values[p] if steps[p] > 0 else 0.0
        while steps[p] < MOST_STEPS:
            if left <= 0:
                values[p] = last
                return False
            output[:] = 0.0
            for i in range(n):
                s = inner(rows[i], w)
                if s > 0.0:
                    for c in range(k):
                        output[c] += s * dual[i, c]
            norm = np.sqrt(inner(output, output))
            if not norm > last + 1e-8 * norm:
                last = max(norm, last)
                break
            last = norm
            for i in range(n):
                mu[i] = inner(dual[i], output) / norm
            left -= ascend(rows, mu, zero, w, norm, none, most, budget, room)[3] + n
            steps[p] += 1
        values[p] = last
        steps[p] = MOST_STEPS
    return True


def in_turns(
    kernel: Callable[..., bool],
    problem: tuple[np.ndarray, ...],
    points: np.ndarray,
    values: np.ndarray,
    n_threads: int,
) -> None:
    """Climb from all points, in place, a piece of work at a time: a climb through many rows takes seconds.

    Parameters
    ----------
    kernel : callable
        ``climb_on`` or ``climb_outputs_on``.
    problem : tuple of ndarray
        The kernel's first arguments, beginning with the rows.
    points : ndarray of shape (m, r)
        Start points, replaced by end points.
    values : ndarray of shape (m,)
        Filled with the values at the end points.
    n_threads : int
    """
    n_parts = max(1, min(n_threads, len(points)))
    parts = [points[part::n_parts].copy() for part in range(n_parts)]
    shares = [
        (part, np.empty(len(part)), np.zeros(len(part), int), make_room(*problem[0].shape)) for part in parts
    ]
    budget = np.int64(PIECE // problem[0].shape[1])  # rows between two checks of the deadline

    def turn(share: tuple[np.ndarray, ...]) -> bool:
        return kernel(*problem, *share, budget)

    pool = ThreadPoolExecutor(n_parts) if n_parts > 1 else None
    try:
        ended = False
        while not ended:
            checkpoint()
            ended = all(list(map(turn, shares) if pool is None else pool.map(turn, shares)))
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
    for part, (ends, reached, *_) in enumerate(shares):
        points[part::n_parts], values[part::n_parts] = ends, reached
