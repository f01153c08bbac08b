r"""Exact minimum of zᵀAz + σ(z)ᵀBσ(z) over unit z ∈ ℝᴺ: what separating a point from FL22's cone S asks.

On the face of an orthant with support s and active entries a ⊂ s the form is wᵀQw with Q = A_ss + B_aa. A minimiser
over the sphere lies in the relative interior of one face and is there a local minimum of Q on the unit sphere of the
face's span, hence an eigenvector of the smallest eigenvalue λ with the face's signs. So the minimum is the smallest λ
over the 3ᴺ − 1 faces that may hold their eigenvector. Ties, where eigenvectors mean nothing: if such a face holds a
minimiser w*, the circle through w* in the plane of the two lowest eigenvectors has values ≤ λ + γ and leaves the
pointed face on its way to −w*, so a face of lower dimension is as low up to the gap γ, and so on down
(:mod:`covopt.oracles.vector.doubts`).

**Rounding.** With T = N(\|A\| + \|B\|), Frobenius, the computed λ is off by at most δ = δ₀ + γ(4(2N + 8)⌈√N⌉) T, δ₀
what the decomposition leaves over (:func:`~covopt.exact.definite.spectrum_error_up`). A face is left out only where
±v miss its signs by more than v's own error 2δ/γ, γ > 8δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import ceil, sqrt

import numpy as np

from covopt.errors import BudgetError
from covopt.exact.definite import spectrum_error_up
from covopt.exact.rounding import UNIT, gamma, up
from covopt.oracles.vector.doubts import settle_doubts

DEFAULT_BUDGET = 300_000
ROUNDING = 64 * UNIT  # of an entry, relative to N
INSIDE = 1e-12  # how far outside its face a reported point may be


@dataclass(frozen=True)
class QuadraticMinimum:
    """Answer of :func:`minimise`.

    Attributes
    ----------
    lower_bound : float
        No unit z has a smaller value, rounding included.
    points : ndarray of shape (m, N)
        Local minima on their faces' spans that lie in their faces: unit, best first.
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
        Largest number of faces.

    Raises
    ------
    BudgetError
        When there are more faces.

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
        outside = np.minimum(-worst, best)  # how far ±v miss the signs, the better of the two
        near = turned + n * ROUNDING
        with np.errstate(divide="ignore", invalid="ignore"):
            turn = np.where(gaps > 8.0 * error, 2.0 * error / gaps, np.inf)
        counts = (outside <= near) | (dim == 1)  # a ray holds itself
        settled = max(settled, float((error - spectrum[:, 0])[counts].max(initial=-np.inf)))
        doubtful = ~counts & (outside <= near + turn)
        tops, widths = (error - spectrum[:, 0])[doubtful], (gaps + 2.0 * error)[doubtful]
        doubts += zip(tops.tolist(), widths.tolist(), strict=True)
        inside = outside <= INSIDE
        found = np.zeros((int(inside.sum()), n))
        turned_up = np.where(best <= INSIDE, -1.0, 1.0)[inside, None] * vectors[inside, :, 0]
        np.put_along_axis(found, places[inside], turned_up, axis=1)
        points.append(found)
    bound = -settle_doubts(settled, doubts, n - 1)
    z = np.concatenate(points)
    positive = np.maximum(z, 0.0)
    values = np.einsum("fn,nm,fm->f", z, A, z) + np.einsum("fn,nm,fm->f", positive, B, positive)
    order = np.argsort(values, kind="stable")
    return QuadraticMinimum(float(np.nextafter(bound, -np.inf)), z[order], values[order])
