r"""Depth-first search through the boxes of one root.

The undecided rows of a box are a stretch of one long list; the stretch of a child begins where that of its parent
ends, so the whole path from the root is one stack. A child drops the rows that it decides; those with y_i·u ≥ 0 on it
are added to the gradient g, which is kept as an unevaluated sum of two doubles.

Rounding
--------
Let ε = 2⁻⁵², m the number of undecided rows, A_j = Σ_i |y_ij| + |linear_j|. On a box let β_i = Σ_j |y_ij|(|u⁰_j| +
s_j) and B = Σ_j A_j (|u⁰_j| + s_j), so that Σ β_i ≤ B. Centres and half-widths are exact: a box is not cut further
once the centre of its half would need more than 53 bits. In units of ε/2:

- c_i and r_i are sums of r products, with an error e_i ≤ rβ_i. A row that is decided wrongly therefore changes F by
  at most 2e_i. The chord of the computed interval lies above σ up to 2e_i; its centre has another error e_i, its
  slope and value 4β_i, and −θ_i c_i has e_i + 2β_i. In all (3r + 4)β_i.
- g_j has an error 2A_j: the second double takes every rounding of the sum, and rounds itself by O(N²ε²)A_j ≤ A_j.
- f is a sum of m + r products, q_j one of m + 1, in partial sums below B and A_j: (2m + 2r + 3)B.
- the last line, 3r terms below B + rH: (8r + 8)(B + rH); and ‖p‖ ≤ 1 + (r + 3)ε/2 where ‖u‖ ≤ √r: (r + 3)√r H.

Together less than ε [(m + 7r + 12) B + (5r² + 8r) H] =: ``margin``, with more than the second-order terms to spare
while N ≤ 10⁶. A box is closed when its computed bound plus the margin is ≤ 0; then it is closed in exact arithmetic.
A box that is too small to be cut, or not visited, has F ≤ H‖u‖ + b ≤ (H + b)‖u‖ because ‖u‖ ≥ 1, where b is the
computed bound plus the margin, of this box or of a box around it. Rows and H are assumed to be of size about 1, so
that nothing here underflows (:mod:`.scalar` scales).

No fast-math flag is set, so that the tree is the same on every processor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from covopt.exact.rank import LINE
from covopt.exact.rounding import EPS
from covopt.oracles.ascent import height, inner, make_room, settle
from covopt.oracles.boxes.leaf import affine_bound, gather, relax, tighten, touch

LEVELS = 100  # most halvings of one axis, near 0
SMALLEST = 2.0**-LEVELS
FEW = 8  # most undecided rows for which θ is found by least norm, whose time grows with their number


class Stack(NamedTuple):
    """The path from the root to the current box, and the points found. One per root; a walk can be resumed."""

    rows: np.ndarray  # (capacity,) undecided rows, level after level
    centre: np.ndarray
    radius: np.ndarray
    theta: np.ndarray
    first: np.ndarray  # (depth + 1,) where each level's stretch begins
    u0: np.ndarray  # (depth, r)
    s: np.ndarray
    g: np.ndarray
    g_low: np.ndarray
    axis: np.ndarray  # (depth,) where the box is cut
    stage: np.ndarray  # 1 while the lower half is visited, 2 for the upper one
    bound: np.ndarray  # b of the box
    points: np.ndarray  # (cap, r) unit vectors u with G(u) > H
    state: np.ndarray  # level (−1 when done), points found, chart axis
    level: np.ndarray  # H, the largest b of a box that was given up


@njit(cache=True, nogil=True, error_model="numpy")
def margin(m, sizes, u0, s, H):
    """Return the rounding allowance of one box: see the module docstring. ``sizes`` are the A_j."""
    r = len(sizes)
    scale = 0.0
    for j in range(r):
        scale += sizes[j] * (abs(u0[j]) + s[j])
    return EPS * ((m + 7 * r + 12) * scale + (5 * r * r + 8 * r) * H)


@njit(cache=True, nogil=True, error_model="numpy")
def enter(rows, weights, stack, parent, level):
    """Sort the parent's rows into level ``level``, whose box is already written; parent −1 means all rows."""
    r = rows.shape[1]
    u0, s, g, g_low = stack.u0[level], stack.s[level], stack.g[level], stack.g_low[level]
    begin = 0 if parent < 0 else stack.first[parent]
    end = len(rows) if parent < 0 else stack.first[parent + 1]
    place = 0 if parent < 0 else end
    stack.first[level] = place
    for k in range(begin, end):
        i = k if parent < 0 else stack.rows[k]
        c = 0.0
        radius = 0.0
        for j in range(r):
            c += rows[i, j] * u0[j]
            radius += abs(rows[i, j]) * s[j]
        if c >= radius:
            for j in range(r):
                x = weights[i] * rows[i, j]
                total = g[j] + x
                back = total - g[j]
                g_low[j] += (g[j] - (total - back)) + (x - back)
                g[j] = total
        elif c > -radius:
            stack.rows[place] = i
            stack.centre[place] = c
            stack.radius[place] = radius
            stack.theta[place] = 0.5 if parent < 0 else stack.theta[k]
            place += 1
    stack.first[level + 1] = place


@njit(cache=True, nogil=True, error_model="numpy")
def plant(rows, weights, linear, stack, a, side, H):
    """Make the root box of chart u_a = side."""
    for j in range(rows.shape[1]):
        stack.u0[0, j] = 0.0
        stack.s[0, j] = 1.0
        stack.g[0, j] = linear[j]
        stack.g_low[0, j] = 0.0
    stack.u0[0, a] = side
    stack.s[0, a] = 0.0
    stack.state[0] = 0
    stack.state[1] = 0
    stack.state[2] = a
    stack.level[0] = H
    stack.level[1] = 0.0
    level = stack.state[0]  # a variable: with literals `enter` would be compiled once more
    enter(rows, weights, stack, level - 1, level)


@njit(cache=True, nogil=True, error_model="numpy")
def cut(rows, weights, stack, level, upper):
    """Write one half of the box at ``level`` as the box at ``level + 1``."""
    for j in range(rows.shape[1]):
        stack.u0[level + 1, j] = stack.u0[level, j]
        stack.s[level + 1, j] = stack.s[level, j]
        stack.g[level + 1, j] = stack.g[level, j]
        stack.g_low[level + 1, j] = stack.g_low[level, j]
    axis = stack.axis[level]
    half = 0.5 * stack.s[level, axis]
    stack.s[level + 1, axis] = half
    stack.u0[level + 1, axis] += half if upper else -half
    stack.stage[level] = 2 if upper else 1
    enter(rows, weights, stack, level, level + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def gaps(rows, weights, index, centre, radius, theta, u, score):
    """Return what θ and the chords lose at u; ``score`` is the share of each axis's width in the loss."""
    r = rows.shape[1]
    by_theta, by_chords = 0.0, 0.0
    for j in range(r):
        score[j] = 0.0
    for k in range(len(index)):
        i = index[k]
        t = inner(rows[i], u)
        share = 1.0 - (centre[k] / radius[k]) ** 2
        if weights[i] > 0.0:
            by_chords += 0.5 * (centre[k] + radius[k]) / radius[k] * (t - centre[k] + radius[k]) - max(t, 0.0)
        else:
            by_theta += max(t, 0.0) - theta[k] * t
            share *= 0.5
        for j in range(r):
            score[j] += share * abs(rows[i, j])
    return by_theta, by_chords


@njit(cache=True, nogil=True, error_model="numpy")
def average(rows, weights, index, theta, u):
    """Move θ towards the best response to u: cheaper than the least norm where many rows are undecided."""
    for k in range(len(index)):
        i = index[k]
        if weights[i] < 0.0:
            t = inner(rows[i], u)
            theta[k] += ((1.0 if t > 0.0 else 0.0) - theta[k]) / 3.0


@njit(cache=True, nogil=True, error_model="numpy")
def at_rest(sizes, u0, s):
    """Return whether cuts can lower the allowance by at most a factor of two."""
    change = 0.0
    for j in range(len(sizes)):
        change += sizes[j] * (s[j] - abs(u0[j]))
    return change <= 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def record(stack, u):
    """Store a point above H."""
    place = min(stack.state[1], len(stack.points) - 1)
    stack.state[1] = place + 1
    size = np.sqrt(inner(u, u))
    for j in range(len(u)):
        stack.points[place, j] = u[j] / size


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def look(rows, weights, linear, sizes, stack, growth, level, H, vectors, room):
    """Bound the box at ``level``; return the axis to cut it along, −1 for a leaf, and its bound b."""
    r = rows.shape[1]
    g, q, u, Q = vectors[0], vectors[1], vectors[2], vectors[3]
    score, a = vectors[4], stack.state[2]
    begin, end = stack.first[level], stack.first[level + 1]
    index, theta = stack.rows[begin:end], stack.theta[begin:end]
    centre, radius = stack.centre[begin:end], stack.radius[begin:end]
    u0, s = stack.u0[level], stack.s[level]
    for j in range(r):
        g[j] = stack.g[level, j] + stack.g_low[level, j]
    allowance = margin(end - begin, sizes, u0, s, H)
    bound = np.inf
    turned = violated = False
    while True:
        f = relax(rows, weights, index, centre, radius, theta, g, u0, q)
        norm = touch(q, u0, s, H, u)
        bound = min(bound, affine_bound(f, q, u0, s, H, u, norm) + allowance)
        if bound <= 0.0:
            break
        by_theta, by_chords = gaps(rows, weights, index, centre, radius, theta, u, score)
        top = f - H * norm
        for j in range(r):
            top += q[j] * (u[j] - u0[j])
            Q[j] = u[j]
        above_H = top - by_theta - by_chords
        if turned and by_theta > 0.0 and above_H <= allowance < top - by_chords:
            m = gather(rows, weights, index, theta, room)  # θ is lost where rows do not quite vanish
            settle(room[0][:m], room[2][:m], room[3][:m], room[4][:m], Q, room[7])
            above_H = height(rows, weights, linear, Q) - H * np.sqrt(inner(Q, Q))
        if above_H > allowance:
            violated = True
            record(stack, Q)
            break
        if turned or by_theta == 0.0 or top - by_theta > 0.0:
            break  # C(u) > 0: this box is not closed by any θ
        turned = True
        if end - begin <= FEW:
            tighten(rows, weights, index, theta, f, q, u0, a, H, room)
        else:
            average(rows, weights, index, theta, u)
    closed = bound <= 0.0
    axis = -1
    if not closed:
        best = -1.0
        for j in range(r):
            gain = s[j] * (score[j] + H * s[j])
            if gain > best and s[j] > SMALLEST and LINE * (abs(u0[j]) + s[j]) < s[j]:
                best = gain
                axis = j
        blurred = bound <= 2.0 * allowance and at_rest(sizes, u0, s)  # cuts would not change the bound
        if blurred or axis < 0 or (violated and growth == 0.0):
            axis = -1
            stack.level[1] = max(stack.level[1], bound) if bound < np.inf else np.inf
    return axis, bound


@njit(cache=True, nogil=True, error_model="numpy")
def explore(rows, weights, linear, sizes, stack, growth, budget):
    r"""Visit up to ``budget`` boxes; return how many.

    If there are fewer and the root is not done, a point was found above an H that may grow, ``points`` is full, or
    the stack needs a longer list.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
    weights : ndarray of shape (n,)
        +1.0 or −1.0.
    linear : ndarray of shape (r,)
    sizes : ndarray of shape (r,)
        The A_j of the module docstring, rounded up.
    stack : Stack
        State of the walk, changed in place; ``stack.state[0]`` is −1 when the root is done.
    growth : float
        At 0 a box with a point u, G(u) > H‖u‖, is given up with its own bound and the walk continues; otherwise the
        walk stops for H to grow.
    budget : int
    """
    r = rows.shape[1]
    room, vectors = make_room(len(rows), r), np.empty((5, r))
    level, H = stack.state[0], stack.level[0]
    node = 0
    while node < budget:
        begin, end = stack.first[level], stack.first[level + 1]
        if 2 * end - begin > len(stack.rows):  # no room for a child
            break
        axis, bound = look(rows, weights, linear, sizes, stack, growth, level, H, vectors, room)
        node += 1
        upper = axis < 0
        if upper:
            level -= 1
            while level >= 0 and stack.stage[level] == 2:
                level -= 1
        else:
            stack.axis[level] = axis
            stack.bound[level] = bound
        if level >= 0:
            cut(rows, weights, stack, level, upper)
            level += 1
        if level < 0 or stack.state[1] == (1 if growth > 0.0 else len(stack.points)):
            break
    stack.state[0] = level
    return node
