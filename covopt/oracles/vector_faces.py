r"""The exact oracle for vector outputs: every face of the arrangement, priced by a top eigenvector.

On the cell s, G(w) = Λᵀσ(Zw) is linear, G(w) = M_s w with M_s = L + Σ_{s_i = 1} μ_i z_iᵀ (rows on one line
merged, see :mod:`covopt.oracles.base`; now μ_i ∈ ℝᵏ, L ∈ ℝ^{k×r}). A maximiser of ‖G‖ over the sphere lies in
the relative interior of one face and has the face's signs. There it is a local maximum of wᵀM_sᵀM_s w on the unit
sphere of the face's span, hence a top eigenvector of the form restricted to the span: on a sphere a quadratic form
has no other local maxima. So h(Λ)² is the largest top eigenvalue κ₁ of a face that contains its top
eigenvector v. A face of a face has a smaller κ₁, so faces with κ₁ below the best value so far are pruned.

**The bound.** Let S = \|L\| + Σ \|μ_i\|\|z_i\| (Frobenius), so that \|M_s\| ≤ S, and ρ the sine of a flat's error,
measured by :mod:`covopt.oracles.lattice_proof`, which also decides whether the faces are right (``proved``).

1. *The face F of a maximiser w* gets a large enough bound.* p = G(w*)/h; the scalar function p·G has a maximum at w*,
   so φ(u) = g₀·u + Σ κ_j σ(z_j·u) ≤ 0 for u ⊥ w*, where j runs over the rows that vanish there, κ_j = p·μ_j, and g₀
   is the gradient without these rows. The terms with κ_j > 0 only add to φ, so the concave rest is ≤ 0 as well, and
   M_sᵀp = h w* + Σ c_j z_j with \|c_j\| ≤ \|μ_j\|. For the unit x in the computed flat next to w*,

   .. math::
       \|M_s x\| \ge h \, w^* \cdot x - \sum_j \|\mu_j\| |z_j \cdot x|
                 \ge h (1 - \rho^2) - \sum_j \|\mu_j\| \|z_j\| s_j,

   with s_j the largest part that row j has in a flat where it vanishes. A computed map has the rounding error u of
   the steps, of a sum of n terms and of a product with a basis: a = γ(4(r + 2)² + 2(n + 2)) S, with a margin. The
   error of the eigenvalue is included in κ₁ of :func:`~covopt.oracles.face_kernel.top_pair`. So
   h ≤ (√κ₁ + a)/(1 − 2ρ²) + Σ \|μ_j\|\|z_j\| s_j.
2. *No face is skipped wrongly.* On the exact flat a face's form differs from the computed one by at most e = (2√κ₁
   + δ)δ + 2·share·trace, δ = a + 2ρS. A face is skipped where κ₁ + e of it or of a face above is below the square
   of a value. By Davis and Kahan its top eigenvector has an error of at most 2e/γ where γ = κ₁ − κ₂ > 8e. It is given
   up only when v and −v are outside by more than that times the row's part in the flat, plus 2ρ.
3. *A face in doubt*, where v is outside by less, may count with its κ₁. Or: if it contains w*, all points of the
   circle through w* in the plane of the two top eigenvectors have values² ≥ h² − γ; the circle goes to −w*, which is
   outside since faces are pointed, so it meets a face of lower dimension. The best point of that closed face is the
   top eigenvector of one of its own faces, which is not given up either. At most r − 1 such descents lead to a face
   that counts, or to a ray, which contains itself: h² ≤ (largest κ₁ of the faces that count) + (r − 1)(γ + 2e + 2e'),
   with the largest such gap that occurs and e' the e of the worst flat. :func:`covopt.oracles.base.settle_doubts`
   makes the best choice; this settles ties, where eigenvectors are arbitrary.
4. μ_i and L are sums over the rows of one line, with an error γ(2(N + 8)) Σ\|Λ_i\|\|z_i\|. If a row is only nearly a
   multiple of its line, their distance is added.
"""

from __future__ import annotations

import numpy as np

from covopt.checks.memory import SMALL
from covopt.errors import BudgetError, InputError
from covopt.exact.rank import COMPUTED, LINE, NEAR, merge_lines
from covopt.exact.rounding import ROUNDING, UNIT, gamma, lengths_up, total_up, up
from covopt.oracles.base import MOST_KEPT, Pricing, heights, kept, ranked, remember, settle_doubts
from covopt.oracles.face_kernel import visit
from covopt.oracles.face_lattice import (
    FACE_BYTES,
    FaceLattice,
    FaceLevel,
    block,
    build_lattice,
    count_lattice,
    sum_maps,
    unpack,
)
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, few_lines
from covopt.oracles.lattice_proof import prove_lattice


def count_vector_faces(n_lines: int, rank: int) -> float:
    """Return the cost of one vector pricing, in the unit of :func:`covopt.oracles.faces.count_faces`.

    Every face is visited once, and that costs about as much as skipping one face for every row.

    Examples
    --------
    >>> count_vector_faces(3, 2)
    36.0
    """
    return n_lines * count_lattice(n_lines, rank)


class VectorFaceOracle:
    r"""Exact pricing by faces for vector outputs: h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖₂, in any dimension.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Z, of full column rank without zero rows; rows on one line are merged inside.
    budget : float
        Largest cost of a pricing, as :func:`count_vector_faces` counts it. All faces are kept in memory.

    Raises
    ------
    BudgetError
        When the arrangement has more faces than ``budget`` allows, or rows are independent only by rounding; raised
        before anything is computed.

    Attributes
    ----------
    proved : bool
        Whether the bound holds in exact arithmetic; otherwise it is a hint.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = VectorFaceOracle(np.eye(2))
    >>> answer = oracle.price(np.array([[3.0, 1.0], [4.0, 0.0]]))
    >>> answer.values.round(9), bool(answer.upper_bound - answer.values[0] < 1e-12)
    (array([5.03679629]), True)
    """

    def __init__(
        self,
        rows: np.ndarray,
        *,
        budget: float = DEFAULT_FACE_BUDGET,
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.lines, self._line_of, self._ratio = merge_lines(self.rows)
        self._lengths = lengths_up(self.rows)
        # bound on the change of ‖G‖ by merging lines and by vanishing parts of rows, per unit of ‖Λ_i‖
        is_exact = np.abs(np.frexp(self._ratio)[0]) == 0.5  # a power of two
        self._slack = lengths_up(self.rows - self._ratio[:, None] * self.lines[self._line_of])
        self._slack += np.where(is_exact, 0.0, 2.0 * UNIT) * self._lengths
        self.rank = self.lines.shape[1]
        if len(self.lines) < self.rank:
            raise BudgetError(few_lines(*self.lines.shape))
        self.n_faces = count_vector_faces(len(self.lines), self.rank)
        if self.n_faces > budget:
            raise BudgetError(
                f"the exact vector oracle would look at {count_lattice(len(self.lines), self.rank):.3g} faces "
                f"({len(self.lines)} rows in dimension {self.rank}) at a cost of {self.n_faces:.3g}, above the "
                f"budget of {budget:.3g}"
            )
        self._units = self.lines / np.linalg.norm(self.lines, axis=1, keepdims=True)
        self._lattice = _lattice_of(self._units)
        proof = prove_lattice(self.lines, self._lattice)
        self.proved = proof.proved
        slack = proof.slack if proof.proved else self._lattice.slack
        self._slack += slack[self._line_of] * self._lengths
        if proof.proved:
            self._slips = [2.0 * off + 16.0 * UNIT for off in proof.off]
            self.widest = 2.0 * proof.widest
        else:  # as for rows in general position: a hint
            self._slips = [32.0 * UNIT / level.conditioning for level in self._lattice.levels]
            self.widest = 0.0
        self.forget()

    def forget(self) -> None:
        """Drop the neurons of earlier pricings, so that the next answer depends on its dual alone."""
        self._warm = np.empty((0, self.rank))

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return the local maxima of ‖Λᵀσ(Zw)‖ above ``threshold`` and a valid bound on h(Λ).

        Arguments as in :class:`covopt.oracles.base.Oracle`; all maxima are returned with or without ``complete``.
        Values are not negative. ``exact`` is False only where nearly equal lines leave the bound loose.
        ``upper_bound`` is proved where :attr:`proved` is True; elsewhere it is a hint, and certificates use other
        proofs. Where rows are dependent, some neurons may be the best of a face without being local maxima.
        """
        dual = np.ascontiguousarray(dual, dtype=float)
        if dual.ndim != 2 or len(dual) != len(self.rows):
            raise InputError(f"dual must have shape ({len(self.rows)}, k), one row per row, got {dual.shape}")
        sizes = lengths_up(dual)
        lipschitz = total_up(sizes, self._lengths)
        if lipschitz == 0.0:
            return Pricing(np.eye(1, self.rows.shape[1]), np.zeros(1), 0.0, exact=True)
        search = _Search(self, dual, lipschitz, threshold)
        neurons = search.run()
        values = np.linalg.norm(heights(self.rows, dual, neurons), axis=1)
        if len(neurons) == 0 or values.max() < search.best * (1 - 1e-12):
            neurons = np.concatenate([neurons, search.best_neuron[None]])
            values = np.append(values, search.best)
        neurons, values = ranked(neurons, values)
        self._warm = neurons[:MOST_KEPT]
        bound = up(search.bound() + total_up(sizes, self._slack))
        bound = float(max(bound, values[0]))
        if self.proved:
            remember(self.rows, dual, bound)
        attained = bound <= values[0] * (1 + NEAR) + ROUNDING * lipschitz
        return Pricing(*kept(neurons, values, threshold, max_neurons), bound, exact=bool(attained))


class _Search:
    """One pricing: the state passed from dimension to dimension."""

    def __init__(self, oracle: VectorFaceOracle, dual: np.ndarray, lipschitz: float, threshold: float):
        self.oracle, self.dual, self.lipschitz = oracle, dual, lipschitz
        self.threshold = max(float(threshold), 0.0)
        n, r, k = len(oracle.lines), oracle.rank, dual.shape[1]
        weight = np.abs(oracle._ratio)[:, None] * dual
        self.mu = np.zeros((n, k))
        np.add.at(self.mu, oracle._line_of, weight)
        opposite = np.zeros((n, k))
        np.add.at(opposite, oracle._line_of, np.where(oracle._ratio[:, None] < 0, weight, 0.0))
        self.linear = -opposite.T @ oracle.lines
        self.size = float(np.linalg.norm(self.linear)) + total_up(
            lengths_up(self.mu), lengths_up(oracle.lines)
        )
        self.error = up(gamma(4 * (r + 2) ** 2 + 2 * (n + 2)) * self.size)  # of M_s on the basis of a flat
        self.worst = self.error + min(oracle.widest, 1.0) * self.size
        # μ_i and L are plain sums. G with the computed sums is piecewise linear, too, and its maximum is bounded;
        # the exact G differs from it by at most γ(n) Σ‖Λ_i‖‖z_i‖
        self.merged = 0.0
        if n < len(dual) or opposite.any():
            self.merged = up(gamma(2 * (len(dual) + 8)) * lipschitz)
        self.settled = 0.0  # the largest κ₁ of a face that contains its v
        self.doubts: list[tuple[float, float]] = []  # κ₁ and γ + 2e of the faces in doubt
        self.best = 0.0
        self.best_neuron = np.eye(1, r)[0]
        self._climb()

    def _climb(self) -> None:
        """Find a value for pruning by power steps w ← M_sᵀM_s w, until one reaches the threshold."""
        rows = self.oracle.rows
        w = self.oracle._warm
        if len(w):
            self._note(w, np.linalg.norm(np.maximum(w @ rows.T, 0.0) @ self.dual, axis=1))
        w = np.concatenate([w, self.oracle._units[:MOST_KEPT], -self.oracle._units[:MOST_KEPT]])
        last = -1.0
        while last < self.best * (1 - NEAR) < self.threshold:  # a larger value would prune no more
            last = self.best
            t = w @ rows.T
            self._note(w, np.linalg.norm(np.maximum(t, 0.0) @ self.dual, axis=1))
            w = ((np.maximum(t, 0.0) @ self.dual) @ self.dual.T * (t > 0)) @ rows
            length = np.linalg.norm(w, axis=1, keepdims=True)
            w = (w / np.where(length > 0, length, 1.0))[length[:, 0] > 0]
            if len(w) == 0:
                break

    def _note(self, neurons: np.ndarray, values: np.ndarray) -> None:
        if len(values) and values.max() > self.best:
            top = int(values.argmax())
            self.best, self.best_neuron = float(values[top]), neurons[top].copy()

    @property
    def floor(self) -> float:
        """Square below which faces are pruned; the best face is never pruned."""
        return min(self.best * (1 - 1e-9), self.threshold) ** 2

    def bound(self) -> float:
        """Combine the faces not in doubt with the better treatment of each face in doubt."""
        oracle = self.oracle
        square = settle_doubts(max(self.settled, up(self.best**2)), self.doubts, oracle.rank - 1)
        seen = up(up(float(np.sqrt(square)) * (1.0 + 8.0 * UNIT)) + self.error)
        return up(seen * (1.0 + 2.0 * min(oracle.widest, 0.5) ** 2 + 8.0 * UNIT)) + self.merged

    def run(self) -> np.ndarray:
        """Visit the faces from the cells down; return the points to report."""
        oracle = self.oracle
        lattice = oracle._lattice
        steps = (self.mu[:, :, None] * oracle.lines[:, None, :]).reshape(len(oracle.lines), -1)
        self.cells = lattice.cells
        self.maps = sum_maps(lattice.cells, steps, self.linear.ravel()).reshape(
            -1, self.dual.shape[1], oracle.rank
        )
        found = []
        above = np.full(len(lattice.cells), np.inf)
        for level, slips in zip(reversed(lattice.levels), reversed(oracle._slips), strict=True):
            tops = above[level.parent]
            active = np.flatnonzero(tops > self.floor)
            for start in range(0, len(active), step := block(oracle.lines)):
                found.append(self._visit(level, slips, active[start : start + step], tops))
            above = tops
        return np.concatenate([np.empty((0, self.oracle.rank)), *found])

    def _visit(self, level: FaceLevel, slips: np.ndarray, faces: np.ndarray, tops: np.ndarray) -> np.ndarray:
        """Price faces of one dimension and lower their ``tops``; return the points to report."""
        oracle, m = self.oracle, len(faces)
        face = np.empty(m, dtype=np.int64)
        neuron = np.empty((m, oracle.rank))
        top, second, error, outside, margin = (np.empty(m) for _ in range(5))
        count = visit(
            faces, level.flat, level.cell, self.cells, self.maps, level.bases, level.members,
            slips, oracle._units, tops, self.floor, self.error, self.size, ROUNDING,
            face, neuron, top, second, error, outside, margin,
        )  # fmt: skip
        face, w, top, second, error = face[:count], neuron[:count], top[:count], second[:count], error[:count]
        if count == 0:
            return w
        values = np.linalg.norm(heights(oracle.rows, self.dual, w), axis=1)
        self._note(w, values)
        settled = (outside[:count] <= 0.0) | (values**2 >= top - 2.0 * self.error * np.sqrt(top))
        if settled.any():
            self.settled = max(self.settled, float(top[settled].max()))
        gaps = top - second + 4.0 * error + 2.0 * (2.0 * np.sqrt(top) + self.worst) * self.worst
        self.doubts += [(float(t), float(g)) for t, g in zip(top[~settled], gaps[~settled], strict=True)]
        # a point on the boundary is reported by the face that has it in its interior, a zero of G by none
        good = (margin[:count] > COMPUTED) & (values >= self.threshold) & (values > 4.0 * self.error)
        w = w[good]
        return w[self._are_peaks(level, face[good], w)] if len(w) else w

    def _are_peaks(self, level: FaceLevel, faces: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return whether ‖G‖ does not ascend out of each face; True without a test where rows are dependent.

        Without this test 200 × 2 points with three outputs take twice as long, by columns that are no maxima.

        Along u the slope is p·M u without the face's normals z_j, plus Σ (p·μ_j) σ(z_j·u), p = G/‖G‖. For independent
        normals it is never positive if and only if the gradient is h w + Σ c_j z_j with c_j ≥ 0 ≥ c_j + p·μ_j.
        """
        normals = level.normals[level.flat[faces]]
        m = normals.shape[1]
        if m == 0:
            return np.ones(len(w), dtype=bool)
        members = np.bitwise_count(level.members[level.flat[faces]]).sum(axis=1)
        maps = self.maps[level.cell[faces]]
        image = np.einsum("fkr,fr->fk", maps, w)
        sizes = np.linalg.norm(image, axis=1, keepdims=True)
        image = np.divide(image, sizes, out=np.zeros_like(image), where=sizes > 0.0)
        kinks = np.einsum("fk,fmk->fm", image, self.mu[normals])
        rows = self.oracle.lines[normals]
        cells = self.cells[level.cell[faces]]
        active = np.take_along_axis(unpack(cells, len(self.oracle.lines)), normals, axis=1)
        gradient = np.einsum("fkr,fk->fr", maps, image) - np.einsum("fm,fmr->fr", active * kinks, rows)
        lengths = np.linalg.norm(rows, axis=2)
        shares = np.einsum("fmr,fr->fm", level.inverses[level.flat[faces]], gradient) / lengths
        scale = lengths * level.conditioning[level.flat[faces]][:, None]
        tolerance = 1e-9 * np.abs(kinks) + 16.0 * self.error / scale
        ascends = (shares < -tolerance) | (shares + kinks > tolerance)
        return (members > m) | ~ascends.any(axis=1)


_LAST: list[tuple[np.ndarray, FaceLattice]] = []  # a solve and its certificate use the same directions


def _lattice_of(units: np.ndarray) -> FaceLattice:
    """Return all faces of unit rows; reuse those of the last rows if the directions are the same up to rounding.

    Whether they are the faces of the given rows is decided afterwards.
    """
    for known, lattice in _LAST:
        if known.shape == units.shape and np.abs(known - units).max() <= LINE:
            return lattice
    lattice = build_lattice(units)
    if FACE_BYTES * len(lattice.cells) <= SMALL:
        _LAST[:] = [(units, lattice)]
    return lattice
