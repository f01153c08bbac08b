r"""Straight-line code that asks of all arcs of a circle at once whether they can hold anything that matters.

A map M has the coordinates x_p, y_p along a circle's frame and z_p along its normal, one of each for every output;
what follows needs their products alone, the entries of MᵀM. At the angle t, ‖M w‖² = m + ρ cos 2(t − t*), so an arc
of less than a quarter turn with its maximiser t* inside rises where it begins and falls where it ends.

With two outputs the top eigenvector of a cell's form is Mᵀu for the top eigenvector u of the 2 × 2 matrix MMᵀ, in
closed form. It lies in the cell only if the six rows that are crossed next to the arc, and the circle's own, say so.
With more outputs the vector is found by iteration, and what it may be off by is bounded afterwards.

**Margins.** ``blur`` is above what rounding may change a form by, of these maps and of those that
:mod:`covopt.oracles.vector.circles` looks at. Half of a form's slope is off by less than 16 blur, and an end of an
arc that may slip by s changes it by less than 4ρs. An eigenvector is off by less than 2 blur/ρ here and there (two
eigenvalues are 2ρ apart), and the closer look tolerates as much once more: 8 blur/ρ. A row's height over its slope
along the circle is the slope of the vector at the crossing plus ``lean`` times z, with crossings and leans off by
16u(1 + q) and 8u(1 + q)², q = \|lean\|; a height is at most 1 + q times as large in these units.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FAST = {"nnan", "nsz", "contract"}  # of straight-line code: no sums are taken in another order
UNIT = 2.0**-53
ROOT = 1e-7  # above the root of what rounding may change a squared form by, as a share of its trace
SMALLEST = 1e-300
TINY = 1e-24  # share of an adjugate's square below which it says nothing


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def along(maps, direction, out):
    """Coordinates of maps (3, m) along a direction."""
    x, y, z = direction
    gx, gy, gz = maps
    for q in range(len(out)):
        out[q] = gx[q] * x + gy[q] * y + gz[q] * z


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def add_products(x, y, xx, xy, yy):
    """Add the products of one output's coordinates."""
    for q in range(len(x)):
        xx[q] += x[q] * x[q]
        xy[q] += x[q] * y[q]
        yy[q] += y[q] * y[q]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def screen_edges(xx, xy, yy, cosine, sine, cosine_next, sine_next, first, squared, slip, blur, marked):
    """Mark vertices (where ``first``) and arcs whose best point may be above the root of ``squared``."""
    level = squared - blur
    for q in range(len(marked)):
        c, s, cn, sn = cosine[q], sine[q], cosine_next[q], sine_next[q]
        half, middle = 0.5 * (xx[q] - yy[q]), 0.5 * (xx[q] + yy[q])
        radius = np.sqrt(half * half + xy[q] * xy[q])
        slack = 16.0 * blur + 4.0 * radius * slip
        turn, wide = c * c - s * s, 2.0 * c * s
        behind = xy[q] * turn - half * wide
        ahead = xy[q] * (cn * cn - sn * sn) - half * (2.0 * cn * sn)
        within = ((behind >= -slack) & (ahead <= slack)) | (c * cn + s * sn <= 0.0)
        marked[q] |= (first[q] & (middle + half * turn + xy[q] * wide > level)) | (
            within & (middle + radius > level)
        )


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def add_heights(x, y, z, step, xz, yz, zz):
    """Add the other products of one output; ``step`` is what the circle's own row adds to z."""
    for q in range(len(x)):
        height = z[q] + step
        xz[q] += x[q] * height
        yz[q] += y[q] * height
        zz[q] += height * height


@njit(inline="always", fastmath=FAST, error_model="numpy")
def _newton(root, trace, minors, det, least):
    value = ((root - trace) * root + minors) * root - det
    return root - value / max((3.0 * root - 2.0 * trace) * root + minors, least)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def screen_forms(
    xx, xy, yy, xz, yz, zz, cosine, sine, lean, outwards, chosen, squared, blur, marked
):  # fmt: skip
    """Mark as :func:`screen_cells` does, for any number of outputs and the cells on one side, ``outwards`` 1 or −1.

    The eigenvalue is sought from above by Newton's method on the characteristic polynomial, and the vector v is a
    column of the adjugate. Whatever v is, with ρ = vᵀQv and the residual r the rest of the form has eigenvalues of
    sum tr Q − ρ and of squares ‖Q‖² − ρ² at most, which bound the larger one, β; the eigenvector is off by at most
    r/(ρ − β).
    """
    c0, c1, c2, c3, c4, c5 = cosine[:-5], cosine[1:-4], cosine[2:-3], cosine[3:-2], cosine[4:-1], cosine[5:]
    s0, s1, s2, s3, s4, s5 = sine[:-5], sine[1:-4], sine[2:-3], sine[3:-2], sine[4:-1], sine[5:]
    l0, l1, l2, l3, l4, l5 = lean[:-5], lean[1:-4], lean[2:-3], lean[3:-2], lean[4:-1], lean[5:]
    for q in range(len(marked)):
        f00, f01, f11, f02, f12, f22 = xx[q], xy[q], yy[q], xz[q], yz[q], zz[q]
        trace = f00 + f11 + f22
        minor0, minor1, minor2 = f11 * f22 - f12 * f12, f00 * f22 - f02 * f02, f00 * f11 - f01 * f01
        minors = minor0 + minor1 + minor2
        det = f00 * minor0 - f01 * (f01 * f22 - f12 * f02) + f02 * (f01 * f12 - f11 * f02)
        root, least = trace, TINY + 1e-12 * trace * trace
        root = _newton(root, trace, minors, det, least)
        root = _newton(root, trace, minors, det, least)
        root = _newton(root, trace, minors, det, least)
        root = _newton(root, trace, minors, det, least)
        root = _newton(root, trace, minors, det, least)
        root = _newton(root, trace, minors, det, least)
        g00, g11, g22 = f00 - root, f11 - root, f22 - root
        a00, a11, a22 = g11 * g22 - f12 * f12, g00 * g22 - f02 * f02, g00 * g11 - f01 * f01
        a01, a02, a12 = f12 * f02 - f01 * g22, f01 * f12 - g11 * f02, f01 * f02 - g00 * f12
        first, second = (a00 >= a11) & (a00 >= a22), a11 >= a22
        a = a00 if first else (a01 if second else a02)
        b = a01 if first else (a11 if second else a12)
        e = a02 if first else (a12 if second else a22)
        size = a * a + b * b + e * e + SMALLEST
        h0, h1, h2 = f00 * a + f01 * b + f02 * e, f01 * a + f11 * b + f12 * e, f02 * a + f12 * b + f22 * e
        ratio = (a * h0 + b * h1 + e * h2) / size
        r0, r1, r2 = h0 - ratio * a, h1 - ratio * b, h2 - ratio * e
        residual = np.sqrt((r0 * r0 + r1 * r1 + r2 * r2) / size)
        rest = 0.5 * (trace - ratio)
        squares = f00 * f00 + f11 * f11 + f22 * f22 + 2.0 * (f01 * f01 + f02 * f02 + f12 * f12)
        spread = 0.5 * (squares - ratio * ratio) - rest * rest
        away = ratio - rest - np.sqrt(max(spread, 0.0)) - ROOT * trace
        reach = 256.0 * UNIT + 2.0 * (residual + 8.0 * blur) / away
        length = np.sqrt(size)
        steepest = 1.0 + max(abs(l0[q]), abs(l1[q]), abs(l2[q]), abs(l3[q]), abs(l4[q]), abs(l5[q]))
        room = (reach + 64.0 * UNIT * steepest) * steepest * length
        t0, t1 = b * c0[q] - a * s0[q] + e * l0[q], b * c1[q] - a * s1[q] + e * l1[q]
        t2, t3 = b * c2[q] - a * s2[q] + e * l2[q], b * c3[q] - a * s3[q] + e * l3[q]
        t4, t5 = b * c4[q] - a * s4[q] + e * l4[q], b * c5[q] - a * s5[q] + e * l5[q]
        out, flat = e * outwards, reach * length
        held = (
            ((out >= -flat) & (min(t0, t1, t2) >= -room) & (max(t3, t4, t5) <= room))
            | ((out <= flat) & (max(t0, t1, t2) <= room) & (min(t3, t4, t5) >= -room))
            | (away <= ROOT * trace)
            | (size <= TINY * trace * trace * trace * trace)
        )
        marked[q] |= held & (trace + blur > squared) & chosen[q]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def screen_cells(
    x0, x1, y0, y1, z0, z1, cosine, sine, lean, step0, step1, outwards, chosen, squared, blur, marked
):  # fmt: skip
    """Mark chosen arcs beside which a cell may hold the top eigenvector of its form; two outputs.

    Crossings q, q + 1, q + 2 come before arc q, the next three behind it. ``step0`` and ``step1`` are what the
    circle's own row adds to z where it is positive, and ``outwards`` is 1 where that is above the circle.
    """
    c0, c1, c2, c3, c4, c5 = cosine[:-5], cosine[1:-4], cosine[2:-3], cosine[3:-2], cosine[4:-1], cosine[5:]
    s0, s1, s2, s3, s4, s5 = sine[:-5], sine[1:-4], sine[2:-3], sine[3:-2], sine[4:-1], sine[5:]
    l0, l1, l2, l3, l4, l5 = lean[:-5], lean[1:-4], lean[2:-3], lean[3:-2], lean[4:-1], lean[5:]
    level = squared - blur
    for q in range(len(marked)):
        steepest = 1.0 + max(abs(l0[q]), abs(l1[q]), abs(l2[q]), abs(l3[q]), abs(l4[q]), abs(l5[q]))
        plane0, plane1 = x0[q] * x0[q] + y0[q] * y0[q], x1[q] * x1[q] + y1[q] * y1[q]
        across = x0[q] * x1[q] + y0[q] * y1[q]
        held = False
        for own in range(2):
            e0, e1 = z0[q] + own * step0, z1[q] + own * step1
            p00, p11, p01 = plane0 + e0 * e0, plane1 + e1 * e1, across + e0 * e1
            half, middle = 0.5 * (p00 - p11), 0.5 * (p00 + p11)
            radius = np.sqrt(half * half + p01 * p01)
            top = middle + radius
            larger = radius + abs(half)
            u0 = larger if half >= 0.0 else p01
            u1 = p01 if half >= 0.0 else larger
            a, b, e = u0 * x0[q] + u1 * x1[q], u0 * y0[q] + u1 * y1[q], u0 * e0 + u1 * e1
            length = np.sqrt(top * (u0 * u0 + u1 * u1))
            reach = 256.0 * UNIT + 8.0 * blur / radius
            flat = reach * length
            room = (reach + 64.0 * UNIT * steepest) * steepest * length
            t0, t1 = b * c0[q] - a * s0[q] + e * l0[q], b * c1[q] - a * s1[q] + e * l1[q]
            t2, t3 = b * c2[q] - a * s2[q] + e * l2[q], b * c3[q] - a * s3[q] + e * l3[q]
            t4, t5 = b * c4[q] - a * s4[q] + e * l4[q], b * c5[q] - a * s5[q] + e * l5[q]
            out = e * outwards if own == 1 else -e * outwards
            held |= (
                ((out >= -flat) & (min(t0, t1, t2) >= -room) & (max(t3, t4, t5) <= room))
                | ((out <= flat) & (max(t0, t1, t2) <= room) & (min(t3, t4, t5) >= -room))
            ) & (top > level)
        marked[q] |= held & chosen[q]
