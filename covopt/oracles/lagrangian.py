r"""An upper bound on max ‖Λᵀ σ(Z w)‖ by an eigenvalue: products of activations, several outputs, any rows.

With p = σ(Zw), q = σ(−Zw) every product of two of the numbers p_i, q_i is nonnegative and p_i q_i = 0. So for all
matrices A, B ≥ 0 with a row for each of the 2N numbers c = (p, q), and all d,

.. math::
    \|Λ^T p\|^2 \le \|Λ^T p\|^2 + 2 (A^T c)·(B^T c) + Σ_i d_i p_i q_i.

p_i = (z_i·w + r_i)/2 and q_i = (r_i − z_i·w)/2 with r_i = |z_i·w|. So the right side is a quadratic form in
x = (w, r), and ‖w‖² = xᵀSx with S = (I − ½ω ZᵀZ) ⊕ ½ω I because r_i² = (z_i·w)²: the bound is the top eigenvalue of
the form in the metric S. Its minimum over A, B with as many columns as there are numbers is the dual of the doubly
nonnegative relaxation (FL22 §3.2: the cone S, lifted). A few columns come close; then the form is the sum of a
diagonal, a block of the size of w and a matrix of low rank. A, B and d are found by L-BFGS on a smoothed maximum;
every choice gives a valid bound. On digits (1797 × 64, ten classes, λ_max/10) √Σ h_c² over the outputs is 2.93 for a
dual with h = 1.01; this bound is 1.6 after three seconds.

**Rounding.** Let w be a unit vector, ℓ_i ≥ ‖z_i‖, L = Σ‖Λ_i‖ℓ_i. The slots P, p ≈ Px, D = ΛᵀP and the matrices are
computed, with x = (t, ρ), w = Rt, and ρ_i such that its computed coefficient makes it r_i/2.

- *Slots.* p_i and q_i differ from their row of P times x by at most ℓ_i γ(2D + 8)√D‖R‖_F‖x‖ = ℓ_i s‖x‖, so Λᵀp from
  Dx by at most L(s + γ(N + 2)(1 + √D‖R‖_F))‖x‖: relative to L, not to D, since Λ may cancel in D.
- *Products.* Slots of size l_i are divided by it: their error is s_i = sℓ_i/l_i + γ(D + N + 8), that of the product
  of two of them s_i + s_j + s_i s_j. It is added with the size of every multiplier: Σ A_ij B_kj is a product of sums.
- *The metric.* G = 1 − ½ωUᵀU with the computed units U and the computed ω. From E = RᵀGR − 1 follows ‖t‖²(1 − ‖E‖) ≤
  wᵀGw = ‖w‖² − ½ω‖Uw‖². As |r_i/ℓ_i − |u_i·w|| ≤ d = γ(2D + 16)√D and ½ω‖Uw‖² ≤ ‖w‖², G being positive,
  ‖x‖² ≤ (1 + √(2ωN)d + ωNd²)(1 + γ(16))/(1 − ‖E‖).
- *The eigenvalue* is proved by a factorisation; the rounding of the products in its matrix is added entry by entry.

With ν above the top eigenvalue and all these errors, ‖Λᵀp‖ ≤ (√ν + the error of Λᵀp)‖x‖.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from covopt.exact.definite import ROOM, product_error_up, top_eigenvalue_up
from covopt.exact.rounding import UNIT, allowance, gamma, lengths_up, total_up, up
from covopt.limits import PIECE, checkpoint, now

FREE = 0.2  # scale of d for the optimiser: with 0.5 and 0.08 most bounds end higher
PAIRS = 12  # columns of A and of B, and eigenvalues that enter the smoothed maximum
TEMPERATURES = 0.05, 0.01  # of the smoothed maximum, one after the other, relative to ‖Λᵀp‖²


class LiftedForm:
    """The quadratic form of rows and a dual in coordinates where S = I, and its multipliers.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.
    dual : ndarray of shape (N, k)
        Not zero.

    Attributes
    ----------
    top : float
        The smallest top eigenvalue found so far, up to rounding.

    Examples
    --------
    >>> form = LiftedForm(np.eye(2), np.array([[1.0], [-1.0]]))
    >>> form.improve(60)
    >>> 1.0 <= form.proved() < 1.01
    True
    """

    def __init__(self, rows: np.ndarray, dual: np.ndarray):
        self.rows, self.shape = rows, rows.shape
        n, self.rank = rows.shape
        lengths = np.linalg.norm(rows, axis=1)
        units = rows / lengths[:, None]
        squares, vectors = np.linalg.eigh(units.T @ units)
        self.omega = 1.0 / max(float(squares[-1]), 1e-3)
        self.root = (vectors / np.sqrt(1.0 - 0.5 * self.omega * np.clip(squares, 0, None))) @ vectors.T
        self.coefficients = 0.5 * np.sqrt(2.0 / self.omega) * lengths  # coefficients of the ρ_i
        self.half = 0.5 * (rows @ self.root)
        self.sizes = np.sqrt(np.square(self.half).sum(axis=1) + self.coefficients**2)
        self.units, self.seeds = units, np.ones(n + self.rank)
        self.first, self.second = self.half / self.sizes[:, None], self.coefficients / self.sizes  # slots
        rng = np.random.default_rng(0)
        self.multipliers = np.concatenate([np.zeros(n), np.sqrt(rng.random(4 * n * PAIRS) / PAIRS)])
        self.ask(dual)

    def ask(self, dual: np.ndarray) -> None:
        """Set another dual on the same rows; the multipliers are kept as a warm start."""
        self.dual, self.top = dual, np.inf
        self.objective = np.hstack([dual.T @ self.half, dual.T * self.coefficients])
        self.scale = float(np.linalg.eigvalsh(self.objective @ self.objective.T)[-1])
        self.typical = float((np.linalg.norm(dual, axis=1) * self.sizes).mean())
        self.best = self.multipliers
        pairs, k = np.arange(PAIRS), dual.shape[1]
        self.swapped = np.concatenate([np.arange(k), k + PAIRS + pairs, k + pairs])  # A meets B
        self._allow()

    def _allow(self) -> None:
        """Set the rounding errors of the module docstring: ``stretch`` ≥ ‖x‖, ``lost``, ``slips`` = s_i."""
        n, dim = self.shape
        units, omega = self.units, self.omega
        lengths, wide, spread = lengths_up(self.rows), float(np.sqrt(dim)), float(np.linalg.norm(self.root))
        slip = gamma(2 * (2 * dim + 8)) * wide * spread * ROOM
        self.lost = total_up(lengths_up(self.dual), lengths) * ROOM
        self.lost *= slip + gamma(2 * (n + 2)) * (1.0 + wide * spread)
        self.slips = (slip * lengths / self.sizes + gamma(2 * (dim + n + 8))) * ROOM
        metric = np.eye(dim) - 0.5 * omega * (units.T @ units)
        moved = metric @ self.root
        error = float(np.linalg.norm(self.root.T @ moved - np.eye(dim)))
        error += product_error_up(self.root, moved) + 2 * dim * UNIT
        inner = 0.5 * omega * product_error_up(units, units) + 4 * UNIT * dim
        error += spread * (product_error_up(metric, self.root) + inner * spread)
        d = gamma(2 * (2 * dim + 16)) * wide * ROOM
        square = 1.0 + np.sqrt(2.0 * omega * n) * d + omega * n * d * d
        error = error * ROOM
        self.stretch = np.inf
        if error < 0.5 and np.isfinite(square):
            # the excess over 1 is small: its rounding is added apart
            self.stretch = float(np.sqrt(square / (1.0 - error)) * (1.0 + gamma(32)))

    def read(self, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return d (N,), A and B (2N, m) from the variables of the optimiser."""
        n = len(self.rows)
        free, pairs = multipliers[:n], self.typical * np.square(multipliers[n:]).reshape(2, 2 * n, PAIRS)
        return FREE * self.scale * free, pairs[0], pairs[1]

    def parts(self, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return d and P: the form is Pᵀ P', P' being P with its rows for A and B swapped, plus d's terms."""
        n = len(self.rows)
        free, *pairs = self.read(multipliers)
        turned = np.hstack([each[:n] - each[n:] for each in pairs])
        straight = np.hstack([each[:n] + each[n:] for each in pairs])
        products = np.hstack([turned.T @ self.first, straight.T * self.second])
        return free, np.vstack([self.objective, products])

    def matrix(self, free: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Return the form as a dense matrix."""
        matrix = parts.T @ parts[self.swapped]
        matrix[: self.rank, : self.rank] -= (self.first * free[:, None]).T @ self.first
        diagonal = np.arange(self.rank, len(matrix))
        matrix[diagonal, diagonal] += free * self.second**2
        return 0.5 * (matrix + matrix.T)

    def tops(self, free: np.ndarray, parts: np.ndarray, tol: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest eigenvalues, ascending, and their eigenvectors; big forms are applied, not formed."""
        size, rank = parts.shape[1], self.rank
        if size**2 <= PIECE:
            return eigh(self.matrix(free, parts), subset_by_index=[max(size - PAIRS, 0), size - 1])
        block, diagonal, swapped = (
            (self.first * free[:, None]).T @ self.first,
            free * self.second**2,
            parts[self.swapped],
        )

        def apply(x: np.ndarray) -> np.ndarray:
            y = parts.T @ (swapped @ x)
            y[:rank] -= block @ x[:rank]
            y[rank:] += diagonal * x[rank:]
            return y

        form = LinearOperator((size, size), matvec=apply, dtype=float)
        try:
            values, vectors = eigsh(form, PAIRS, which="LA", v0=self.seeds, tol=tol)
        except ArpackError:
            return eigh(self.matrix(free, parts), subset_by_index=[size - PAIRS, size - 1])
        order = np.argsort(values)
        self.seeds = vectors.sum(axis=1)
        return values[order], vectors[:, order]

    def smoothed(self, multipliers: np.ndarray, temperature: float) -> tuple[float, np.ndarray]:
        """Return the smoothed maximum and its gradient, both divided by the form's scale."""
        checkpoint()
        n, rank, k = len(self.rows), self.rank, self.dual.shape[1]
        free, parts = self.parts(multipliers)
        values, vectors = self.tops(free, parts)
        if values[-1] < self.top:
            self.top, self.best = float(values[-1]), multipliers.copy()
        spread = temperature * self.scale / np.log(parts.shape[1])
        weights = np.exp((values - values[-1]) / spread)
        value = values[-1] + spread * np.log(weights.sum())
        seen = vectors * np.sqrt(weights / weights.sum())
        heads, tails = self.first @ seen[:rank], self.second[:, None] * seen[rank:]
        pulls = (parts @ seen)[self.swapped][k:]
        across, along = 2.0 * (heads @ pulls.T), 2.0 * (tails @ pulls.T)
        slopes = np.vstack([along + across, along - across])  # (2N, 2m)
        slope = np.stack([slopes[:, :PAIRS], slopes[:, PAIRS:]]).ravel()
        slope *= 2.0 * self.typical * multipliers[n:]
        loose = FREE * self.scale * (np.square(tails).sum(axis=1) - np.square(heads).sum(axis=1))
        self.seen = seen
        return float(value) / self.scale, np.concatenate([loose, slope]) / self.scale

    def improve(self, steps: int, *, seconds: float = np.inf, is_warm: bool = False) -> None:
        """Minimise the smoothed maximum; a deadline may end it at any point, and the best multipliers are kept.

        Parameters
        ----------
        steps : int
            Iterations for each temperature.
        seconds : float
        is_warm : bool
            Whether the multipliers come from a similar dual: then only the last temperature is used.
        """
        end = now() + seconds

        def stop(_: np.ndarray) -> None:
            if now() > end:
                raise StopIteration

        for temperature in TEMPERATURES[1:] if is_warm else TEMPERATURES:
            self.multipliers = minimize(
                self.smoothed, self.multipliers, args=(temperature,), jac=True, method="L-BFGS-B", callback=stop,
                options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 10, "ftol": 1e-12, "gtol": 0.0},
            ).x  # fmt: skip

    @property
    def value(self) -> float:
        """The bound, unproved and up to rounding; see :meth:`proved`."""
        return float(np.sqrt(max(self.top, 0.0)))

    def proved(self) -> float:
        """Return an upper bound on ‖Λᵀσ(Zw)‖ over unit vectors."""
        free, *pairs = self.read(self.best)
        slips = np.tile(self.slips, 2)
        plain, slipped = [each.sum(axis=0) for each in pairs], [slips @ each for each in pairs]
        sizes = 2.0 * float(plain[0] @ plain[1]) + float(np.abs(free).sum())
        paid = 2.0 * float(slipped[0] @ plain[1] + plain[0] @ slipped[1] + slipped[0] @ slipped[1])
        paid = (paid + float(np.abs(free) @ (2.0 * self.slips + self.slips**2))) * ROOM
        _, parts = self.parts(self.best)
        matrix = self.matrix(free, parts)
        terms = 2 * len(self.rows) + len(parts) + 8
        paid += allowance(4 * terms, float(np.square(self.objective).sum()) + sizes)
        top = up(top_eigenvalue_up(matrix, self.tops(free, parts, 0.0)[0][-1]) + up(paid))
        return up(up(up(np.sqrt(max(top, 0.0))) + self.lost) * self.stretch)

    def atom(self) -> np.ndarray:
        """Return outputs A (N, k) of a relaxed neuron, scaled so that ⟨Λ, A⟩ is the bound."""
        seen = self.half @ self.seen[: self.rank] + self.coefficients[:, None] * self.seen[self.rank :]
        outputs = seen @ (seen.T @ self.dual)
        return outputs * (self.value / float(np.vdot(outputs, self.dual)))
