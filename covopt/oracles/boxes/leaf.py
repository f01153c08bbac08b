r"""The bound on one box of directions.

A box is u = u⁰ + δ, |δ_j| ≤ s_j, with u_a = ±1 and s_a = 0 on its chart axis a. On it we bound

.. math::
    \sum_i w_i \sigma(y_i \cdot u) + g \cdot u - H \lVert u \rVert, \qquad w_i = \pm 1,

where g holds the rows that are positive on the whole box, and the sum runs over the undecided rows. With c_i = y_i·u⁰
and r_i = Σ_j |y_ij| s_j, so that y_i·u lies in [c_i − r_i, c_i + r_i]:

- w_i > 0: σ lies below its chord, of slope a_i = (c_i + r_i)/2r_i and value (c_i + r_i)/2 at the centre,
- w_i < 0: −σ(t) ≤ −θ_i t for every θ_i in [0, 1],
- −H‖u‖ ≤ −H p·u for every ‖p‖ ≤ 1.

The sum f + q·δ − H p·u of these is affine, and its maximum over the box is f − H p·u⁰ + Σ_j s_j |q_j − H p_j|. Every
θ and p gives a valid bound. By minimax, the smallest one is the maximum over the box of the concave function
C(u) = chords(u) − Σ_{w_i<0} σ(y_i·u) − H‖u‖. So a point u with C(u) > 0 shows that no θ and p close this box.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.exact.rank import NEAR
from covopt.oracles.ascent import LEAST_SWEEPS, inner, least_norm, put_column


@njit(cache=True, nogil=True, error_model="numpy")
def relax(rows, weights, index, centre, radius, theta, g, u0, q):
    """Write the slopes of the affine bound to ``q`` and return its value f at the centre."""
    r = rows.shape[1]
    for j in range(r):
        q[j] = g[j]
    value = 0.0
    for k in range(len(index)):
        i = index[k]
        if weights[i] > 0.0:
            top = 0.5 * (centre[k] + radius[k])
            value += top
            slope = top / radius[k]
        else:
            slope = -theta[k]
            value += slope * centre[k]
        for j in range(r):
            q[j] += slope * rows[i, j]
    for j in range(r):
        value += g[j] * u0[j]
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def touch(q, u0, s, H, u):
    """Maximise q·u − H‖u‖ over the box by coordinate ascent, into ``u``; return ‖u‖. Any u gives a valid tangent."""
    r = len(q)
    square = 0.0
    for j in range(r):
        if s[j] > 0.0:
            square += q[j] * q[j]
    inside = square < H * H
    scale = 1.0 / np.sqrt(H * H - square) if inside else np.inf
    for j in range(r):
        u[j] = u0[j]
        if s[j] > 0.0 and q[j] != 0.0:
            t = q[j] * scale
            u[j] = min(max(t, u0[j] - s[j]), u0[j] + s[j])
            inside = inside and u[j] == t
    total = inner(u, u)
    if not inside:
        for _ in range(LEAST_SWEEPS):
            for j in range(r):
                if s[j] > 0.0:
                    rest = total - u[j] * u[j]
                    room = H * H - q[j] * q[j]
                    if room > 0.0:
                        t = min(max(q[j] * np.sqrt(rest / room), u0[j] - s[j]), u0[j] + s[j])
                    else:
                        t = u0[j] + np.copysign(s[j], q[j])
                    u[j] = t
                    total = rest + t * t
        total = inner(u, u)
    return np.sqrt(total)


@njit(cache=True, nogil=True, error_model="numpy")
def affine_bound(f, q, u0, s, H, u, norm):
    """Return the maximum over the box of the affine bound with the tangent p = u/norm."""
    k = H / norm
    bound = f
    for j in range(len(q)):
        bound += s[j] * abs(q[j] - k * u[j]) - k * u[j] * u0[j]
    return bound


@njit(cache=True, nogil=True, error_model="numpy")
def gather(rows, weights, index, theta, room):
    """Write the undecided rows with w_i < 0 and their θ to the columns of a room; return their number."""
    m = np.int64(0)  # a literal would compile the call below once more
    minus = -1.0
    for k in range(len(index)):
        if weights[index[k]] < 0.0:
            put_column(room, m, minus, rows[index[k]])
            room[4][m] = theta[k]
            m += 1
    return m


@njit(cache=True, nogil=True, error_model="numpy")
def tighten(rows, weights, index, theta, f, q, u0, a, H, room):
    """Change θ such that the affine bound f + q·δ on the chart, written as Q·u, has a smaller norm."""
    Q, work = room[5], room[7]
    m = gather(rows, weights, index, theta, room)
    Q[a] = f
    for j in range(rows.shape[1]):
        if j != a:
            Q[j] = q[j]
            Q[a] -= q[j] * u0[j]
    Q[a] *= u0[a]
    # a sweep, and one with a Newton step: halves go on from this θ
    goal, most = (1.0 - NEAR) * H, np.int64(2)
    least_norm(room[0][:m], room[1][:m], room[2][:m], room[3][:m], room[4][:m], Q, goal, most, work)
    m = 0
    for k in range(len(index)):
        if weights[index[k]] < 0.0:
            theta[k] = room[4][m]
            m += 1
