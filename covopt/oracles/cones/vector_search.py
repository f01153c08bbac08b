"""Branch and bound on pairs of boxes, one of directions w and one of output directions v, depth first.

What closes a pair, and why it may: :mod:`.vector_kernel`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.oracles.cones.vector_kernel import bound_pair, norm

DEPTH = 300  # halvings of one pair; a pair at the limit is closed by raising the bound
SMALLEST = 2.0**-44  # half-widths below it are not split further


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
        if norm(f) > bound * norm(uw):
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
