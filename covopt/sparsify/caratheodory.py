"""Carathéodory: from any optimal network to one with at most N neurons, at no larger cost."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs, dpocon, dpotrf

from covopt.exact.rank import ATOMS, numerical_rank

SQUARE = 1e-9  # reciprocal condition above which null vectors are solved for without pivots on columns
CLEAR = 1e-6  # and above which a Gram matrix, whose condition is the square, shows independent columns
NEUTRAL = 1e-13  # a direction along which the cost changes by less, relatively, costs nothing


def caratheodory(atoms: np.ndarray, weights: np.ndarray, *, rank_tol: float = ATOMS) -> np.ndarray:
    """Reduce the support of signed weights without changing the output or raising the cost.

    Moves along null vectors of the atoms, each in the direction in which Σ|c_j| does not grow, until an entry
    vanishes; at most rank(atoms) ≤ N neurons remain (Fisher–Jerome; SP20 after eq. 21). Many columns are taken in
    batches of at most N/2 more than remain, so that each null space stays small.

    Parameters
    ----------
    atoms : ndarray of shape (N, m)
    weights : ndarray of shape (m,)
    rank_tol : float
        Singular value, relative to the largest, that counts as zero.

    Returns
    -------
    ndarray of shape (m,)
        Weights of the same signs, with zeros.

    Examples
    --------
    >>> caratheodory(np.array([[1.0, 1.0, 2.0]]), np.array([1.0, 1.0, 1.0]))
    array([0., 0., 2.])
    """
    n = len(atoms)
    sign = np.where(weights < 0, -1.0, 1.0)
    masses = np.abs(weights).astype(float)
    order = np.argsort(-masses, kind="stable")[: np.count_nonzero(masses)]
    kept = order[:n]
    start = n
    regular = True  # until the heaviest columns are nearly dependent: then lighter ones are no better
    while start < len(order):
        # few at a time, for rounding errors grow along an elimination; pivots cost more, and keep them small
        extra = max(32, n // 8 if regular else n // 2)
        batch = np.concatenate([kept, order[start : start + extra]])
        start += extra
        masses[batch], regular = _spend_surplus(
            atoms[:, batch] * sign[batch], masses[batch], rank_tol, regular
        )
        kept = batch[masses[batch] > 0]
    masses[kept] = _spend_dependent(atoms[:, kept] * sign[kept], masses[kept], rank_tol)
    return sign * masses


def _normalise(signed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = np.linalg.norm(signed, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return signed / scale, scale


def _spend_surplus(
    signed: np.ndarray, masses: np.ndarray, rank_tol: float, regular: bool
) -> tuple[np.ndarray, bool]:
    """More columns than rows: null vectors by solving for the last columns, or by QR where that is ill-posed.

    Returns the masses, and whether it was well-posed; where it is known not to be, it is not tried.
    """
    unit, scale = _normalise(signed)
    if unit.shape[1] <= len(unit):
        return masses, regular
    null = _surplus_rows(unit) if regular else None
    rows = _null_rows(unit, rank_tol) if null is None else null
    return _eliminate(rows, masses * scale, 1.0 / scale) / scale, null is not None


def _surplus_rows(unit: np.ndarray) -> np.ndarray | None:
    """Null vectors (−B⁻¹E, I) of unit columns (B, E) as rows, B square; None where B is nearly singular."""
    n, m = unit.shape
    square = np.asfortranarray(unit[:, :n])
    factor, pivots, failed = dgetrf(square)
    size = float(np.abs(square).sum(axis=0).max(initial=0.0))
    if failed or dgecon(factor, size)[0] < SQUARE:
        return None
    null = np.zeros((m - n, m))
    null[:, :n] = -dgetrs(factor, pivots, unit[:, n:])[0].T
    null[:, n:] = np.eye(m - n)
    return null


def _spend_dependent(signed: np.ndarray, masses: np.ndarray, rank_tol: float) -> np.ndarray:
    """Reduce what is still dependent among at most as many columns as rows."""
    if not signed.size:
        return masses
    unit, scale = _normalise(signed)
    if _is_independent(unit):
        return masses
    null = _null_rows(unit, rank_tol)
    return _eliminate(null, masses * scale, 1.0 / scale) / scale if len(null) else masses


def _is_independent(unit: np.ndarray) -> bool:
    """Whether columns are clearly independent, which a Gram matrix tells far sooner than a pivoted factor."""
    gram = dsyrk(1.0, unit, trans=1)
    size = float(np.abs(gram + np.triu(gram, 1).T).sum(axis=0).max())
    factor, failed = dpotrf(gram, clean=0)
    return not failed and dpocon(factor, size)[0] > CLEAR**2


def _null_rows(unit: np.ndarray, rank_tol: float) -> np.ndarray:
    """Null vectors of unit columns as rows, one for each column that depends on the pivots.

    An orthonormal basis of the null space is any rotation of any other, and which one an SVD returns depends on its
    rounding errors, hence on the processor. This one depends on the order of the columns alone: tilted lengths leave
    no tie between the pivots.
    """
    m = unit.shape[1]
    tilt = 1.0 + np.arange(m, 0, -1) / m
    upper, pivots = qr(unit * tilt, mode="r", pivoting=True, check_finite=False)
    rank = numerical_rank(np.abs(np.diag(upper)), rank_tol)
    null = np.zeros((m - rank, m))
    null[:, pivots[rank:]] = np.eye(m - rank)
    null[:, pivots[:rank]] = -solve_triangular(upper[:rank, :rank], upper[:rank, rank:], check_finite=False).T
    null = null[np.argsort(pivots[rank:])] * tilt  # beyond the rank the pivots' order is rounding
    return null / np.linalg.norm(null, axis=1, keepdims=True)


def _eliminate(null, masses, costs):
    """Spend one null vector (row) after the other; each sets one mass to zero and leaves the others' rows.

    Masses belong to columns of unit length, so that no threshold depends on the units of a column.
    """
    masses, alive = masses.copy(), masses > 0
    for pick in range(len(null)):
        row = np.where(alive, null[pick], 0.0)
        longest = int(np.abs(row).argmax())
        size = abs(row[longest])
        if size < 1e-12:
            continue
        row /= size
        terms = costs * row
        total = terms.sum()
        if abs(total) <= NEUTRAL * np.abs(terms).sum():  # the sign of a rounding error decides nothing
            total = row[longest]
        if total < 0.0:  # masses − t·direction with t ≥ 0 must not grow in cost
            row = -row
        if row.max() <= 1e-9:
            continue
        steps = np.divide(masses, row, out=np.full(len(row), np.inf), where=row > 1e-9)
        leaving = int(steps.argmin())
        masses = np.maximum(masses - steps[leaving] * row, 0.0)
        masses[leaving], alive[leaving] = 0.0, False
        left = pick + 1 + np.flatnonzero(null[pick + 1 :, leaving])
        null[left] -= null[left, leaving, None] / row[leaving] * row
    return masses
