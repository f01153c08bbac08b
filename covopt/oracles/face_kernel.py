r"""The compiled part of :mod:`covopt.oracles.vector_faces`: visit face after face.

**Rounding in Jacobi's method.** A step on a symmetric A computes t from the entries, up to \|η\| ≤ 8u; let (c, s) be
the exact rotation of that t. On the diagonal a_pp − tb has an error of 12u\|A\|; b' = 0 one of 2η\|b\|, since b' has
the derivative 2R in the angle, R = √(b² + ¼(a_pp − a_qq)²), and R\|t\| ≤ \|b\|; the other entries of the two rows and
columns 9u\|A\|. So a step is that of A + E with \|E\| ≤ 35u\|A\| (Frobenius), and moves the vectors by at most 10u
each off an exact rotation. With R steps: A + E = QDQᵀ for an exactly orthogonal Q, where \|E\|, \|V − Q\|\|A\| ≤
40Ru\|A\|. Gershgorin's theorem bounds the effect of the off-diagonal entries of D at the end. If the method does not
converge, 1/u counts as the number of steps. A Gram matrix is off by γ(m), m the terms of its products. The sum of
all this is ``share`` of :func:`top_pair`, relative to the trace.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.exact.rounding import UNIT
from covopt.oracles.ascent import MOST_STEPS, inner


@njit(cache=True, nogil=True)
def _diagonalise(form, vectors):
    """Diagonalise ``form`` by Jacobi's method, eigenvectors in the columns of ``vectors``; return the steps made."""
    d = len(form)
    steps = 0.0
    for p in range(d):
        for q in range(d):
            vectors[p, q] = 1.0 if p == q else 0.0
    for _ in range(MOST_STEPS):
        rotated = False
        for p in range(d - 1):
            for q in range(p + 1, d):
                b = form[p, q]
                # relative to both diagonal entries, so that small eigenvalues are resolved, too
                if b * b <= 1e-33 * abs(form[p, p] * form[q, q]) or b == 0.0:
                    continue
                rotated = True
                steps += 1.0
                ratio = (form[q, q] - form[p, p]) / (2.0 * b)
                t = 1.0 / (abs(ratio) + np.sqrt(1.0 + ratio * ratio))
                if ratio < 0.0:
                    t = -t
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = t * c
                form[p, p] -= t * b
                form[q, q] += t * b
                form[p, q] = 0.0
                form[q, p] = 0.0
                for m in range(d):
                    if m not in (p, q):
                        x, y = form[m, p], form[m, q]
                        form[m, p] = c * x - s * y
                        form[m, q] = s * x + c * y
                        form[p, m] = form[m, p]
                        form[q, m] = form[m, q]
                    x, y = vectors[m, p], vectors[m, q]
                    vectors[m, p] = c * x - s * y
                    vectors[m, q] = s * x + c * y
        if not rotated:
            return steps
    return 1.0 / UNIT


@njit(cache=True, nogil=True)
def top_pair(image, form, vectors, v):
    """Fill v with the top eigenvector of AᵀA, A = image of shape (k, d); return two eigenvalues and ``share``.

    The first is an upper bound; the second and v are exact for AᵀA changed by at most share · trace.
    """
    k, d = image.shape
    size = min(k, d)
    trace = 0.0
    share = (2.0 * (k + d) + 16.0) * UNIT
    for p in range(size):
        for q in range(p + 1):
            s = 0.0
            if k < d:
                for c in range(d):
                    s += image[p, c] * image[q, c]
            else:
                for c in range(k):
                    s += image[c, p] * image[c, q]
            form[p, q] = s
            form[q, p] = s
        trace += form[p, p]
    share += 40.0 * UNIT * _diagonalise(form, vectors)
    best = 0
    for p in range(1, size):
        if form[p, p] > form[best, best]:
            best = p
    top = 0.0
    for p in range(size):
        reach = form[p, p]
        for q in range(size):
            if q != p:
                reach += abs(form[p, q])
        top = max(top, reach)
    second = 0.0
    for p in range(size):
        if p != best:
            second = max(second, form[p, p])
    if k < d:
        length = 0.0
        for c in range(d):
            v[c] = 0.0
            for p in range(k):
                v[c] += vectors[p, best] * image[p, c]
            length += v[c] * v[c]
        if length > 0.0:
            length = np.sqrt(length)
            for c in range(d):
                v[c] /= length
        else:
            v[0] = 1.0
    else:
        for c in range(d):
            v[c] = vectors[c, best]
    return top + share * trace, max(second, 0.0), share


@njit(cache=True, nogil=True)
def visit(
    faces, flat, cell, cells, maps, bases, members, slips, units, tops, floor,
    map_error, size_of_maps, rounding, found, neuron, first, second, error, outside, margin,
):  # fmt: skip
    """Price ``faces``: lower ``tops`` to each one's top eigenvalue, and list those that may contain its eigenvector.

    A face is given up when a row refutes v and a row refutes −v by more than rounding explains: ``rounding``, the
    error of the flat's basis, and the turn of the eigenvector times the row's part in the flat. The numbers in
    ``tops`` are upper bounds on κ₁ of the exact flat.

    Parameters
    ----------
    faces : int ndarray of shape (m,)
    flat, cell : int ndarray of shape (n_faces,)
    cells : uint64 ndarray of shape (n_cells, n_words)
    maps : ndarray of shape (n_cells, k, r)
    bases : ndarray of shape (n_flats, r, d)
    members : uint64 ndarray of shape (n_flats, n_words)
    slips : ndarray of shape (n_flats,)
        Bounds on the error of unit vectors of a flat.
    units : ndarray of shape (n, r)
    tops : ndarray of shape (n_faces,)
    floor : float
        Faces whose top eigenvalue is at most this are skipped.
    map_error, size_of_maps, rounding : float
    found, neuron, first, second, error, outside, margin : ndarrays of first length m
        Outputs: the face, the oriented v, κ₁ and κ₂ on the computed flat, a bound on the error of the eigenvalues
        relative to the exact flat, how far v is outside beyond the first two tolerances (0 if it is not), and the
        smallest sign·(z_i·v), 1 for a ray.

    Returns
    -------
    int
        The number of faces listed.
    """
    n, r = units.shape
    k = maps.shape[1]
    d = bases.shape[2]
    size = min(k, d)
    image = np.empty((k, d))
    form = np.empty((size, size))
    vectors = np.empty((size, size))
    v = np.empty(d)
    w = np.empty(r)
    one = np.uint64(1)
    count = 0
    for f in faces:
        basis = bases[flat[f]]
        gradient = maps[cell[f]]
        trace = 0.0
        for p in range(k):
            for q in range(d):
                s = 0.0
                for c in range(r):
                    s += gradient[p, c] * basis[c, q]
                image[p, q] = s
                trace += s * s
        slip = slips[flat[f]]
        off = map_error + slip * size_of_maps
        wrong = (2.0 * np.sqrt(trace) + off) * off + (k * d + 8.0) * UNIT * trace
        tops[f] = min(tops[f], trace + wrong)
        if tops[f] <= floor:
            continue
        top, other, share = top_pair(image, form, vectors, v)
        wrong = (2.0 * np.sqrt(top) + off) * off + 2.0 * share * trace
        tops[f] = min(tops[f], top + wrong)
        if tops[f] <= floor:
            continue
        top = min(top, tops[f])
        for c in range(r):
            s = inner(basis[c], v)
            w[c] = s
        turn = 2.0
        if d == 1:
            turn = 0.0
        elif top - other > 8.0 * wrong:
            turn = 2.0 * wrong / (top - other)
        base = rounding + slip + share
        ahead, behind = np.inf, np.inf  # the smallest signed heights of v and of −v
        hold_ahead = hold_behind = True
        for i in range(n):
            word, bit = i >> 6, np.uint64(i & 63)
            if members[flat[f], word] >> bit & one:
                continue
            t = inner(units[i], w)
            if not cells[cell[f], word] >> bit & one:
                t = -t
            ahead = min(ahead, t)
            behind = min(behind, -t)
            reach = base
            if abs(t) > base and abs(t) <= base + turn:
                part = 0.0
                for q in range(d):
                    s = 0.0
                    for c in range(r):
                        s += units[i, c] * basis[c, q]
                    part += s * s
                reach += turn * np.sqrt(part)
            if t < -reach:
                hold_ahead = False
            elif t > reach:
                hold_behind = False
            if (d > 1 and not (hold_ahead or hold_behind)) or (d == 1 and abs(t) > base):
                break  # any row tells which of the two a ray is
        if d > 1 and not (hold_ahead or hold_behind):
            continue
        back = behind > ahead
        for c in range(r):
            neuron[count, c] = -w[c] if back else w[c]
        least = behind if back else ahead
        found[count] = f
        first[count] = top
        second[count] = other
        error[count] = wrong
        margin[count] = least if d > 1 else 1.0
        outside[count] = max(0.0, -least - base) if d > 1 else 0.0  # a ray always contains itself
        count += 1
    return count
