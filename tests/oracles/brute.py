"""Slow twins: the oracle by projections on all cells, and by pieces of the definition."""

import itertools

import numpy as np
from scipy.optimize import lsq_linear, nnls


def gauge_by_cells(rows, mu, linear):
    """Maximise |F| by projecting ±g_s on the closed cone of every sign vector s (Moreau, by NNLS).

    A sign vector without an open cell has a cone inside a face, where its linear piece is F as well.
    """
    best = 0.0
    for pattern in itertools.product((0.0, 1.0), repeat=len(rows)):
        s = np.array(pattern)
        inward = (2 * s - 1)[:, None] * rows
        gradient = linear + (mu * s) @ rows
        for g in (gradient, -gradient):
            best = max(best, float(np.linalg.norm(project(inward, g))))
    return best


def project(inward, g):
    """Project g on the cone {w : inward w ≥ 0}."""
    shares, _ = nnls(inward.T, -g)
    projection = g + inward.T @ shares
    if (inward @ projection).min() < -1e-9 * np.linalg.norm(
        g
    ):  # SciPy's NNLS may stop early on dependent rows
        fit = lsq_linear(inward.T, -g, bounds=(0, np.inf), method="bvls", tol=1e-14)
        projection = g + inward.T @ fit.x
        assert (inward @ projection).min() >= -1e-9 * np.linalg.norm(g)
    return projection


def dual_function(rows, mu, linear, neurons):
    return neurons @ linear + np.maximum(neurons @ rows.T, 0.0) @ mu


def distinct_lines(rows):
    """Drop zero rows and all but the first of the rows on one line."""
    kept = []
    for row in rows:
        length = np.linalg.norm(row)
        if length > 0 and all(abs(row @ k) < (1 - 1e-9) * length * np.linalg.norm(k) for k in kept):
            kept.append(row)
    return np.array(kept).reshape(-1, rows.shape[1])
