r"""Exact minimum of zᵀAz + σ(z)ᵀBσ(z) over z = R w, ‖w‖ = 1: what separating a point from FL22's cone S asks.

On a face of the arrangement of the rows of R the form is wᵀQw with Q = Rᵀ(A + SBS)R, S the active rows. A minimiser
over the sphere lies in the relative interior of one face and is there a local minimum of Q on the unit sphere of the
face's span, hence an eigenvector of the smallest eigenvalue λ with the face's signs. So the minimum is the smallest λ
over the faces that may hold their eigenvector. Ties, where eigenvectors mean nothing: if such a face holds a
minimiser w*, the circle through w* in the plane of the two lowest eigenvectors has values ≤ λ + γ and leaves the
pointed face on its way to −w*, so a face of lower dimension is as low up to the gap γ, and so on down
(:mod:`covopt.oracles.vector.doubts`).

**Rounding.** For N rows of rank r, \|·\| Frobenius and T = \|R\|²(\|A\| + \|B\|), the computed λ is off by at most

.. math::
    \delta = \delta_0 + \gamma(4(N + r + 8)\lceil \sqrt r \rceil) \, T + (2 s + s^2) \, T ,

δ₀ what the decomposition leaves over (:func:`~covopt.exact.definite.spectrum_error_up`), then what RB and the
products are rounded by (\||R||B|\| ≤ √r\|R\|), and s = 2ρ + 16u what the flat's basis B is off by, ρ measured by
:mod:`covopt.oracles.vector.lattice_proof`; coordinate axes are exact. A face is left out only where ±v miss its signs
by more than s and v's own error 2δ/γ, γ > 8δ. Rows on one line to rounding are replaced by multiples of one, which
changes z by η and the form by at most η(2\|R\| + η)(\|A\| + \|B\|). Whether the faces are right is ``proved``, or
they are those that rounding decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import ceil, sqrt

import numpy as np

from covopt.errors import BudgetError, InputError
from covopt.exact.definite import spectrum_error_up
from covopt.exact.parallel_rows import merge_lines
from covopt.exact.rounding import UNIT, gamma, lengths_up, up
from covopt.oracles.vector.doubts import settle_doubts
from covopt.oracles.vector.face_lattice import build_lattice, count_lattice, unpack
from covopt.oracles.vector.lattice_proof import prove_lattice

DEFAULT_BUDGET = 300_000
ROUNDING = 64 * UNIT  # of a height over a hyperplane, relative to N
INSIDE = 1e-12  # how far outside its face a reported point may be


@dataclass(frozen=True)
class QuadraticMinimum:
    """Answer of :class:`QuadraticFaces`.

    Attributes
    ----------
    lower_bound : float
        No unit w has a smaller value, rounding included, where the faces are proved.
    points : ndarray of shape (m, r)
        Local minima on their faces' spans that lie in their faces: unit, best first.
    values : ndarray of shape (m,)
    """

    lower_bound: float
    points: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class _Faces:
    """Faces of one dimension: bases (f, r, d), the rows that are positive, those that do not vanish, slips (f,)."""

    bases: np.ndarray
    active: np.ndarray
    touched: np.ndarray
    slips: np.ndarray


class QuadraticFaces:
    """All faces of the arrangement of some rows, kept to minimise many forms over them.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        R, of full column rank; the identity for z in all of ℝᴺ (3ᴺ faces).
    budget : int
        Largest number of faces.

    Attributes
    ----------
    proved : bool
        Whether these are all faces: always for coordinate axes, else where the lattice proof closes.
    n_faces : int

    Raises
    ------
    InputError
        When the rows span less than all columns.
    BudgetError
        When there may be more faces.

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
        lengths = lengths_up(self.rows)
        self._units = self.rows / np.where(lengths > 0, lengths, 1.0)[:, None]
        self._merged = 0.0  # η
        coordinate = rank == n and np.count_nonzero(self.rows) == n
        alive = np.flatnonzero(lengths)
        lines, line_of, ratio = merge_lines(self.rows[alive])
        if len(lines) < rank:
            raise InputError(
                f"rows must have full column rank; received {len(lines)} lines in dimension {rank}"
            )
        self.n_faces = 3**n - 1 if coordinate else count_lattice(len(lines), rank)
        if self.n_faces > budget:
            raise BudgetError(
                f"the arrangement of {n} rows in dimension {rank} has more than {budget} faces, the budget "
                "of the exact minimum over z; use fewer samples"
            )
        if coordinate:
            self.proved, self._groups = True, self._coordinate_faces()
            return
        moved = lengths_up(self.rows[alive] - ratio[:, None] * lines[line_of])
        moved += np.where(np.abs(ratio) == 1.0, 0.0, 2.0 * UNIT) * lengths[alive]
        self._merged = up(float(np.linalg.norm(moved)) * (1.0 + gamma(n + 8)))
        lattice = build_lattice(lines)
        proof = prove_lattice(lines, lattice)
        self.proved, self._groups = proof.proved, []
        for level, off in zip(lattice.levels, proof.off, strict=True):
            members = unpack(level.members, len(lines))[level.flat]
            positive = unpack(lattice.cells[level.cell], len(lines))
            touched = np.zeros((len(level.flat), n), dtype=bool)
            touched[:, alive] = ~members[:, line_of]
            active = np.zeros_like(touched)
            active[:, alive] = positive[:, line_of] == (ratio > 0.0)
            slips = 2.0 * off + 16.0 * UNIT if proof.proved else 32.0 * UNIT / level.conditioning
            self._groups.append(_Faces(level.bases[level.flat], active & touched, touched, slips[level.flat]))
        self.n_faces = sum(len(group.slips) for group in self._groups)

    def _coordinate_faces(self) -> list[_Faces]:
        """All orthants of all coordinate subspaces; each row is a multiple of one axis."""
        n = len(self.rows)
        axis = np.abs(self.rows).argmax(axis=1)
        groups = []
        for size in range(1, n + 1):
            bases, active, touched = [], [], []
            signs = np.array(list(product((False, True), repeat=size)), dtype=bool)
            for free in combinations(range(n), size):
                chosen = list(free)
                patterns = np.zeros((len(signs), n), dtype=bool)
                patterns[:, chosen] = signs
                bases.append(np.broadcast_to(np.eye(n)[:, axis[chosen]], (len(signs), n, size)))
                active.append(patterns)
                touched.append(np.broadcast_to(np.isin(np.arange(n), chosen), patterns.shape))
            count = len(bases) * len(signs)
            groups.append(
                _Faces(
                    np.concatenate(bases), np.concatenate(active), np.concatenate(touched), np.zeros(count)
                )
            )
        return groups

    def minimise(self, A: np.ndarray, B: np.ndarray) -> QuadraticMinimum:
        """Minimise zᵀAz + σ(z)ᵀBσ(z) over z = Rw, ‖w‖ = 1.

        Parameters
        ----------
        A, B : ndarray of shape (N, N)
            Symmetric.
        """
        n, rank = self.rows.shape
        length, size = up(float(np.linalg.norm(self.rows))), float(np.linalg.norm(A) + np.linalg.norm(B))
        total = up(length * length * size * (1.0 + gamma(2 * n * n + 16)))
        rounded = gamma(4 * (n + rank + 8) * ceil(sqrt(rank))) * total
        points: list[np.ndarray] = []
        settled = -np.inf
        doubts: list[tuple[float, float]] = []
        for group in self._groups:
            forms = self.rows @ group.bases  # (faces, N, f)
            on = forms * group.active[:, :, None]
            matrices = np.einsum("fni,nm,fmj->fij", forms, A, forms, optimize=True)
            matrices += np.einsum("fni,nm,fmj->fij", on, B, on, optimize=True)
            matrices = 0.5 * (matrices + matrices.transpose(0, 2, 1))
            spectrum, vectors = np.linalg.eigh(matrices)
            left, turned = spectrum_error_up(matrices, spectrum, vectors)
            error = left + rounded + (2.0 + group.slips) * group.slips * total
            gaps = spectrum[:, 1] - spectrum[:, 0] if spectrum.shape[1] > 1 else np.full(len(left), np.inf)
            w = np.einsum("fri,fi->fr", group.bases, vectors[:, :, 0])
            heights = np.where(group.active, 1.0, -1.0) * (w @ self._units.T)
            worst = np.where(group.touched, heights, np.inf).min(axis=1)
            best = np.where(group.touched, heights, -np.inf).max(axis=1)
            outside = np.minimum(-worst, best)  # how far ±v miss the signs, the better of the two
            near = group.slips + turned + n * ROUNDING
            with np.errstate(divide="ignore", invalid="ignore"):
                turn = np.where(gaps > 8.0 * error, 2.0 * error / gaps, np.inf)
            counts = outside <= near
            if spectrum.shape[1] == 1:  # a ray holds itself
                counts[:] = True
            settled = max(settled, float((error - spectrum[:, 0])[counts].max(initial=-np.inf)))
            open_ = ~counts & (outside <= near + turn)
            doubts += zip(
                (error - spectrum[:, 0])[open_].tolist(), (gaps + 2.0 * error)[open_].tolist(), strict=True
            )
            inside = outside <= INSIDE
            points.append(np.where(best <= INSIDE, -1.0, 1.0)[inside, None] * w[inside])
        bound = -settle_doubts(settled, doubts, rank - 1)
        bound -= up(self._merged * (2.0 * length + self._merged) * size * (1.0 + gamma(16)))
        found = np.concatenate(points)
        z = found @ self.rows.T
        positive = np.maximum(z, 0.0)
        values = np.einsum("fn,nm,fm->f", z, A, z) + np.einsum("fn,nm,fm->f", positive, B, positive)
        order = np.argsort(values, kind="stable")
        return QuadraticMinimum(float(np.nextafter(bound, -np.inf)), found[order], values[order])
