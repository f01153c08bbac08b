r"""Exact pricing for the label-noise potentials: max of |⟨λ, σ(Zw)⟩| / ω(w), by visiting every face once.

On a face F with active rows A and span {Bu} (an orthonormal basis B) both numerator and ω are simple,

.. math::
    \langle\lambda, \sigma(Z w)\rangle = g\cdot u, \qquad \omega(w) = \varphi_F \sqrt{u^\top Q u}, \qquad
    g = B^\top Z_A^\top\lambda_A, \quad Q = B^\top Z_A^\top \mathrm{diag}(q_A) Z_A B,

with q_i = 1/N and φ_F = 1 (printed) or φ_F² = Σ_A q_i|z_i|² (exact; rows on the hinge do not count). The maximum over
the span is v_F = ‖Q^{-1/2}g‖/φ_F at u = Q⁻¹g, the projection in the metric Q. It lies in F if ±u has F's signs.

**Singular Q.** Moving Bu along the kernel of Q leaves the active heights unchanged. Faces are pointed, so on this
line the face ends at a point where a silent row vanishes. That point lies on a face of lower dimension with the same
active rows, the same atoms and the same φ. After a few such steps Q is regular: singular faces need not be visited,
and only the atom of a neuron is unique. (With χ(> 0) every face has its own φ. Cells alone would not suffice: several
rows, three or more, may vanish together where no cell around has the same active rows.)

**Coordinates.** All computations use w ↦ Rw with RᵀR = Zᵀdiag(q)Z, where the metric of all rows is the identity and
the eigenvalues of Q lie in (0, 1]. The rows in these coordinates differ from the user's rows by rounding error.

**The bound.** A face whose u lies outside by more than rounding can explain does not contain its maximum. For the
other faces the largest v_F is bounded from above, for the rows as given (:mod:`covopt.oracles.label_noise_faces`).
This needs a correct lattice, which :meth:`LabelNoiseOracle.is_proved` verifies for the user's table.
"""

from __future__ import annotations

import numpy as np

from covopt.checks.memory import plan
from covopt.errors import BudgetError, InputError
from covopt.exact.rank import exact_rank, first_of_each, merge_lines, numerical_rank, of_given
from covopt.exact.rounding import gamma, misses_up, operator_norm_up, up
from covopt.oracles.base import MOST_KEPT, Pricing, heights, kept
from covopt.oracles.face_lattice import FACE_BYTES, block, build_lattice, count_lattice, sum_maps
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.label_noise_faces import ROOM, DualSums, MetricFaces, SharedRows
from covopt.oracles.lattice_proof import MOST_EXACT, prove_lattice
from covopt.potentials import LabelNoise


def whiten(rows: np.ndarray, sample_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of identity covariance: rows · T with Tᵀ(Zᵀdiag(q)Z)T = 1, in as many columns as the rank.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
    sample_weight : ndarray of shape (n,)

    Returns
    -------
    (ndarray of shape (n, s), ndarray of shape (r, s), ndarray of shape (n,))
        The rows, T, and an upper bound on the rounding error of each row relative to Tᵀz.

    Examples
    --------
    >>> white, back, _ = whiten(np.array([[3.0, 0.0], [0.0, 4.0]]), np.ones(2))
    >>> bool(np.allclose(white.T @ white, np.eye(2)))
    True
    """
    _, size, right = np.linalg.svd(np.sqrt(sample_weight)[:, None] * rows, full_matrices=False)
    rank = numerical_rank(size, of_given(rows.shape))
    back = right[:rank].T / size[:rank]
    white = rows @ back
    return white, back, misses_up(white, back.T, rows)


def by_length_up(dual: np.ndarray, sample_weight: np.ndarray, lengths: np.ndarray | None = None) -> float:
    """Bound h by the Cauchy–Schwarz inequality, for any rows.

    |⟨λ, a⟩| ≤ max(‖λ⁺‖_{1/q}, ‖λ⁻‖_{1/q}) ω_b for activations a ≥ 0; the factor of the exact potential is at least
    the smallest √q_i|x̃_i| of a row that counts.

    Parameters
    ----------
    dual, sample_weight : ndarray of shape (n,)
    lengths : ndarray of shape (n,), optional
        |x̃_i|, for the exact potential.

    Examples
    --------
    >>> 5.0 <= by_length_up(np.array([3.0, 4.0, -2.0]), np.ones(3)) < 5.0 + 1e-12
    True
    >>> 5.0 <= by_length_up(np.array([3.0, 4.0, 9.0]), np.ones(3), np.array([1.0, 1.0, 0.0])) < 5.0 + 1e-12
    True
    """
    counts = dual != 0
    if lengths is not None:
        counts &= lengths > 0  # a zero row activates no neuron
    shares = dual[counts] / np.sqrt(sample_weight[counts])
    size = max(float(np.linalg.norm(np.maximum(side * shares, 0.0))) for side in (1.0, -1.0))
    if lengths is not None and size > 0.0:
        size /= float((np.sqrt(sample_weight) * lengths)[counts].min())
    return up(size * (1.0 + gamma(4 * (len(dual) + 16))))


class LabelNoiseOracle:
    r"""Exact pricing of duals for a label-noise potential and one output, in any dimension.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        Z: all rows of the table, of full column rank; zero rows and rows on one line are allowed.
    potential : LabelNoise
    kept : ndarray of int, optional
        Indices of the rows that have a dual variable; by default all. The others count in ω only.
    sample_weight : ndarray of shape (n,), optional
        q, positive; 1/n by default.
    lengths : ndarray of shape (n,), optional
        |x̃_i|, where the rows are in other coordinates; see :func:`whiten`.
    blur : ndarray of shape (n,), optional
        Bounds on the error of each row.
    budget : float
        Largest number of faces times rows.

    Raises
    ------
    BudgetError
        When the arrangement has too many faces; nothing has been computed by then.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = LabelNoiseOracle(np.eye(2), LabelNoise())
    >>> answer = oracle.price(np.array([3.0, 4.0]))
    >>> answer.neurons[0].round(9), (answer.values[0] / np.sqrt(2)).round(9)
    (array([0.84852814, 1.13137085]), np.float64(5.0))
    """

    def __init__(
        self,
        rows: np.ndarray,
        potential: LabelNoise,
        *,
        kept: np.ndarray | None = None,
        sample_weight: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        blur: np.ndarray | None = None,
        budget: float = DEFAULT_FACE_BUDGET,
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.potential = potential
        self.kept = np.arange(len(rows)) if kept is None else kept
        self.sample_weight = np.full(len(rows), 1.0 / len(rows)) if sample_weight is None else sample_weight
        self.rank = self.rows.shape[1]
        q = self.sample_weight
        self.row_lengths = np.linalg.norm(self.rows, axis=1) if lengths is None else lengths
        white, self._back, blurred = whiten(self.rows, q)
        if blur is not None:
            blurred = blurred + blur * (operator_norm_up(self._back.T) * ROOM)
        self._live = np.flatnonzero(np.linalg.norm(self.rows, axis=1) > 0)
        self.lines, self._line_of, self._ratio = merge_lines(white[self._live])
        n = len(self.lines)
        self.n_faces = count_lattice(n, self.rank) * max(n, 64)
        if self.n_faces > budget:
            raise BudgetError(
                f"the exact label-noise oracle would look at {count_lattice(n, self.rank):.3g} faces ({n} rows in "
                f"dimension {self.rank}) at a cost of {self.n_faces:.3g}, above the budget of {budget:.3g}"
            )
        faces = count_lattice(n, self.rank)
        plan(
            FACE_BYTES * faces,
            'There is no other one; use fewer rows, or potential="variation".',
            what="the exact label-noise oracle", error=BudgetError,
        )  # fmt: skip
        self._lengths = np.linalg.norm(white, axis=1)
        # distance of each row from the multiple of the line that represents it; the ratios are rounded
        shifted = white[self._live] - self._ratio[:, None] * self.lines[self._line_of]
        merged = np.linalg.norm(shifted, axis=1)
        merged += 4.0 * gamma(1) * self._lengths[self._live] * (merged > 0.0)
        self._slack = blurred
        self._slack[self._live] += merged * ROOM
        self._shared = self._share_rows(q[self._live], np.square(self.row_lengths[self._live]))
        self._levels = [MetricFaces(self._shared, level) for level in self._shared.lattice.levels]
        self._warm = np.empty((0, self.rank))

    # ------------------------------------------------------------------ what depends on the data only
    def _by_side(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum the values of each line's rows, separately for the rows active on its positive and negative side."""
        n = len(self.lines)
        positive = np.bincount(self._line_of, weights=np.where(self._ratio > 0, values, 0.0), minlength=n)
        negative = np.bincount(self._line_of, weights=np.where(self._ratio < 0, values, 0.0), minlength=n)
        return positive, negative

    def _share_rows(self, q: np.ndarray, squares: np.ndarray) -> SharedRows:
        lattice, r, n = build_lattice(self.lines), self.rank, len(self.lines)
        norms = np.linalg.norm(self.lines, axis=1)
        unsure = np.full(n, np.inf)
        np.minimum.at(unsure, self._line_of, self._slack[self._live] / np.abs(self._ratio))
        mass = self._by_side(q * self._ratio**2)
        outer = (self.lines[:, :, None] * self.lines[:, None, :]).reshape(n, -1)
        metric = sum_maps(lattice.cells, (mass[0] - mass[1])[:, None] * outer, mass[1] @ outer)
        return SharedRows(
            lattice,
            self.lines,
            units=self.lines / norms[:, None],
            norms=norms,
            unsure=unsure / norms * ROOM + gamma(2 * r + 8),
            mass=mass,
            size=self._by_side(q * squares),
            span=float(np.sqrt(self.sample_weight @ np.square(self._lengths))) * ROOM,
            share=float(np.sqrt(self.sample_weight @ np.square(self._slack))) * ROOM,
            metric=metric.reshape(-1, r, r),
            exact=self.potential.exact,
        )

    def is_proved(self, given: np.ndarray) -> bool:
        """Return whether the lattice is that of the table, so that the bounds of :meth:`price` hold for it.

        Parameters
        ----------
        given : ndarray of shape (n, D)
            The table from which the rows were computed by an injective linear map, up to ``blur``.

        Returns
        -------
        bool
            Also False where the decision would take too long.
        """
        white = np.sqrt(self.sample_weight)[:, None] * (self.rows @ self._back)
        # σ_min(diag(√q) Y) > ‖diag(√q)(Y − X)‖: whitening has lost no direction
        if self._back.shape[0] != self.rank or np.linalg.norm(white.T @ white - np.eye(self.rank)) > 0.25:
            return False
        given = given[self._live]
        first = np.unique(self._line_of, return_index=True)[1]
        others = np.setdiff1d(np.arange(len(given)), first)
        others = others[(given[others] != given[first[self._line_of[others]]]).any(axis=1)]
        if not self._shared.share < 0.25 or len(others) > MOST_EXACT:
            return False
        if any(exact_rank(given[[row, first[self._line_of[row]]]]) > 1 for row in others):
            return False
        # faces whose metric was taken to be singular
        dropped = {lines.tobytes(): lines for faces in self._levels for lines in faces.dropped}.values()
        if len(dropped) > MOST_EXACT or any(
            exact_rank(given[first[lines]]) == self.rank for lines in dropped
        ):
            return False
        return prove_lattice(
            self.lines, self._shared.lattice, unsure=self._shared.unsure, given=given[first]
        ).proved

    # ------------------------------------------------------------------ pricing
    def weigh(self, neurons: np.ndarray) -> np.ndarray:
        """Return ω of each neuron."""
        return self.potential.weigh(self.rows, neurons, self.sample_weight, self.row_lengths)

    def normalise(self, neurons: np.ndarray) -> np.ndarray:
        """Scale neurons to ω(w) = 1, leaving out those that no row activates."""
        weights = self.weigh(neurons)
        size = np.linalg.norm(self.rows, axis=1).max() * (
            self.row_lengths.max() if self.potential.exact else 1.0
        )
        live = weights > 1e-13 * np.linalg.norm(neurons, axis=1) * size
        return neurons[live] / weights[live, None]

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return the local maxima of |⟨λ, σ(Zw)⟩|/ω(w) above ``threshold`` and a valid bound on the largest.

        Parameters
        ----------
        dual : ndarray of shape (N,)
            One entry per kept row.
        threshold : float
            Maxima below it may be left out; the best one is always returned.
        max_neurons : int, optional
            Return at most this many, the best first.
        complete : bool
            Ignored, for symmetry with the other oracles: all maxima are always returned.

        Returns
        -------
        Pricing
            Neurons scaled to ω(w) = 1.

        Raises
        ------
        InputError
            If ``dual`` does not have one entry per kept row.
        """
        dual = np.asarray(dual, dtype=float)
        if dual.shape != (len(self.kept),):
            raise InputError(f"dual must have shape ({len(self.kept)},), one entry per row, got {dual.shape}")
        full = np.zeros(len(self.rows))
        full[self.kept] = dual
        lipschitz = float(np.abs(full) @ self._lengths) * ROOM
        if lipschitz == 0.0:
            any_one = self.normalise(np.concatenate([self.rows[self._live[:1]], -self.rows[self._live[:1]]]))
            return Pricing(any_one[:1], np.zeros(1), 0.0, exact=True)
        ahead, behind = self._by_side(full[self._live] * self._ratio)
        cells = self._shared.lattice.cells
        gradient = sum_maps(cells, (ahead - behind)[:, None] * self.lines, behind @ self.lines)
        sums = DualSums((ahead, behind), gradient, lipschitz, float(np.abs(full) @ self._slack) * ROOM)
        best, bound, neurons = self._search(dual, sums, threshold)
        lengths = self.row_lengths[self.kept] if self.potential.exact else None
        bound = min(bound, by_length_up(dual, self.sample_weight[self.kept], lengths))
        values = heights(self.rows[self.kept], dual, neurons)
        order = np.argsort(-np.abs(values), kind="stable")
        neurons, values = neurons[order], values[order]
        self._warm = neurons[:MOST_KEPT]
        return Pricing(*kept(neurons, values, threshold, max_neurons), float(max(bound, best)), exact=True)

    def _search(self, dual: np.ndarray, sums: DualSums, threshold: float) -> tuple[float, float, np.ndarray]:
        """Visit the faces from the cells down, by decreasing v, until no remaining face can matter."""
        values = np.abs(heights(self.rows[self.kept], dual, self._warm))
        best = bound = float(values.max(initial=0.0))
        found = [self._warm[values.argmax()][None] if best > 0 else self._warm[:0]]
        for faces in reversed(self._levels):
            faces.solve(sums)
            order = np.argsort(-faces.top, kind="stable")
            for start in range(0, len(order), step := block(self.lines)):
                some = order[start : start + step]
                some = some[faces.top[some] >= min(best, threshold) * (1.0 - 1e-9)]
                if not len(some):
                    break
                answer = faces.visit(some)
                bound = max(bound, answer.bound)
                if answer.best > best:
                    best, found[0] = answer.best, answer.best_neuron[None] @ self._back.T
                good = answer.values >= min(threshold, best)
                found.append(answer.neurons[good] @ self._back.T)
        neurons = self.normalise(np.concatenate(found))
        return best, bound, neurons[first_of_each(neurons)]
