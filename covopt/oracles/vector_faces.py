r"""The exact oracle for vector outputs: every face of the arrangement, priced by a top eigenvector.

On the cell s, G(w) = Λᵀσ(Zw) is linear, G(w) = M_s w with M_s = L + Σ_{s_i = 1} μ_i z_iᵀ (rows on one line
merged, see :mod:`covopt.oracles.base`; now μ_i ∈ ℝᵏ, L ∈ ℝ^{k×r}). A maximiser of ‖G‖ over the sphere lies in
the relative interior of one face. There it is a local maximum of wᵀM_sᵀM_s w on the unit sphere of the face's
span, hence a top eigenvector of the form restricted to the span, since on a sphere a quadratic form has no other
local maxima, and it has the face's signs. So h(Λ)² is the largest top eigenvalue κ₁ of a face that holds its top
eigenvector v. A face of a cell's face has a smaller κ₁: what is below the best so far is never looked at.

**The bound.** Let a be the rounding error of M_s (a few ε Σ‖Λ_i‖‖z_i‖), σ how independent the face's normals are
and γ = κ₁ − κ₂ the gap of the face's form.

1. Davis and Kahan: v is off by at most θ = 2e/γ + O(ε/σ), with e = 2√κ₁ (a + O(ε/σ) Σ‖Λ_i‖‖z_i‖). A face is given
   up only when v and −v are outside by more than θ.
2. A face where v is outside by less than θ is in doubt. It may count with its κ₁. Or: if it holds the maximiser w*,
   all points of the circle through w* in the plane of the two top eigenvectors have values² ≥ κ₁ − γ; the circle
   goes to −w*, which is outside since faces are pointed, so it meets a face of lower dimension. A descent of at most
   r − 1 such steps ends in a face that is not in doubt: h² ≤ (largest κ₁ of the faces not in doubt) +
   (r − 1)(γ + 2e), with the largest γ + 2e that occurs.
   The smaller of the two is taken; this is what settles ties, where eigenvectors mean nothing.
3. The computed flat is the exact one of rows moved by O(ε). At the maximiser this costs only O(ε) Σ‖Λ_i‖‖z_i‖: with
   p = G(w*)/h the scalar function p·G has a maximum at w*, so its gradient is h w* plus Σ θ_j (p·μ_j) z_j with
   θ ∈ [0, 1], and moving w* by Δ to the computed flat changes p·G by Σ θ_j (p·μ_j)(z_j·Δ) = O(ε) and by h|Δ|²/2,
   |Δ| = O(ε/σ).
"""

from __future__ import annotations

import numpy as np

from covopt.errors import BudgetError, InputError
from covopt.exact.parallel_rows import first_of_each, merge_lines
from covopt.exact.rounding import gamma, up
from covopt.oracles.base import Pricing
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, count_faces
from covopt.oracles.vector.circles import VectorSphereSweep
from covopt.oracles.vector.doubts import settle_doubts
from covopt.oracles.vector.face_kernel import sum_maps, visit
from covopt.oracles.vector.face_lattice import FaceLevel, build_lattice, count_lattice, unpack

EPS = float(np.finfo(float).eps)
ROUNDING = 64 * EPS
ATTAINED = 1e-6  # a bound further than this above the best value is valid, but no maximum: nearly equal lines
FEWEST_ROWS = 64  # below, a face costs as much as with that many rows
MOST_TABLED = 40  # rows in dimension 3 beyond which circles are walked instead
VISITS_PER_ARC = 4
BLOCK = 1 << 14
INTERIOR = 1e-12
WARM = 64
CLIMBS = 8


def count_vector_faces(n_lines: int, rank: int) -> float:
    """Return what one vector pricing costs, in the unit of :func:`covopt.oracles.faces.count_faces`.

    Every face is looked at once, and costs about as much as passing by one face for every row.

    Examples
    --------
    >>> count_vector_faces(3, 2)
    768.0
    """
    if rank == 3 and n_lines > MOST_TABLED:
        return VISITS_PER_ARC * count_faces(n_lines, rank)
    return max(n_lines, FEWEST_ROWS) * count_lattice(n_lines, rank)


class VectorFaceOracle:
    r"""Exact pricing by faces for vector outputs: h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖₂, in any dimension.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Z, of full column rank without zero rows; rows on one line are merged inside.
    budget : float
        Largest cost of a pricing, as :func:`count_vector_faces` counts it. All faces are kept in memory, but for more
        than 40 lines in dimension 3.
    n_threads : int
        Threads that share the circles in dimension 3; elsewhere one does the work.

    Raises
    ------
    BudgetError
        When the arrangement has more faces than ``budget`` allows; nothing has been computed by then.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = VectorFaceOracle(np.eye(2))
    >>> answer = oracle.price(np.array([[3.0, 1.0], [4.0, 0.0]]))
    >>> answer.values.round(9), bool(answer.upper_bound - answer.values[0] < 1e-12)
    (array([5.03679629]), True)
    """

    def __init__(self, rows: np.ndarray, *, budget: float = DEFAULT_FACE_BUDGET, n_threads: int = 2):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.lines, self._line_of, self._ratio = merge_lines(self.rows)
        # what merging lines and vanishing parts of rows may change ‖G‖ by, per unit of ‖Λ_i‖
        self._slack = np.linalg.norm(self.rows - self._ratio[:, None] * self.lines[self._line_of], axis=1)
        self._seen, self._span = self.rows, None
        if len(self.lines) < self.rows.shape[1]:
            # rows that rounding alone keeps apart are one line: G then depends on the span of the lines only
            self._span = np.linalg.svd(self.lines, full_matrices=False)[2].T
            self.lines = np.ascontiguousarray(self.lines @ self._span)
            self._slack += ROUNDING * np.linalg.norm(self.rows, axis=1)
            self._seen = np.ascontiguousarray(self._ratio[:, None] * self.lines[self._line_of])
        self.rank = self.lines.shape[1]
        self.n_threads = n_threads
        self.n_faces = count_vector_faces(len(self.lines), self.rank)
        if self.n_faces > budget:
            raise BudgetError(
                f"the exact vector oracle would look at {count_lattice(len(self.lines), self.rank):.3g} faces "
                f"({len(self.lines)} rows in dimension {self.rank}) at a cost of {self.n_faces:.3g}, above the "
                f"budget of {budget:.3g}"
            )
        self._lengths = np.linalg.norm(self._seen, axis=1)
        self._units = self.lines / np.linalg.norm(self.lines, axis=1, keepdims=True)
        self.sweep = self._lattice = None
        if self.rank == 3 and len(self.lines) > MOST_TABLED:
            self.sweep = VectorSphereSweep(self.lines)
        else:
            self._lattice = build_lattice(self.lines)
            self._slack += self._lattice.slack[self._line_of] * self._lengths
        self.forget()

    def forget(self) -> None:
        """Drop what earlier pricings found, so that the next answer depends on its question alone."""
        self._warm = np.empty((0, self.rank))

    def evaluate(self, dual: np.ndarray, neurons: np.ndarray) -> np.ndarray:
        """‖G‖ at each neuron, from the rows as given."""
        return np.linalg.norm(np.maximum(neurons @ self.rows.T, 0.0) @ dual, axis=1)

    def evaluate_inside(self, dual: np.ndarray, neurons: np.ndarray) -> np.ndarray:
        """‖G‖ at neurons of the lines' span."""
        return np.linalg.norm(np.maximum(neurons @ self._seen.T, 0.0) @ dual, axis=1)

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return the local maxima of ‖Λᵀσ(Zw)‖ above ``threshold`` and a valid bound on h(Λ).

        Parameters
        ----------
        dual : ndarray of shape (N, k)
        threshold : float
            Maxima below it may be left out, the best one never.
        max_neurons : int, optional
            Keep only that many, the best first.
        complete : bool
            For symmetry with :class:`covopt.oracles.faces.FaceOracle`: the maxima are always all returned.

        Returns
        -------
        Pricing
            ``exact`` unless nearly equal lines leave the bound loose. Values are not negative. Where the rows are
            in special position, some neurons may be a face's best point without being local maxima.

        Raises
        ------
        InputError
            If ``dual`` does not have one row per row of Z.
        """
        dual = np.ascontiguousarray(dual, dtype=float)
        if dual.ndim != 2 or len(dual) != len(self.rows):
            raise InputError(f"dual must have shape ({len(self.rows)}, k), one row per row, got {dual.shape}")
        sizes = np.linalg.norm(dual, axis=1)
        lipschitz = float(sizes @ self._lengths)
        if lipschitz == 0.0:
            return Pricing(np.eye(1, self.rows.shape[1]), np.zeros(1), 0.0, exact=True)
        search = _Search(self, dual, lipschitz, threshold)
        neurons = search.run()
        values = self.evaluate_inside(dual, neurons)
        if len(neurons) == 0 or values.max() < search.best * (1 - 1e-12):
            neurons = np.concatenate([neurons, search.best_neuron[None]])
            values = np.append(values, search.best)
        neurons, values = _distinct(neurons, values)
        self._warm = neurons[:WARM]
        bound = search.bound() + float(sizes @ self._slack)
        keep = values >= threshold
        keep[0] = True
        if max_neurons is not None:
            keep[max(max_neurons, 1) :] = False
        bound = float(max(bound, values[0]))
        attained = bound <= values[0] * (1 + ATTAINED) + ROUNDING * lipschitz
        raised = neurons if self._span is None else neurons @ self._span.T
        return Pricing(raised[keep], values[keep], bound, exact=bool(attained))


class _Search:
    """One pricing: the state that passes from dimension to dimension."""

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
        self.error = (16 + r) * EPS * lipschitz  # of M_s on the basis of a flat
        # μ_i and L are plain sums. As they are computed G is piecewise linear too, and its maximum is bounded;
        # the exact G differs from it by γ(n) Σ‖Λ_i‖‖z_i‖ at most
        self.merged = 0.0
        if n < len(dual) or opposite.any():
            self.merged = up(gamma(2 * (len(dual) + 8)) * lipschitz)
        self.settled = 0.0  # the largest κ₁ of a face that holds its v
        self.doubts: list[tuple[float, float]] = []  # κ₁ and γ + 2e of the others
        self.best = 0.0
        self.best_neuron = np.eye(1, r)[0]
        self._climb()

    def _climb(self) -> None:
        """Make a few power steps w ← M_sᵀM_s w, for a value to prune with."""
        rows = self.oracle._seen
        w = np.concatenate([self.oracle._warm, self.oracle._units[:WARM], -self.oracle._units[:WARM]])
        for _ in range(CLIMBS):
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
        """Square below which a face is of no interest; the best face itself is always looked at."""
        return min(self.best * (1 - 1e-9), self.threshold) ** 2

    def bound(self) -> float:
        """Combine the faces not in doubt with the cheaper treatment of each one in doubt."""
        bound = settle_doubts(max(self.settled, self.best**2), self.doubts, self.oracle.rank - 1)
        return float(np.sqrt(bound)) + self.error + ROUNDING * self.lipschitz + self.merged

    def run(self) -> np.ndarray:
        """Visit the faces from the cells down; return the points that are reported."""
        oracle = self.oracle
        if oracle.sweep is not None:
            answer = oracle.sweep.price(
                self.mu, self.linear, self.threshold, best=self.best, map_error=self.error,
                n_threads=oracle.n_threads,
            )  # fmt: skip
            if answer.best > self.best:
                self.best, self.best_neuron = answer.best, answer.best_neuron
            self.settled, self.doubts = answer.settled, answer.doubts
            return answer.neurons
        lattice = oracle._lattice
        assert lattice is not None
        steps = (self.mu[:, :, None] * oracle.lines[:, None, :]).reshape(len(oracle.lines), -1)
        self.cells = lattice.cells
        self.maps = np.empty((len(lattice.cells), self.dual.shape[1], oracle.rank))
        sum_maps(lattice.cells, steps, self.linear.ravel(), self.maps.reshape(len(self.maps), -1))
        found = []
        above = np.full(len(lattice.cells), np.inf)
        for level in reversed(lattice.levels):
            tops = above[level.parent]
            active = np.flatnonzero(tops > self.floor)
            for start in range(0, len(active), BLOCK):
                found.append(self._visit(level, active[start : start + BLOCK], tops))
            above = tops
        return np.concatenate([np.empty((0, self.oracle.rank)), *found])

    def _visit(self, level: FaceLevel, faces: np.ndarray, tops: np.ndarray) -> np.ndarray:
        """Price faces of one dimension, lower their ``tops``; returns the points to report."""
        oracle, m = self.oracle, len(faces)
        face = np.empty(m, dtype=np.int64)
        neuron = np.empty((m, oracle.rank))
        second, error, outside, margin = (np.empty(m) for _ in range(4))
        count = visit(
            faces, level.flat, level.cell, self.cells, self.maps, level.bases, level.members,
            level.conditioning, oracle._units, tops, self.floor, self.error, self.lipschitz, EPS, ROUNDING,
            face, neuron, second, error, outside, margin,
        )  # fmt: skip
        face, w, second, error = face[:count], neuron[:count], second[:count], error[:count]
        if count == 0:
            return w
        top = tops[face]
        values = oracle.evaluate_inside(self.dual, w)
        self._note(w, values)
        settled = (outside[:count] <= 0.0) | (values**2 >= top - 2.0 * self.error * np.sqrt(top))
        if settled.any():
            self.settled = max(self.settled, float(top[settled].max()))
        gaps = top - second + 2.0 * error
        self.doubts += [(float(t), float(g)) for t, g in zip(top[~settled], gaps[~settled], strict=True)]
        # a point on the boundary is reported by the face whose interior it is in, a zero of G by none
        good = (margin[:count] > INTERIOR) & (values >= self.threshold) & (values > 4.0 * self.error)
        w = w[good]
        return w[self._are_peaks(level, face[good], w)] if len(w) else w

    def _are_peaks(self, level: FaceLevel, faces: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Whether ‖G‖ does not ascend out of the face; not asked where rows are in special position.

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
        image /= np.linalg.norm(image, axis=1, keepdims=True)
        kinks = np.einsum("fk,fmk->fm", image, self.mu[normals])
        rows = self.oracle.lines[normals]
        cells = self.cells[level.cell[faces]]
        active = np.take_along_axis(unpack(cells, len(self.oracle.lines)), normals, axis=1)
        gradient = np.einsum("fkr,fk->fr", maps, image) - np.einsum("fm,fmr->fr", active * kinks, rows)
        q, triangle = np.linalg.qr(rows.transpose(0, 2, 1))
        shares = np.linalg.solve(triangle, np.einsum("frm,fr->fm", q, gradient)[:, :, None])[:, :, 0]
        scale = np.linalg.norm(rows, axis=2) * level.conditioning[level.flat[faces]][:, None]
        tolerance = 1e-9 * np.abs(kinks) + 16.0 * self.error / scale
        ascends = (shares < -tolerance) | (shares + kinks > tolerance)
        return (members > m) | ~ascends.any(axis=1)


def _distinct(neurons: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort by value, best first, and drop repeated directions."""
    order = np.argsort(-values, kind="stable")
    neurons, values = neurons[order], values[order]
    first = first_of_each(neurons)
    return neurons[first], values[first]
