r"""Exact minimum of zᵀAz + σ(z)ᵀBσ(z) over z = R w, ‖w‖ = 1: what separating a point from FL22's cone S asks.

On a face of the arrangement of the rows of R the form is wᵀQw with Q = Rᵀ(A + SBS)R, S the active rows. A minimiser
over the sphere lies in the relative interior of one face and is there a local minimum of Q on the unit sphere of the
face's span, hence an eigenvector of the smallest eigenvalue with the face's signs. So the minimum is the smallest
λ_min over the faces that may hold their eigenvector. A face is left out only where ±v miss its signs by more than v's
own error (Davis and Kahan); faces in doubt count with their λ_min. Ties, where eigenvectors mean nothing: if such a
face holds a minimiser w*, the circle through w* in the plane of the two lowest eigenvectors has values ≤ λ_min + γ
and leaves the pointed face on its way to −w*, so a face of lower dimension is as low up to the gap γ, and so on down.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from covopt.arrangement.enumeration import enumerate_cells
from covopt.errors import BudgetError

DEFAULT_BUDGET = 300_000
EPS = float(np.finfo(float).eps)
TIE = 1e-9  # gap of the two smallest eigenvalues, relative to the form, below which they count as tied
ON_FLAT = 1e-9  # height of a unit row over a flat that counts as zero


@dataclass(frozen=True)
class QuadraticMinimum:
    """Answer of :class:`QuadraticFaces`.

    Attributes
    ----------
    lower_bound : float
        No unit w has a smaller value, rounding included.
    points : ndarray of shape (m, r)
        Local minima on their faces' spans that lie in their faces: unit, best first.
    values : ndarray of shape (m,)
    """

    lower_bound: float
    points: np.ndarray
    values: np.ndarray


class QuadraticFaces:
    """All faces of the arrangement of some rows, kept to minimise many forms over them.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        R, of full column rank; the identity for z in all of ℝᴺ (3ᴺ faces).
    budget : int
        Largest number of faces.

    Raises
    ------
    BudgetError
        When there are more.

    Examples
    --------
    >>> faces = QuadraticFaces(np.eye(2))
    >>> found = faces.minimise(np.eye(2), -np.ones((2, 2)))
    >>> found.points[0].round(6), round(float(found.values[0]), 6)
    (array([0.707107, 0.707107]), -1.0)
    """

    def __init__(self, rows: np.ndarray, *, budget: int = DEFAULT_BUDGET):
        self.rows = np.asarray(rows, dtype=float)
        n, rank = self.rows.shape
        lengths = np.linalg.norm(self.rows, axis=1)
        self._units = self.rows / np.where(lengths > 0, lengths, 1.0)[:, None]
        coordinate = rank == n and np.count_nonzero(self.rows) == n
        self._groups: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.n_faces = 0
        seen: set[bytes] = set()
        for codimension in range(rank):
            bases, actives, touched = [], [], []
            for subset in combinations(np.flatnonzero(lengths > 0), codimension):
                basis = self._flat([int(i) for i in subset], rank, codimension)
                if basis is None:
                    continue
                on = np.abs(self._units @ basis).max(axis=1) <= ON_FLAT
                if on.tobytes() in seen:
                    continue
                seen.add(on.tobytes())
                patterns = self._patterns(basis, on, coordinate)
                self.n_faces += len(patterns)
                if self.n_faces > budget:
                    raise BudgetError(
                        f"the arrangement of {n} rows in dimension {rank} has more than {budget} faces, the budget "
                        "of the exact minimum over z; use fewer samples"
                    )
                bases.append(np.broadcast_to(basis, (len(patterns), *basis.shape)))
                actives.append(patterns)
                touched.append(np.broadcast_to(~on, patterns.shape))
            if bases:
                self._groups.append((np.concatenate(bases), np.concatenate(actives), np.concatenate(touched)))

    def _flat(self, subset: list[int], rank: int, codimension: int) -> np.ndarray | None:
        if codimension == 0:
            return np.eye(rank)
        _, values, right = np.linalg.svd(self._units[subset], full_matrices=True)
        return right[codimension:].T if values[-1] > ON_FLAT else None

    def _patterns(self, basis: np.ndarray, on: np.ndarray, coordinate: bool) -> np.ndarray:
        free = np.flatnonzero(~on)
        if coordinate:
            patterns = np.zeros((1 << len(free), len(on)), dtype=bool)
            patterns[:, free] = np.array(list(product((False, True), repeat=len(free))), dtype=bool)
            return patterns
        restricted = np.where(on[:, None], 0.0, self.rows @ basis)
        if basis.shape[1] == 1:
            return np.stack([restricted[:, 0] > 0, restricted[:, 0] < 0])
        return enumerate_cells(restricted).patterns

    def minimise(self, A: np.ndarray, B: np.ndarray) -> QuadraticMinimum:
        """Minimise zᵀAz + σ(z)ᵀBσ(z) over z = Rw, ‖w‖ = 1.

        Parameters
        ----------
        A, B : ndarray of shape (N, N)
            Symmetric.
        """
        scale = float(np.linalg.norm(self.rows, 2)) ** 2 * float(np.abs(A).sum() + np.abs(B).sum())
        error = 32 * (len(self.rows) + 8) * EPS * scale + 1e-300
        points = []
        base, tied, gap = np.inf, np.inf, 0.0
        for bases, active, touched in self._groups:
            forms = self.rows @ bases  # (faces, N, f)
            on = forms * active[:, :, None]
            matrices = np.einsum("fni,nm,fmj->fij", forms, A, forms, optimize=True)
            matrices += np.einsum("fni,nm,fmj->fij", on, B, on, optimize=True)
            spectrum, vectors = np.linalg.eigh(0.5 * (matrices + matrices.transpose(0, 2, 1)))
            lowest, first = spectrum[:, 0], vectors[:, :, 0]
            gaps = spectrum[:, 1] - lowest if spectrum.shape[1] > 1 else np.full(len(lowest), np.inf)
            w = np.einsum("fri,fi->fr", bases, first)
            heights = np.where(active, 1.0, -1.0) * (w @ self._units.T)
            slack = 2.0 * error / np.maximum(gaps, 1e-300) + 4 * ON_FLAT
            worst = np.where(touched, heights, np.inf).min(axis=1)
            best = np.where(touched, heights, -np.inf).max(axis=1)
            doubtful = (worst >= -slack) | (best <= slack)
            ties = doubtful & (gaps <= TIE * scale)
            base = min(base, float(lowest[doubtful & ~ties].min(initial=np.inf)))
            tied = min(tied, float(lowest[ties].min(initial=np.inf)))
            gap = max(gap, float(gaps[ties].max(initial=0.0)))
            inside = (worst >= -1e-12) | (best <= 1e-12)
            points.append(np.where(best <= 1e-12, -1.0, 1.0)[inside, None] * w[inside])
        # a minimiser in a tied face is worth at most γ less than one on its border, and so on down
        bound = min(base, max(tied, base - self.rows.shape[1] * (gap + 2.0 * error)))
        found = np.concatenate(points)
        z = found @ self.rows.T
        positive = np.maximum(z, 0.0)
        values = np.einsum("fn,nm,fm->f", z, A, z) + np.einsum("fn,nm,fm->f", positive, B, positive)
        order = np.argsort(values, kind="stable")
        return QuadraticMinimum(bound - error, found[order], values[order])
