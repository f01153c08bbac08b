r"""An active-set method for the restricted problem of one output: exact, and quick from a good start.

    min over v   ½ ‖c − Aᵀv‖² + ‖v‖₁          (A: one atom per row)

The active columns keep their signs; the least-squares solution on them is approached until a weight would change its
sign, which leaves, and the columns that violate |⟨a, c − Aᵀv⟩| ≤ 1 most enter, a few at a time. Next to no weight on
‖v‖² makes the system definite where columns depend on one another (a pair ±w may): its steps are then so long in the
directions that change no output, and in which the norm falls, that a weight vanishes, as in the simplex method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

RIDGE = 1e-12  # weight on ½‖v‖², of the largest square of a column
VIOLATION = 1e-9  # |⟨a, c − Aᵀv⟩| − 1 that is let pass
BATCH = 10
MAX_STEPS = 3000
PATIENCE = 3  # rounds without progress after which rounding is all that is left


class SparsePoint(NamedTuple):
    """Solution of the restricted problem.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        v.
    residual : ndarray of shape (N,)
        c − Aᵀv, the dual point: at most 1 + VIOLATION in absolute value on every atom when ``solved``.
    solved : bool
        Whether no column violates its bound. Otherwise the weights are a point of the problem like any other: the
        steps ran out, or the columns that should enter depend on the active ones within rounding.
    """

    weights: np.ndarray
    residual: np.ndarray
    solved: bool


def solve_sparse(atoms: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> SparsePoint:
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
    SparsePoint

    Examples
    --------
    >>> solve_sparse(np.eye(2), np.array([3.0, 0.5])).weights
    array([2., 0.])
    """
    v = np.zeros(len(atoms)) if weights is None else weights.astype(float)
    signs, least, idle, steps, violated = np.sign(v), np.inf, 0, 0, True
    ridge = RIDGE * float(np.einsum("ij,ij->i", atoms, atoms).max(initial=0.0))
    while True:
        residual = targets - v @ atoms
        value, slopes = 0.5 * float(residual @ residual) + float(np.abs(v).sum()), atoms @ residual
        idle = 0 if value < least - 1e-13 * abs(value) else idle + 1
        least = min(value, least)
        beyond = np.where(signs == 0.0, np.abs(slopes) - 1.0, 0.0)
        violated = bool(beyond.max(initial=0.0) > VIOLATION)
        if steps and (not violated or idle >= PATIENCE or steps > MAX_STEPS):
            return SparsePoint(v, residual, not violated)
        if steps or not signs.any():
            worst = np.argsort(-beyond)[: 1 if idle else BATCH]
            worst = worst[beyond[worst] > max(0.1 * beyond[worst[:1]].sum(), VIOLATION)]
            signs[worst] = np.sign(slopes[worst])
        held = np.flatnonzero(signs)
        system = atoms[held] @ atoms[held].T + ridge * np.eye(len(held))
        pulls = slopes[held] - signs[held]
        steps += 1
        while len(held):
            steps += 1
            _, step, failed = dposv(system, pulls)
            if failed:
                return SparsePoint(v, residual, False)
            size, falls = v[held] * signs[held], step * signs[held]
            leaves = size + falls <= 0.0
            if not leaves.any():
                v[held] += step
                break
            shares = np.where(leaves, size / np.where(leaves, -falls, 1.0), 1.0)
            length = float(shares.min())
            v[held] += length * step
            stays = shares > length
            v[held[~stays]] = signs[held[~stays]] = 0.0
            held, pulls, system = held[stays], (1.0 - length) * pulls[stays], system[stays][:, stays]
