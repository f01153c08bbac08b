"""The compiled part of :mod:`covopt.oracles.vector_faces`: the linear map of each cell, and face after face."""

from __future__ import annotations

import numpy as np
from numba import njit

SWEEPS = 30


@njit(cache=True, nogil=True)
def sum_maps(cells, steps, linear, maps):
    """Fill ``maps[c]`` with linear + Σ of the ``steps`` of the rows that are positive on cell c.

    Compensated summation: the error does not grow with the number of rows.

    Parameters
    ----------
    cells : uint64 ndarray of shape (n_cells, n_words)
    steps : ndarray of shape (n, m)
    linear : ndarray of shape (m,)
    maps : ndarray of shape (n_cells, m)
    """
    n, m = steps.shape
    lost = np.empty(m)
    for c in range(len(cells)):
        total = maps[c]
        total[:] = linear
        lost[:] = 0.0
        for i in range(n):
            if cells[c, i >> 6] >> np.uint64(i & 63) & np.uint64(1):
                for a in range(m):
                    term = steps[i, a]
                    new = total[a] + term
                    shift = new - total[a]
                    lost[a] += (total[a] - (new - shift)) + (term - shift)
                    total[a] = new
        for a in range(m):
            total[a] += lost[a]


@njit(cache=True, nogil=True)
def _diagonalise(form, vectors):
    """Jacobi's method: ``form`` becomes diagonal, the columns of ``vectors`` its eigenvectors."""
    d = len(form)
    for p in range(d):
        for q in range(d):
            vectors[p, q] = 1.0 if p == q else 0.0
    for _ in range(SWEEPS):
        rotated = False
        for p in range(d - 1):
            for q in range(p + 1, d):
                b = form[p, q]
                # relative to both diagonal entries, so that small eigenvalues do not stop early either
                if b * b <= 1e-33 * abs(form[p, p] * form[q, q]) or b == 0.0:
                    continue
                rotated = True
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
            break


@njit(cache=True, nogil=True)
def top_pair(image, form, vectors, v):
    """Fill v with the top eigenvector of AᵀA, A = image of shape (k, d); return the two largest eigenvalues."""
    k, d = image.shape
    size = min(k, d)
    small = form[:size, :size]
    for p in range(size):
        for q in range(p + 1):
            s = 0.0
            if k < d:
                for c in range(d):
                    s += image[p, c] * image[q, c]
            else:
                for c in range(k):
                    s += image[c, p] * image[c, q]
            small[p, q] = s
            small[q, p] = s
    if size == 2:
        half = 0.5 * (small[0, 0] - small[1, 1])
        middle = 0.5 * (small[0, 0] + small[1, 1])
        radius = np.hypot(half, small[0, 1])
        angle = 0.5 * np.arctan2(small[0, 1], half)
        top, second = middle + radius, middle - radius
        vectors[0, 0], vectors[1, 0] = np.cos(angle), np.sin(angle)
        best = 0
    else:
        _diagonalise(small, vectors[:size, :size])
        best = 0
        for p in range(1, size):
            if small[p, p] > small[best, best]:
                best = p
        top = small[best, best]
        second = 0.0
        for p in range(size):
            if p != best:
                second = max(second, small[p, p])
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
    return top, max(second, 0.0)


@njit(cache=True, nogil=True)
def visit(
    faces, flat, cell, cells, maps, bases, members, conditioning, units, tops, floor,
    map_error, lipschitz, eps, rounding, found, neuron, second, error, outside, margin,
):  # fmt: skip
    """Price faces ``faces``: lower ``tops`` to each one's top eigenvalue, and note those that may hold its vector.

    A face is given up when a row refutes v and a row refutes −v by more than rounding explains: ``rounding``, what
    the flat's basis may be off by, and the turn of the eigenvector times the row's part in the flat.

    Parameters
    ----------
    faces : int ndarray of shape (m,)
    flat, cell : int ndarray of shape (n_faces,)
    cells : uint64 ndarray of shape (n_cells, n_words)
    maps : ndarray of shape (n_cells, k, r)
    bases : ndarray of shape (n_flats, r, d)
    members : uint64 ndarray of shape (n_flats, n_words)
    conditioning : ndarray of shape (n_flats,)
    units : ndarray of shape (n, r)
    tops : ndarray of shape (n_faces,)
    floor : float
        Faces whose top eigenvalue is not above it are passed by.
    map_error, lipschitz, eps, rounding : float
    found, neuron, second, error, outside, margin : ndarrays of first length m
        Outputs: the face, the oriented v, κ₂, the error of κ₁, how far v is outside beyond the first two tolerances
        (0 if it is not), and the smallest sign·(z_i·v).

    Returns
    -------
    int
        How many were noted.
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
        if trace <= floor:
            tops[f] = min(tops[f], trace)
            continue
        top, other = top_pair(image, form, vectors, v)
        top = min(top, trace)
        tops[f] = min(tops[f], top)
        if top <= floor:
            continue
        for c in range(r):
            s = 0.0
            for q in range(d):
                s += basis[c, q] * v[q]
            w[c] = s
        slip = 16.0 * eps / conditioning[flat[f]]
        wrong = 2.0 * np.sqrt(top) * (map_error + slip * lipschitz)
        turn = 2.0
        if d == 1:
            turn = 0.0
        elif top - other > wrong:
            turn = 2.0 * wrong / (top - other)
        base = rounding + slip
        ahead, behind = np.inf, np.inf  # the smallest signed heights of v and of −v
        hold_ahead = hold_behind = True
        for i in range(n):
            word, bit = i >> 6, np.uint64(i & 63)
            if members[flat[f], word] >> bit & one:
                continue
            t = 0.0
            for c in range(r):
                t += units[i, c] * w[c]
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
            if d > 1 and not (hold_ahead or hold_behind):
                break
        if d > 1 and not (hold_ahead or hold_behind):
            continue
        back = behind > ahead
        for c in range(r):
            neuron[count, c] = -w[c] if back else w[c]
        least = behind if back else ahead
        found[count] = f
        second[count] = other
        error[count] = wrong
        margin[count] = least
        outside[count] = max(0.0, -least - base) if d > 1 else 0.0  # a ray holds itself
        count += 1
    return count
