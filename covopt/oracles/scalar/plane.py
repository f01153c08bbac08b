"""Exact pricing in one and two dimensions, where all faces fit in one sorted array."""

from __future__ import annotations

import numpy as np

from covopt.oracles.base import ROUNDING


def price_line(rows: np.ndarray, mu: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two unit neurons of dimension one and F at each."""
    neurons = np.array([[1.0], [-1.0]])
    return neurons, neurons @ linear + np.maximum(neurons @ rows.T, 0.0) @ mu


def price_plane(
    rows: np.ndarray, mu: np.ndarray, linear: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Maximise |F| over the circle: rays orthogonal to a row, and the gradient in every arc between two.

    Returns
    -------
    neurons : ndarray of shape (m, 2)
        Candidates with |F| above ``threshold``.
    values : ndarray of shape (m,)
    upper_bound : float
    """
    angle = np.arctan2(rows[:, 1], rows[:, 0])
    # row j turns positive at angle − π/2 and negative at angle + π/2
    events = np.concatenate([angle - np.pi / 2, angle + np.pi / 2]) % (2 * np.pi)
    steps = np.concatenate([mu[:, None] * rows, -mu[:, None] * rows])
    order = np.argsort(events, kind="stable")
    events, steps = events[order], steps[order]
    start = np.array([np.cos(0.5 * (events[-1] + events[0] - 2 * np.pi)), 0.0])
    start[1] = np.sin(0.5 * (events[-1] + events[0] - 2 * np.pi))
    gradient = linear + (mu * (rows @ start > 0)) @ rows + np.cumsum(steps, axis=0)
    rays = np.column_stack([np.cos(events), np.sin(events)])
    ahead = np.roll(rays, -1, axis=0)
    candidates = [rays]
    for sign in (1.0, -1.0):
        g = sign * gradient
        inside = (rays[:, 0] * g[:, 1] >= rays[:, 1] * g[:, 0]) & (
            g[:, 0] * ahead[:, 1] >= g[:, 1] * ahead[:, 0]
        )
        length = np.linalg.norm(g, axis=1)
        # an arc of half a circle or more (a single line) must look forward, too
        inside &= (length > 0) & (np.einsum("ij,ij->i", g, rays + ahead) >= -1e-15 * length)
        candidates.append(g[inside] / length[inside, None])
    neurons = np.concatenate(candidates)
    values = neurons @ linear + np.maximum(neurons @ rows.T, 0.0) @ mu
    lipschitz = float(np.linalg.norm(linear) + np.abs(mu) @ np.linalg.norm(rows, axis=1))
    keep = np.abs(values) > threshold
    return neurons[keep], values[keep], float(np.abs(values).max()) + ROUNDING * lipschitz
