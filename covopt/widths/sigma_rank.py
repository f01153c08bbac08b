"""Rank_σ of a pair of covariances, the least width of a layer that has them, by least squares from many starts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from covopt.checks import Brief
from covopt.checks.validation import check_bias, check_time_limit, check_tol
from covopt.completely_positive import CPStatus
from covopt.completely_positive.lower import clique_cover_bound, rank_bound
from covopt.completely_positive.matrix import SymmetricMatrix, support_pattern
from covopt.completely_positive.rank import cp_rank
from covopt.data.tabular import to_symmetric
from covopt.errors import InputError
from covopt.exact.rank import COMPUTED
from covopt.exact.rounding import EPS, gamma
from covopt.limits import HALF

FREEZE = (-1.0, 3e-4, 3e-3, 3e-2)  # entries up to these are fixed at zero: minima lie on kinks


def read_pair(K: Any, K_sigma: Any, bias: Any, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
    r"""Return K and :math:`P = K^\sigma - \beta^2 1 1^T` as symmetric arrays, and a bound on the subtraction's error.

    K and P must be positive semidefinite, P ≥ 0 and P_ii ≤ K_ii, or the pair is outside S. Entries of P up to the
    error bound, which is due to the rounding of β², are set to zero.

    Parameters
    ----------
    K, K_sigma : array_like of shape (N, N)
    bias : float
    tol : float
        Rounding allowed, relative to √(K_ii K_jj).

    Raises
    ------
    InputError
        With the condition that fails and its position.

    Examples
    --------
    >>> read_pair([[2.0]], [[2.0]], 1.0, 1e-9)
    (array([[2.]]), array([[1.]]), 0.0)
    """
    beta = check_bias(bias)
    first, second = to_symmetric("K", K, COMPUTED), to_symmetric("K_sigma", K_sigma, COMPUTED)
    if first.shape != second.shape:
        raise InputError(
            f"K has shape {first.shape} but K_sigma has {second.shape}; both belong to the same points."
        )
    P, whole = second - beta**2, beta.is_integer() and (second == np.round(second)).all()
    # β², the entry of K_sigma that holds it and the difference are rounded
    lost = 0.0 if beta == 0 or (whole and second.max() < 2**53) else gamma(4) * beta**2
    roots = np.sqrt(np.maximum(np.diag(first), lost / tol))
    named = "K_sigma − β²11ᵀ" if beta > 0 else "K_sigma"
    below = P + tol * np.outer(roots, roots) < 0.0
    if below.any():
        i, j = (int(v) for v in np.argwhere(below)[0])
        raise InputError(
            f"the pair is outside S: {named} has a negative entry, {P[i, j]:.6g} at ({i}, {j}) (counting from 0); "
            "σ(z)σ(z)ᵀ has none."
        )
    excess = np.diag(P) - np.diag(first) - tol * roots**2
    if (excess > 0).any():
        i = int(excess.argmax())
        raise InputError(
            f"the pair is outside S: at diagonal entry {i} {named} is {P[i, i]:.6g} but K is {first[i, i]:.6g}; "
            "σ(z)² cannot exceed z²."
        )
    scale = np.where(roots > 0, roots, roots.max(initial=0.0) or 1.0)
    for name, matrix in (("K", first), (named, P)):
        least = float(np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0])
        # the rounding of eigenvalues and quotients adds to the errors of the entries
        if least < -len(matrix) * (tol + gamma(8 * (len(matrix) + 8))):
            raise InputError(
                f"the pair is outside S: {name} is not positive semidefinite; scaled by the diagonal of K its least "
                f"eigenvalue is {least:.3g}."
            )
    return first, np.where(np.abs(P) <= lost, 0.0, P), lost


def pair_residual(Z: np.ndarray, K: np.ndarray, P: np.ndarray) -> float:
    """Return the largest error of (ZZᵀ, σ(Z)σ(Z)ᵀ), entries relative to √(K_ii K_jj)."""
    roots = np.sqrt(np.maximum(np.diag(K), 0.0))
    roots = np.where(roots > 0, roots, roots.max(initial=0.0) or 1.0)
    active = np.maximum(Z, 0.0)
    errors = (np.abs(Z @ Z.T - K), np.abs(active @ active.T - P))
    return float(max((e / np.outer(roots, roots)).max() for e in errors))


def decompose(
    K: np.ndarray,
    P: np.ndarray,
    width: int,
    *,
    n_starts: int,
    tol: float,
    rng: np.random.Generator,
    end: float,
    max_iter: int = 300,
) -> np.ndarray | None:
    r"""Search for Z of a given width with :math:`ZZ^T = K`, :math:`\sigma(Z)\sigma(Z)^T = P`.

    .. math:: \min_Z \|ZZ^T - K\|_F^2 + \|\sigma(Z)\sigma(Z)^T - P\|_F^2

    with K scaled to a unit diagonal. Starts have ZZᵀ = K exactly. Each descent is repeated with more and more
    of the small entries fixed at zero, where the minima have their kinks. Heuristic: None proves nothing.

    Parameters
    ----------
    K, P : ndarray of shape (N, N)
        K must have a positive diagonal.
    width : int
    n_starts : int
    tol : float
    rng : numpy.random.Generator
    end : float
        ``time.perf_counter()`` at which to stop.
    max_iter : int

    Returns
    -------
    ndarray of shape (N, width) or None

    Examples
    --------
    >>> Z = np.array([[1.0, -1.0], [0.5, 2.0]])
    >>> K, P = Z @ Z.T, np.maximum(Z, 0) @ np.maximum(Z, 0).T
    >>> found = decompose(
    ...     K, P, 2, n_starts=10, tol=1e-9, rng=np.random.default_rng(0), end=time.perf_counter() + 60
    ... )
    >>> pair_residual(found, K, P) < 1e-9
    True
    """
    roots = np.sqrt(np.diag(K))
    unit, active = K / np.outer(roots, roots), P / np.outer(roots, roots)
    values, vectors = np.linalg.eigh(unit)
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    for _ in range(n_starts):
        if time.perf_counter() >= end:
            return None
        side = max(width, len(K))
        mixing = np.linalg.qr(rng.standard_normal((side, side)))[0] * rng.choice([-1.0, 1.0], side)
        Z = factor @ mixing[: len(K), :width]
        for size in FREEZE:
            Z = descend(unit, active, Z, np.abs(Z) > size, max_iter)
            if pair_residual(Z, unit, active) <= tol:
                return Z * roots[:, None]
    return None


def descend(
    unit: np.ndarray, active: np.ndarray, Z: np.ndarray, mask: np.ndarray, max_iter: int
) -> np.ndarray:
    """Move Z towards ZZᵀ = K, σ(Z)σ(Z)ᵀ = P by least squares on the entries in the mask; the others are zero."""
    i, j = np.triu_indices(len(Z))
    rows = np.arange(len(i))
    missing = max(0, int(mask.sum()) - 2 * len(i))  # MINPACK needs as many errors as unknowns

    def full(z: np.ndarray) -> np.ndarray:
        found = np.zeros_like(Z)
        found[mask] = z
        return found

    def errors(z: np.ndarray) -> np.ndarray:
        A = np.maximum(V := full(z), 0.0)
        return np.pad(np.concatenate([(V @ V.T - unit)[i, j], (A @ A.T - active)[i, j]]), (0, missing))

    def jacobian(z: np.ndarray) -> np.ndarray:
        V = full(z)
        J = np.zeros((2, len(i), *V.shape))
        for block, W in enumerate((V, np.maximum(V, 0.0))):
            np.add.at(J[block], (rows, i), W[j])
            np.add.at(J[block], (rows, j), W[i])
        J[1] *= V > 0
        return np.pad(J.reshape(2 * len(i), *V.shape)[:, mask], ((0, missing), (0, 0)))

    if not mask.any():
        return np.zeros_like(Z)
    return full(least_squares(
        errors, Z[mask], jacobian, method="lm", xtol=EPS, ftol=EPS, gtol=EPS, max_nfev=max_iter
    ).x)  # fmt: skip


STARTS = 12  # per width


@dataclass(frozen=True, eq=False, repr=False)
class SigmaRank(Brief):
    """Lower and upper bounds on Rank_σ.

    Attributes
    ----------
    lower : int
        Lower bound on the columns of every decomposition.
    upper : int or None
        Columns of ``decomposition``; None if none was found: then it is undecided whether the pair lies in S.
    decomposition : ndarray of shape (N, upper) or None
        Z with ZZᵀ = K and σ(Z)σ(Z)ᵀ = Kᵠ − β²11ᵀ up to ``residual``.
    residual : float or None
        Largest error of an entry, relative to √(K_ii K_jj).
    reasons : tuple of str
        Every bound with its source.
    """

    lower: int
    upper: int | None
    decomposition: np.ndarray | None
    residual: float | None
    reasons: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the bounds meet."""
        return self.lower == self.upper

    def summary(self) -> str:
        """Return a short text summary."""
        if self.upper is None:
            head = f"undecided: no decomposition found; Rank_σ ≥ {self.lower} if the pair lies in S at all"
        else:
            head = f"Rank_σ = {self.lower}" if self.is_exact else f"{self.lower} ≤ Rank_σ ≤ {self.upper}"
        return "\n".join([head, *(f"  {reason}" for reason in self.reasons)])


def sigma_rank(
    K: Any,
    K_sigma: Any,
    *,
    bias: float = 0.0,
    tol: float = 1e-9,
    time_limit_s: float | None = 60.0,
    random_state: int | None = 0,
) -> SigmaRank:
    r"""Bound the least number of neurons whose covariances are (K, Kᵠ), with a decomposition.

    .. math:: \mathrm{Rank}_\sigma(K, K^\sigma) = \min\Big\{m : K = \sum_{j=1}^m z_j z_j^T,\;
              K^\sigma = \sum_{j=1}^m \sigma(z_j)\sigma(z_j)^T + \beta^2 1 1^T\Big\}

    A layer of width n has these covariances if and only if n ≥ Rank_σ (FL22 (4.1), Prop 8). Lower bounds: rank K
    (FL22 Lemma 10) and the CP-rank of :math:`K^\sigma - \beta^2 1 1^T` (FL22 §4.2). Upper bounds: the narrowest
    decomposition found, by least squares from the lower bound up to r(r + 1)/2 + N(N + 1)/2 neurons, which are
    always enough (r = rank K; Carathéodory), and a nonnegative factor where K equals
    :math:`K^\sigma - \beta^2 1 1^T`: then every z_j is nonnegative and Rank_σ is the CP-rank.

    Parameters
    ----------
    K, K_sigma : array_like of shape (N, N)
    bias : float
        β. The default is no bias.
    tol : float
        Rounding allowed in the entries, relative to √(K_ii K_jj).
    time_limit_s : float, optional
    random_state : int, optional

    Returns
    -------
    SigmaRank
        ``upper`` is None if no decomposition was found in time. The search is heuristic: this proves nothing, and the
        pair may lie outside S.

    Raises
    ------
    InputError
        For matrices that are not square, symmetric, finite and of one shape, and for a pair that is proved to
        lie outside S: an indefinite matrix, a negative entry of Kᵠ − β²11ᵀ, a diagonal above that of K, one that is
        not completely positive. :func:`covopt.cone_membership` decides the other cases, with a certificate.

    Examples
    --------
    >>> Z = np.array([[1.0, -1.0], [0.5, 2.0]])
    >>> found = sigma_rank(Z @ Z.T, np.maximum(Z, 0) @ np.maximum(Z, 0).T)
    >>> found.lower, found.upper, found.residual < 1e-9
    (2, 2, True)
    """
    began = time.perf_counter()
    tol = check_tol(tol)
    limit = check_time_limit(time_limit_s)
    end = began + (3600.0 if limit is None else limit)
    whole, P, lost = read_pair(K, K_sigma, bias, tol)
    alive = np.diag(whole) > 0
    n = len(whole)
    if not alive.any():
        return SigmaRank(0, 0, np.zeros((n, 0)), 0.0, ("= 0: K vanishes",))
    first, inner = whole[np.ix_(alive, alive)], P[np.ix_(alive, alive)]
    roots = np.sqrt(np.diag(first))
    unit, active = first / np.outer(roots, roots), inner / np.outer(roots, roots)
    rank = rank_bound(SymmetricMatrix(unit), tol)
    reasons = [f"≥ {rank}: rank of K, of every matrix within the tolerance (FL22 Lemma 10)"]
    # points whose activations lose more than tol in the subtraction of β² give no bound
    heard = np.flatnonzero((np.diag(active) > tol) & (tol * np.diag(inner) >= lost))
    low, factor, said = 0, None, "it vanishes"
    if len(heard):
        # entries that the subtraction of β² leaves undecided are passed on as tiny, not as zero
        cautious = np.where(np.abs(inner) <= lost, lost, inner)[np.ix_(heard, heard)]
        low, factor, said = _cp_bounds(cautious, tol, HALF * (end - began), random_state)
    reasons.append(f"≥ {low}: CP-rank of Kᵠ − β²11ᵀ (FL22 §4.2): {said}")
    lower, enough, Z = max(rank, low), rank * (rank + 1) // 2 + len(unit) * (len(unit) + 1) // 2, None
    if factor is not None and lost == 0 and np.array_equal(first, inner):
        Z = factor.T / roots[:, None]
        reasons.append(f"≤ {Z.shape[1]}: no neuron changes sign on any point: a nonnegative factor")
    if Z is None or pair_residual(Z, unit, active) > tol:
        rng = np.random.default_rng(random_state)
        found = (
            decompose(unit, active, width, n_starts=STARTS, tol=tol, rng=rng, end=end)
            for width in range(lower, enough + 1)
        )
        Z = next((each for each in found if each is not None), None)
        if Z is not None:
            width = Z.shape[1]
            reasons.append(f"≤ {width}: found by least squares at width {width}, verified")
    if Z is None:
        reasons.append(
            f"if the pair lies in S, {enough} neurons are enough (Carathéodory; FL22 Lemma 10, "
            "sharpened to r(r+1)/2 + N(N+1)/2); no decomposition was found, so whether it does is undecided"
        )
        return SigmaRank(lower, None, None, None, tuple(reasons))
    full = np.zeros((n, Z.shape[1]))
    full[alive] = Z * roots[:, None]
    return SigmaRank(lower, Z.shape[1], full, pair_residual(full, whole, P), tuple(reasons))


def _cp_bounds(
    A: np.ndarray, tol: float, time_limit_s: float, random_state: int | None
) -> tuple[int, np.ndarray | None, str]:
    """Return a lower bound on the CP-rank, a factor if one was found, and the reason."""
    roots = np.sqrt(np.diag(A))
    A = np.where(np.abs(A) <= tol * np.outer(roots, roots), np.abs(A), A)
    if support_pattern(A, tol).ambiguous:
        low = max(clique_cover_bound(A, tol), rank_bound(SymmetricMatrix(A / np.outer(roots, roots)), tol))
        return (
            low,
            None,
            "its edge-clique cover number, or its rank; entries near zero allow no more",
        )
    found = cp_rank(A, tol=min(tol, 1e-6), time_limit_s=time_limit_s, random_state=random_state)
    if found.status is CPStatus.NOT_CP:
        against = next((r.text for r in found.reasons if r.side == "not_cp"), found.status.message)
        raise InputError(f"the pair is outside S: K_sigma − β²11ᵀ is not completely positive: {against}")
    best = max((r for r in found.reasons if r.side == "lower"), key=lambda r: r.value or 0, default=None)
    return found.lower or 0, found.factor, best.text if best is not None else "its certificate"
