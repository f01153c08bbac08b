"""Frames of circles and the projections of their lifts, for :mod:`covopt.oracles.scalar.flats`, which tells why."""

from __future__ import annotations

import numpy as np
from numba import njit

DELTA = 1e-13
DEPENDENT = 32 * DELTA
MAXIMA, MINIMA = 1, 2  # orientations, as bits


@njit(cache=True, nogil=True)
def dot(a, b):
    """Sum of products."""
    total = 0.0
    for c in range(len(a)):
        total += a[c] * b[c]
    return total


@njit(cache=True, nogil=True)
def fill_frame(rows, subset, frame):
    """Fill ``frame`` with an orthonormal basis, the subset's rows first; False if dependent."""
    r = rows.shape[1]
    k = len(subset)
    for p in range(k):
        for c in range(r):
            frame[p, c] = rows[subset[p], c]
        for _ in range(2):
            for q in range(p):
                s = dot(frame[q], frame[p])
                for c in range(r):
                    frame[p, c] -= s * frame[q, c]
        length = np.sqrt(dot(frame[p], frame[p]))
        if length < DEPENDENT:
            return False
        for c in range(r):
            frame[p, c] /= length
    for p in range(k, r):
        axis = 0
        least = np.inf
        for c in range(r):
            s = 0.0
            for q in range(p):
                s += frame[q, c] ** 2
            if s < least:
                least = s
                axis = c
        for c in range(r):
            frame[p, c] = 1.0 if c == axis else 0.0
        for _ in range(2):
            for q in range(p):
                s = dot(frame[q], frame[p])
                for c in range(r):
                    frame[p, c] -= s * frame[q, c]
        length = np.sqrt(dot(frame[p], frame[p]))
        for c in range(r):
            frame[p, c] /= length
    return True


@njit(cache=True, nogil=True)
def fill_coordinates(rows, subset, frame, lower):
    """Fill ``lower`` with the coordinates of the subset's rows in the frame: a triangle, by Gram–Schmidt."""
    for p in range(len(subset)):
        for q in range(len(subset)):
            lower[p, q] = dot(rows[subset[p]], frame[q]) if q <= p else 0.0


@njit(cache=True, nogil=True)
def _project_out(lower, lifted, projector, axes):
    """Fill ``projector`` with the projection of ℝᵏ on the complement of the rows of ``lower`` that are not lifted.

    By Gram–Schmidt, run twice: as accurate as the rows are given, however close to dependent they are, where an
    inverse of their Gram matrix would square the condition number.
    """
    k = len(lower)
    count = 0
    for p in range(k):
        for q in range(k):
            projector[p, q] = 1.0 if p == q else 0.0
    for p in range(k):
        if lifted >> p & 1:
            continue
        axis = axes[count]
        for c in range(k):  # entry by entry: numba compiles much more for a slice
            axis[c] = lower[p, c]
        for _ in range(2):
            for m in range(count):
                s = dot(axes[m], axis)
                for c in range(k):
                    axis[c] -= s * axes[m, c]
        length = np.sqrt(dot(axis, axis))
        if length < 0.5 * DEPENDENT:
            return False
        for c in range(k):
            axis[c] /= length
        for m in range(k):
            for c in range(k):
                projector[m, c] -= axis[m] * axis[c]
        count += 1
    return True


@njit(cache=True, nogil=True)
def prepare_lifts(mu, subset, lower, usable, projector, axes):
    """Per circle and lift L: the projection of the gradient, and the orientations that the kept rows allow, as bits.

    All in the frame's coordinates of the span of the circle's rows: a = (frame_q·g)_q.
    """
    k = len(subset)
    for lifted in range(1 << k):
        positive = negative = False
        for p in range(k):
            if not lifted >> p & 1:
                positive |= mu[subset[p]] > 0.0
                negative |= mu[subset[p]] < 0.0
        sign = (0 if positive else MAXIMA) + (0 if negative else MINIMA)
        usable[lifted] = sign if sign and _project_out(lower, lifted, projector[lifted], axes) else 0
