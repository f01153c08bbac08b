"""The dual function at many neurons, in pieces that memory has room for, and signals."""

from __future__ import annotations

import numpy as np

from covopt.checks.memory import room

PAIRS_PER_PIECE = 1_000_000  # of rows and neurons, some hundredths of a second: signals are heard in between


def heights(rows: np.ndarray, dual: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return Λᵀσ(Zw) for each neuron.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)
    points : ndarray of shape (m, r)

    Returns
    -------
    ndarray of shape (m,) or (m, k)

    Examples
    --------
    >>> heights(np.eye(2), np.array([3.0, 4.0]), np.array([[0.0, 1.0], [-1.0, 0.5]]))
    array([4., 2.])
    """
    pairs = len(rows) * len(points)
    pieces = -(-16 * pairs // max(room(16 * pairs, 0.1), 1)) if pairs else 1
    pieces = min(max(pieces, -(-pairs // PAIRS_PER_PIECE), 1), max(1, len(points)))
    if pieces == 1:
        return np.maximum(points @ rows.T, 0.0) @ dual
    return np.concatenate([np.maximum(part @ rows.T, 0.0) @ dual for part in np.array_split(points, pieces)])
