r"""Decide with a certificate if a pair (K, Kᵠ) is in FL22's cone S = cone{(zzᵀ, σ(z)σ(z)ᵀ)} + (0, β²11ᵀ).

The nearest point of the cone is computed by fully corrective Frank–Wolfe: nonnegative least squares on the atoms so
far, local descent on the atoms, and the exact minimum of zᵀAz + σ(z)ᵀBσ(z) for the residual (A, B). Either the
residual vanishes, and the atoms are a decomposition; or the form is nonnegative for every z while ⟨A, K⟩ + ⟨B, Kᵠ −
β²11ᵀ⟩ < 0, and (A, B) separates the pair from the cone.

**The exact minimum** of zᵀAz + σ(z)ᵀBσ(z) over unit z ∈ ℝᴺ. On the face of an orthant with support s and active
entries a ⊂ s the form is wᵀQw with Q = A_ss + B_aa. A minimiser over the sphere lies in the relative interior of one
face and is there a local minimum of Q on the unit sphere of the face's span, hence an eigenvector of the smallest
eigenvalue λ with the face's signs. So the minimum is the least λ over the 3ᴺ − 1 faces that may contain their
eigenvector. For a small gap γ eigenvectors are unreliable, but if such a face contains a minimiser w*, the circle
through w* in the plane of the two lowest eigenvectors has values ≤ λ + γ and leaves the pointed face towards −w*:
a face of lower dimension has the same minimum up to γ, and so on (:func:`covopt.oracles.base.settle_doubts`).

**Rounding.** With T = N(\|A\| + \|B\|), Frobenius, the error of λ is at most δ = δ₀ + γ(4(2N + 8)⌈√N⌉) T, where δ₀
bounds the residual of the decomposition (:func:`~covopt.exact.definite.spectrum_error_up`). A face is excluded only
if ±v violate its signs by more than the error 2δ/γ of v, γ > 8δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product
from math import ceil, sqrt
from typing import Any

import numpy as np
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from covopt.checks import Brief
from covopt.checks.validation import check_bias, check_tol
from covopt.data.tabular import to_symmetric
from covopt.errors import BudgetError, InputError
from covopt.exact.definite import spectrum_error_up
from covopt.exact.rank import COMPUTED, FOUND
from covopt.exact.rounding import ROUNDING, allowance, gamma, up
from covopt.oracles.base import settle_doubts
from covopt.widths.sigma_rank import descend

DEFAULT_BUDGET = 300_000


@dataclass(frozen=True)
class QuadraticMinimum:
    """Result of :func:`minimise`.

    Attributes
    ----------
    lower_bound : float
        Lower bound on the minimum over unit z, rounding errors included.
    points : ndarray of shape (m, N)
        Unit minimisers over the spans of faces that lie in their faces, best first.
    values : ndarray of shape (m,)
    """

    lower_bound: float
    points: np.ndarray
    values: np.ndarray


def minimise(A: np.ndarray, B: np.ndarray, *, budget: int = DEFAULT_BUDGET) -> QuadraticMinimum:
    """Minimise zᵀAz + σ(z)ᵀBσ(z) over ‖z‖ = 1.

    Parameters
    ----------
    A, B : ndarray of shape (N, N)
        Symmetric.
    budget : int
        Maximal number of faces.

    Raises
    ------
    BudgetError
        If there are more faces.

    Examples
    --------
    >>> found = minimise(np.eye(2), -np.ones((2, 2)))
    >>> found.points[0].round(6), round(float(found.values[0]), 6)
    (array([0.707107, 0.707107]), -1.0)
    """
    n = len(A)
    if 3**n - 1 > budget:
        raise BudgetError(
            f"{n} samples have more than {budget} faces, the budget of the exact minimum over z; use fewer samples"
        )
    size = float(np.linalg.norm(A) + np.linalg.norm(B))
    rounded = gamma(4 * (2 * n + 8) * ceil(sqrt(n))) * up(n * size * (1.0 + gamma(2 * n * n + 16)))
    points: list[np.ndarray] = []
    settled, doubts = -np.inf, list[tuple[float, float]]()
    for dim in range(1, n + 1):
        supports = np.array(list(combinations(range(n), dim)))
        signs = np.array(list(product((-1.0, 1.0), repeat=dim)))
        places, on = np.repeat(supports, len(signs), axis=0), np.tile(signs, (len(supports), 1))
        active = (on > 0).astype(float)
        picked = places[:, :, None], places[:, None, :]
        matrices = A[picked] + B[picked] * active[:, :, None] * active[:, None, :]
        matrices = 0.5 * (matrices + matrices.transpose(0, 2, 1))
        spectrum, vectors = np.linalg.eigh(matrices)
        left, turned = spectrum_error_up(matrices, spectrum, vectors)
        error = left + rounded
        gaps = spectrum[:, 1] - spectrum[:, 0] if dim > 1 else np.full(len(left), np.inf)
        heights = on * vectors[:, :, 0]
        worst, best = heights.min(axis=1), heights.max(axis=1)
        outside = np.minimum(-worst, best)  # violation of the signs by v or −v, whichever is smaller
        near = turned + n * ROUNDING
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.where(gaps > 8.0 * error, 2.0 * error / gaps, np.inf)
        counts = (outside <= near) | (dim == 1)  # a ray contains its eigenvector
        settled = max(settled, float((error - spectrum[:, 0])[counts].max(initial=-np.inf)))
        doubtful = ~counts & (outside <= near + turn)
        tops, widths = (error - spectrum[:, 0])[doubtful], (gaps + 2.0 * error)[doubtful]
        doubts += zip(tops.tolist(), widths.tolist(), strict=True)
        inside = outside <= 0.0
        found = np.zeros((int(inside.sum()), n))
        turned_up = np.where(best <= 0.0, -1.0, 1.0)[inside, None] * vectors[inside, :, 0]
        np.put_along_axis(found, places[inside], turned_up, axis=1)
        points.append(found)
    bound = -settle_doubts(settled, doubts, n - 1)
    z = np.concatenate(points)
    positive = np.maximum(z, 0.0)
    values = np.einsum("fn,nm,fm->f", z, A, z) + np.einsum("fn,nm,fm->f", positive, B, positive)
    order = np.argsort(values, kind="stable")
    return QuadraticMinimum(float(np.nextafter(bound, -np.inf)), z[order], values[order])


SLIDES = 5  # iterations between two local descents on the atoms
DESCENTS = 60  # evaluations of a local descent
NEAR = 0.98  # cosine above which atoms are merged for descent


class Place(StrEnum):
    """Outcome of :func:`cone_membership`."""

    IN = "in"
    OUT = "out"
    UNDECIDED = "undecided"


@dataclass(frozen=True, eq=False, repr=False)
class Membership(Brief):
    """Whether a pair is in the cone, with a proof.

    Attributes
    ----------
    status : Place
    decomposition : ndarray of shape (m, N) or None
        Rows z_j with K = Σ z_jz_jᵀ and Kᵠ = Σ σ(z_j)σ(z_j)ᵀ + β²11ᵀ, up to ``residual``.
    residual : float
        Frobenius distance of the pair to the nearest point found, relative to the pair's norm.
    separator : (ndarray, ndarray) or None
        (A, B) with ⟨A, K⟩ + ⟨B, Kᵠ − β²11ᵀ⟩ = ``separation`` < 0, and zᵀAz + σ(z)ᵀBσ(z) ≥ 0 for all z.
    separation : float
        The value for A and B of joint norm one and the pair scaled to norm one; 0 without separator.
    """

    status: Place
    decomposition: np.ndarray | None
    residual: float
    separator: tuple[np.ndarray, np.ndarray] | None
    separation: float


def cone_membership(
    K: Any,
    K_sigma: Any,
    *,
    bias: float = 0.0,
    tol: float = 1e-8,
    max_iter: int = 200,
    budget: int = DEFAULT_BUDGET,
) -> Membership:
    r"""Decide whether (K, Kᵠ) is in the cone S of a ReLU layer, with a decomposition or a separating pair.

    Parameters
    ----------
    K, K_sigma : array_like of shape (N, N)
        Symmetric.
    bias : float
        β; β²11ᵀ is first subtracted from Kᵠ.
    tol : float
        Relative residual at which a decomposition is accepted.
    max_iter : int
    budget : int
        Maximal number of faces for the exact minimum; there are 3ᴺ.

    Returns
    -------
    Membership
        ``UNDECIDED`` if neither proof was found within ``max_iter``: the pair is within ``residual`` of the cone, and
        no separation exceeds the rounding error.

    Raises
    ------
    InputError
        If the matrices are not symmetric N × N.
    BudgetError
        If there are too many faces.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[1.0, -1.0], [1.0, 1.0]])
    >>> K, K_sigma = z.T @ z, np.maximum(z, 0).T @ np.maximum(z, 0)
    >>> cone_membership(K, K_sigma).status.value
    'in'
    >>> cone_membership(K, K_sigma + np.eye(2)).status.value
    'out'
    """
    tol = check_tol(tol)
    first, second, size = _read(K, K_sigma, bias)
    if size == 0.0:
        return Membership(Place.IN, np.zeros((0, len(first))), 0.0, None, 0.0)
    # small dense problems, for which threads are slower
    with threadpool_limits(1, user_api="blas"):
        return _decide(first / size, second / size, size, tol, max_iter, budget)


def _read(K: Any, K_sigma: Any, bias: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Return K and Kᵠ − β²11ᵀ, and the norm of the pair."""
    first, second = to_symmetric("K", K, COMPUTED), to_symmetric("K_sigma", K_sigma, COMPUTED)
    if first.shape != second.shape:
        raise InputError(f"K and K_sigma must have one shape; received {first.shape} and {second.shape}")
    second = second - check_bias(bias) ** 2
    return first, second, float(np.hypot(np.linalg.norm(first), np.linalg.norm(second)))


def _decide(
    first: np.ndarray, second: np.ndarray, size: float, tol: float, max_iter: int, budget: int
) -> Membership:
    """Project on the cone until a decomposition or a separating pair is found; the pair has norm one."""
    n = len(first)
    target = np.concatenate([first.ravel(), second.ravel()])
    points = np.concatenate([np.eye(n), -np.eye(n)])
    residual = np.inf
    for iteration in range(max_iter):
        points, masses, missed = _project(points, target)
        if iteration % SLIDES == 2 and len(points) and np.linalg.norm(missed) > tol:
            slid = _slide(points, masses, target)
            points, masses, missed = _project(np.concatenate([points, slid]), target)
        residual = float(np.linalg.norm(missed))
        if residual <= tol:
            decomposition = np.sqrt(size * masses)[:, None] * points
            return Membership(Place.IN, decomposition, residual, None, 0.0)
        A, B = missed.reshape(2, n, n) / residual
        lowest = minimise(A, B, budget=budget)
        found = _separate(A, B, lowest.lower_bound, first, second)
        if found is not None:
            A, B, separation = found
            return Membership(Place.OUT, None, residual, (A, B), separation)
        fresh = lowest.points[lowest.values < 0]
        if not len(fresh):
            break
        points = np.concatenate([points, fresh])
    return Membership(Place.UNDECIDED, None, residual, None, 0.0)


def check_membership(
    membership: Membership,
    K: Any,
    K_sigma: Any,
    *,
    bias: float = 0.0,
    tol: float = 1e-8,
    budget: int = DEFAULT_BUDGET,
) -> bool:
    """Check the proof of a :class:`Membership` from the matrices alone; UNDECIDED has no proof.

    Parameters
    ----------
    membership : Membership
    K, K_sigma, bias, tol, budget
        As for :func:`cone_membership`.

    Examples
    --------
    >>> K = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> found = cone_membership(K, np.zeros((2, 2)))
    >>> found.status.value, check_membership(found, K, np.zeros((2, 2)))
    ('out', True)
    """
    first, second, size = _read(K, K_sigma, bias)
    if membership.status is Place.IN and membership.decomposition is not None:
        Z = membership.decomposition
        positive = np.maximum(Z, 0.0)
        distance = np.hypot(np.linalg.norm(Z.T @ Z - first), np.linalg.norm(positive.T @ positive - second))
        return bool(distance <= 2 * tol * size)
    if membership.status is Place.OUT and membership.separator is not None:
        A, B = membership.separator
        total = float(np.vdot(A, first) + np.vdot(B, second))
        size_of_terms = float(np.vdot(np.abs(A), np.abs(first)) + np.vdot(np.abs(B), np.abs(second)))
        error = allowance(2 * len(first) ** 2, size_of_terms)
        # the form may be negative by rounding only; that times the trace of K is subtracted
        lowest = minimise(0.5 * (A + A.T), 0.5 * (B + B.T), budget=budget).lower_bound
        mass = max(0.0, float(np.trace(first)))
        length = float(np.hypot(np.linalg.norm(A), np.linalg.norm(B)))
        return bool(lowest >= -FOUND * length and total + error - min(0.0, lowest) * mass < 0)
    return False


def _separate(
    A: np.ndarray, B: np.ndarray, lowest: float, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Shift A so that the form is nonnegative; return the pair if ⟨A, K⟩ + ⟨B, C⟩ is still negative, else None.

    Both have norm about one: the entries of the shifted and scaled pair have a relative error of a few u, and the sum
    at most 2n² + 24 roundings.
    """
    n = len(first)
    shift = max(0.0, -lowest) * (1.0 + 1e-9) + gamma(8 * (n + 8))
    A = A + shift * np.eye(n)
    length = float(np.sqrt(np.square(A).sum() + np.square(B).sum()))
    A, B = A / length, B / length
    separation = float(np.vdot(A, first) + np.vdot(B, second))
    error = max(1e-12 * n, gamma(4 * n * n + 48))
    return (A, B, separation) if separation < -error else None


def _atoms(z: np.ndarray) -> np.ndarray:
    """Return the pairs (zzᵀ, σ(z)σ(z)ᵀ), flattened, one per row."""
    pairs = [x[:, :, None] * x[:, None, :] for x in (z, np.maximum(z, 0.0))]
    return np.concatenate([pair.reshape(len(z), z.shape[1] ** 2) for pair in pairs], axis=1)


def _project(points: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points of positive mass, their masses by nonnegative least squares, and the residual."""
    atoms, count = _atoms(points), len(points)
    # a small multiple of the identity makes the columns independent
    matrix = np.concatenate([atoms.T, FOUND * np.eye(count)])
    masses = nnls(matrix, np.concatenate([target, np.zeros(count)]), maxiter=20 * count)[0]
    return points[masses > 0], masses[masses > 0], masses @ atoms - target


def _slide(points: np.ndarray, masses: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Run local descent from clusters of the atoms, the heaviest first; return unit points."""
    n, order = points.shape[1], np.argsort(-masses)
    K, P = target.reshape(2, n, n)
    start = []
    while len(order):
        near = points[order] @ points[order[0]] >= NEAR
        near[0] = True
        group, order = order[near], order[~near]
        total = masses[group] @ points[group]
        start.append(total / np.linalg.norm(total) * np.sqrt(masses[group].sum()))
    moved = descend(K, P, np.array(start).T, np.ones((n, len(start)), dtype=bool), DESCENTS).T
    lengths = np.linalg.norm(moved, axis=1)
    return moved[lengths > 0] / lengths[lengths > 0, None]
