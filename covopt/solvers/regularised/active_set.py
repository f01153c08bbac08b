r"""An active-set method for the restricted problem of one output: exact, and quick from a good start.

    min over v   ½ ‖c − Aᵀv‖² + ‖v‖₁          (A: one atom per row)

The active columns keep their signs; the least-squares solution on them is approached until a weight would change its
sign, which leaves, and the columns that violate |⟨a, c − Aᵀv⟩| ≤ 1 most enter, a few at a time. Next to no weight on
‖v‖² makes the system definite where columns depend on one another (a pair ±w may): its steps are then so long in the
directions that change no output, and in which the norm falls, that a weight vanishes, as in the simplex method.

The system is RᵀR, and the triangle R follows the active columns: rows below a triangle (what columns that enter have
outside the span, or the row of a column that leaves) are reflected into it. Nothing is squared: squares would round
away so little weight.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dtpqrt, dtrtrs

RIDGE = 1e-7  # root of the weight on ‖v‖², of the largest norm of a column
VIOLATION = 1e-9  # of ⟨a, c − Aᵀv⟩ that is let pass
BATCH = 10
BLOCK = 16  # reflections that are applied at once
MAX_STEPS = 3000
PATIENCE = 3  # rounds without progress after which rounding is all that is left


def solve_sparse(atoms: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Minimise ½‖c − Aᵀv‖² + ‖v‖₁.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        A.
    targets : ndarray of shape (N,)
        c.
    weights : ndarray of shape (M,), optional
        Where to start.

    Returns
    -------
    ndarray of shape (M,)
        v. Where v is not zero ⟨a, c − Aᵀv⟩ is its sign, elsewhere it is at most 1 in absolute value, to VIOLATION
        unless the steps ran out or rounding is larger.

    Examples
    --------
    >>> solve_sparse(np.eye(2), np.array([3.0, 0.5]))
    array([2., 0.])
    """
    v = np.zeros(len(atoms)) if weights is None else weights.astype(float)
    signs, least, idle, steps = np.sign(v), np.inf, 0, 0
    ridge = RIDGE * float(np.linalg.norm(atoms, axis=1).max(initial=0.0))
    entering = np.argsort(-np.abs(v))[: np.count_nonzero(v)]  # the last may leave at least cost
    held, triangle = entering[:0], np.zeros((0, 0))
    while True:
        residual = targets - v @ atoms
        value, slopes = 0.5 * float(residual @ residual) + float(np.abs(v).sum()), atoms @ residual
        idle = 0 if value < least - 1e-13 * abs(value) else idle + 1
        least = min(value, least)
        if steps or not len(entering):
            beyond = np.where(signs == 0.0, np.abs(slopes) - 1.0, np.abs(slopes - signs))
            worst = beyond.max(initial=0.0)
            if worst <= VIOLATION or idle >= PATIENCE or steps > MAX_STEPS:
                return v
            entering = np.flatnonzero((signs == 0.0) & (beyond > max(0.1 * worst, VIOLATION)))
            entering = entering[np.argsort(-beyond[entering])][: 1 if idle else BATCH]
            signs[entering] = np.sign(slopes[entering])
        if len(entering):
            rows, new = atoms[held] * signs[held, None], atoms[entering] * signs[entering, None]
            triangle = _enter(triangle, rows, new, ridge)
            held = np.concatenate([held, entering])
        sizes, pulls = v[held] * signs[held], 1.0 - slopes[held] * signs[held]
        while len(held):
            steps += 1
            falls = dtrtrs(triangle, dtrtrs(triangle, pulls, trans=1)[0])[0]
            shares = np.divide(sizes, falls, out=np.ones(len(held)), where=falls > sizes)
            length = float(shares.min())
            sizes = np.maximum(sizes - length * falls, 0.0)
            if length == 1.0:
                break
            stays = shares > length
            signs[held[~stays]] = 0.0
            triangle, held = _leave(triangle, stays), held[stays]
            sizes, pulls = sizes[stays], (1.0 - length) * pulls[stays]
        v[:] = 0.0
        v[held] = sizes * signs[held]


def _enter(triangle: np.ndarray, rows: np.ndarray, new: np.ndarray, ridge: float) -> np.ndarray:
    """Return the triangle of all columns from that of the first."""
    n, more, outside = len(rows), len(new), new.T
    grown = np.zeros((n + more, n + more), order="F")
    if n:
        across = dtrtrs(triangle, rows @ new.T, trans=1)[0]
        inside = dtrtrs(triangle, across)[0]
        outside = np.concatenate([outside - rows.T @ inside, -ridge * inside])
        grown[:n, :n], grown[:n, n:] = triangle[:n], across
    grown[n:, n:] = dtpqrt(0, min(BLOCK, more), ridge * np.eye(more), outside)[0]
    return grown


def _leave(triangle: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """Return the triangle of the columns that stay; rows below it mean nothing, and LAPACK passes them over."""
    first, n = int(stays.argmin()), int(stays.sum())
    triangle, stays = triangle[: len(stays), stays], stays[first:]
    below = triangle[first:, first:]
    if first < n:
        triangle[first:n, first:] = dtpqrt(0, min(BLOCK, n - first), below[stays], below[~stays])[0]
    return triangle
