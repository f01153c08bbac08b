"""The pair (K, Kᵠ): checked, and the cheap conditions that every pair of a ReLU layer meets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_bias
from covopt.data.tabular import to_symmetric
from covopt.errors import InputError
from covopt.exact.rounding import gamma

ASYMMETRY = 1e-12


@dataclass(frozen=True, eq=False)
class Pair:
    """K and P = Kᵠ − β²11ᵀ.

    Attributes
    ----------
    K, P : ndarray of shape (N, N)
    lost : float
        Entries of P up to this size may be rounding of the subtraction, and are set to zero; 0 where it is exact.
    """

    K: np.ndarray
    P: np.ndarray
    lost: float


def read_pair(K: Any, K_sigma: Any, bias: Any, tol: float) -> Pair:
    r"""Return K and :math:`P = K^\sigma - \beta^2 1 1^T` as symmetric arrays, if they can lie in S.

    With p = σ(z), q = σ(−z) a layer has :math:`P = \sum pp^T`, :math:`Q = \sum qq^T`, :math:`T = \sum pq^T`, all
    entrywise nonnegative, diag T = 0 and :math:`K = P - T - T^T + Q`. So K and P are positive semidefinite, P ≥ 0,
    :math:`Q_{ii} = K_{ii} - P_{ii} \ge 0` and :math:`K_{ij} \le P_{ij} + \sqrt{Q_{ii}Q_{jj}}`. Since T_jj = 0, the
    inactive part of point j is orthogonal to its active part, and T_ij sees only what p_i has beside p_j:

    .. math:: K_{ij} \ge P_{ij} - t_{ij} - t_{ji}, \qquad t_{ij}^2 = Q_{jj}\left(P_{ii} - P_{ij}^2 / P_{jj}\right).

    Parameters
    ----------
    K, K_sigma : array_like of shape (N, N)
    bias : float
    tol : float
        Rounding allowed, against √(K_ii K_jj).

    Raises
    ------
    InputError
        With the condition that fails and where.

    Examples
    --------
    >>> read_pair([[2.0]], [[1.5]], 1.0, 1e-9).P
    array([[0.5]])
    """
    beta = check_bias(bias)
    first, second = to_symmetric("K", K, ASYMMETRY), to_symmetric("K_sigma", K_sigma, ASYMMETRY)
    if first.shape != second.shape:
        raise InputError(
            f"K has shape {first.shape} but K_sigma has {second.shape}; both belong to the same points."
        )
    P = second - beta**2
    exact = beta == 0 or bool(
        beta.is_integer() and (second == np.round(second)).all() and second.max() < 2**53
    )
    # β², the entry of K_sigma that holds it and the difference are rounded
    lost = 0.0 if exact else gamma(4) * beta**2
    roots = np.sqrt(np.maximum(np.diag(first), lost / tol))
    _check_semidefinite("K", first, roots, tol)
    _check_conditions(first, P, roots, "K_sigma − β²11ᵀ" if beta > 0 else "K_sigma", tol)
    return Pair(first, np.where(np.abs(P) <= lost, 0.0, P), lost)


def _check_semidefinite(name: str, matrix: np.ndarray, roots: np.ndarray, tol: float) -> None:
    if (np.diag(matrix) < -tol * roots**2).any():
        i = int(np.diag(matrix).argmin())
        raise InputError(
            f"the pair is outside S: {name} is not positive semidefinite, its diagonal entry {i} is "
            f"{matrix[i, i]:.6g}."
        )
    scale = np.where(roots > 0, roots, roots.max(initial=0.0) or 1.0)
    least = float(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0])
    # what eigenvalues and quotients round comes on top of what the entries may be off by
    if least < -len(matrix) * (tol + gamma(8 * (len(matrix) + 8))):
        raise InputError(
            f"the pair is outside S: {name} is not positive semidefinite; scaled by the diagonal of K its least "
            f"eigenvalue is {least:.3g}."
        )


def _check_conditions(K: np.ndarray, P: np.ndarray, roots: np.ndarray, named: str, tol: float) -> None:
    scale = np.outer(roots, roots)
    below = (P + tol * scale) < 0.0
    if below.any():
        i, j = (int(v) for v in np.argwhere(below)[0])
        raise InputError(
            f"the pair is outside S: {named} has a negative entry, {P[i, j]:.6g} at ({i}, {j}) (counting from 0); "
            "σ(z)σ(z)ᵀ has none."
        )
    Q = np.diag(K) - np.diag(P)
    excess = -Q - tol * roots**2
    if (excess > 0).any():
        i = int(excess.argmax())
        raise InputError(
            f"the pair is outside S: at diagonal entry {i} {named} is {P[i, i]:.6g} but K is {K[i, i]:.6g}; "
            "σ(z)² cannot exceed z²."
        )
    _check_semidefinite(named, P, roots, tol)
    b = np.sqrt(np.maximum(Q, 0.0) + tol * roots**2)
    t = _largest_cross(P, roots, tol) * b
    high = K - P - np.outer(b, b) > tol * scale
    low = P - t - t.T - K > tol * scale
    for wrong, text in ((high, "above P_ij + √(Q_ii Q_jj)"), (low, "below P_ij − t_ij − t_ji")):
        if wrong.any():
            i, j = (int(v) for v in np.argwhere(wrong)[0])
            raise InputError(
                f"the pair is outside S: K is {K[i, j]:.6g} at ({i}, {j}) (counting from 0), {text} with "
                f"P = {named}, Q_ii = K_ii − P_ii and t_ij² = Q_jj (P_ii − P_ij²/P_jj), the most σ allows."
            )


def _largest_cross(P: np.ndarray, roots: np.ndarray, tol: float) -> np.ndarray:
    """Return √(P_ii − P_ij²/P_jj), rounded up: what p_i has beside p_j."""
    scale = np.where(roots > 0, roots, 1.0)
    unit = P / np.outer(scale, scale)
    length = np.maximum(np.diag(unit), 0.0)
    beside = length[:, None] - unit**2 / np.maximum(length, tol)[None, :]
    slack = (
        4.0 * tol * (1.0 + 1.0 / np.maximum(length, tol))[None, :]
    )  # of the quotient, entries wrong by tol
    return np.sqrt(np.clip(beside + slack, 0.0, length[:, None] + tol)) * roots[:, None]
