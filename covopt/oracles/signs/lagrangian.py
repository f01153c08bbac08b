r"""An eigenvalue bound on max ‖Λᵀ σ(Z w)‖ over unit w, several outputs: the doubly nonnegative dual, stopped early.

With p = σ(Zw), q = σ(−Zw) every product of two of the numbers p_i, q_i is nonnegative and p_i q_i = 0, so for every
symmetric N with N ≥ 0 outside of the pairs (p_i, q_i), where it is free,

.. math::
    \|Λ^T p\|^2 \le \|Λ^T p\|^2 + c^T N c, \qquad c = (p, q).

p_i = (z_i·w + r_i)/2 and q_i = (r_i − z_i·w)/2 with r_i = |z_i·w|. So the right side is a quadratic form in
x = (w, r), and ‖w‖² = xᵀSx with S = (I − ½ω ZᵀZ) ⊕ ½ω I because r_i² = (z_i·w)²: the bound is the top eigenvalue of
the form in the metric S, convex in N. Its minimum over N is the dual of the doubly nonnegative relaxation (FL22 §3.2:
the cone S, lifted); here N follows the gradient of a smoothed maximum for a few steps, because every N gives a valid
bound.

**Rounding.** Let w be a unit vector, ℓ_i ≥ ‖z_i‖, L = Σ‖Λ_i‖ℓ_i. Computed are the slots P, p ≈ Px, D = ΛᵀP and the
matrices, with x = (t, ρ), w = Rt, and ρ_i such that its computed coefficient makes it r_i/2.

- *Slots.* p_i and q_i differ from their row of P times x by at most ℓ_i γ(2D + 8)√D‖R‖_F‖x‖ = ℓ_i s‖x‖, so Λᵀp from
  Dx by at most L(s + γ(N + 2)(1 + √D‖R‖_F))‖x‖: relative to L, which Λ may cancel, not to D.
- *Products.* Slots of size l_i are divided by it: they are off by s_i = sℓ_i/l_i + γ(D + N + 8), and the products
  under cᵀNc by s_i + s_j + s_i s_j, paid for with the size of every multiplier.
- *The metric.* G = 1 − ½ωUᵀU with the computed units U and the computed ω. From E = RᵀGR − 1 follows ‖t‖²(1 − ‖E‖) ≤
  wᵀGw = ‖w‖² − ½ω‖Uw‖². As |r_i/ℓ_i − |u_i·w|| ≤ d = γ(2D + 16)√D and ½ω‖Uw‖² ≤ ‖w‖², G being positive,
  ‖x‖² ≤ (1 + √(2ωN)d + ωNd²)(1 + γ(16))/(1 − ‖E‖).
- *The eigenvalue* is proved by a factorisation, and the products that made its matrix are paid for entry by entry.

With ν above the top eigenvalue, all products paid, ‖Λᵀp‖ ≤ (√ν + what Λᵀp differs by)‖x‖.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, minimize

from covopt.exact.definite import product_error_up, top_eigenvalue_up
from covopt.exact.rounding import UNIT, allowance, gamma, lengths_up, total_up, up
from covopt.limits import now

VANISHED = 745.0  # e to minus this is no number any more
ROOM = 1.0 + 2.0**-20  # more than a few sums and products of numbers that are not negative err by
SHORT = 100  # steps up to which one temperature is enough


class LiftedForm:
    """The quadratic form in coordinates where S = I, and its derivative in N."""

    def __init__(self, rows: np.ndarray, dual: np.ndarray):
        n, self.rank = rows.shape
        lengths = np.linalg.norm(rows, axis=1)
        units = rows / lengths[:, None]
        squares, vectors = np.linalg.eigh(units.T @ units)
        omega = 1.0 / max(float(squares[-1]), 1e-3)
        self.root = (vectors / np.sqrt(1.0 - 0.5 * omega * np.clip(squares, 0, None))) @ vectors.T
        self.coefficients = 0.5 * np.sqrt(2.0 / omega) * lengths  # coefficients of the ρ_i
        half, size = 0.5 * (rows @ self.root), np.diag(self.coefficients)
        self.objective = dual.T @ np.hstack([half, size])
        slots = np.block([[half, size], [-half, size]])
        self.sizes = np.linalg.norm(slots, axis=1)
        self.slots = slots / self.sizes[:, None]
        self.first, self.second = np.triu_indices(2 * n, 1)
        self.free = self.first + n == self.second
        self.gram = self.objective.T @ self.objective
        self._allow(rows, dual, units, omega)

    def _allow(self, rows: np.ndarray, dual: np.ndarray, units: np.ndarray, omega: float) -> None:
        """Set what rounding does, as at the module's head: ``stretch`` ≥ ‖x‖, ``lost``, ``slips`` = s_i."""
        n, dim = rows.shape
        lengths, wide, spread = lengths_up(rows), float(np.sqrt(dim)), float(np.linalg.norm(self.root))
        slip = gamma(2 * (2 * dim + 8)) * wide * spread * ROOM
        self.lost = total_up(lengths_up(dual), lengths) * ROOM
        self.lost *= slip + gamma(2 * (n + 2)) * (1.0 + wide * spread)
        self.slips = (slip * np.tile(lengths, 2) / self.sizes + gamma(2 * (dim + n + 8))) * ROOM
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
            # what is above 1 is small: its rounding is paid apart
            self.stretch = float(np.sqrt(square / (1.0 - error)) * (1.0 + gamma(32)))

    def value_up(self, top: float) -> float:
        """Turn a proved eigenvalue into what no unit vector exceeds."""
        return up(up(up(np.sqrt(max(top, 0.0))) + self.lost) * self.stretch)

    def spectrum(self, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvalues, eigenvectors, and the matrix that they belong to."""
        full = np.zeros((len(self.slots), len(self.slots)))
        full[self.first, self.second] = 0.5 * multipliers
        matrix = self.gram + self.slots.T @ (full + full.T) @ self.slots
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors, matrix

    def top_up(self, multipliers: np.ndarray, matrix: np.ndarray, top: float) -> float:
        """Bound xᵀ(DᵀD)x + cᵀNc over unit x from above, c the exact products' factors."""
        sizes = np.abs(multipliers)
        first, second = self.slips[self.first], self.slips[self.second]
        paid = total_up(sizes, first + second + first * second) * ROOM
        terms = len(self.slots) + len(self.objective) + 4
        paid += allowance(2 * terms, float(np.trace(self.gram)) + float(sizes.sum()))
        return up(top_eigenvalue_up(matrix, top) + up(paid))


def eigenvalue_bound(
    rows: np.ndarray, dual: np.ndarray, *, max_steps: int = 60, seconds: float = np.inf
) -> float:
    """Bound ‖Λᵀσ(Zw)‖ from above over unit w.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.
    dual : ndarray of shape (N, k)
    max_steps : int
        Steps of the multipliers; each costs one eigenvalue decomposition of size r + N.
    seconds : float
        After so many no other step is begun; the best so far is returned.

    Examples
    --------
    >>> 1.0 <= eigenvalue_bound(np.eye(2), np.array([[1.0], [-1.0]])) < 1.01
    True
    """
    form = LiftedForm(rows, dual)
    best, start = _Best(form), np.zeros(len(form.first))
    best.offer(start)
    if best.value > 0.0 and max_steps > 0:
        best.run(start, max_steps, now() + seconds)
    return form.value_up(best.value)


class _Best:
    """The smallest top eigenvalue met."""

    def __init__(self, form: LiftedForm):
        self.form, self.value = form, np.inf
        self.multipliers = np.zeros(0)

    def offer(self, multipliers: np.ndarray, temperature: float = 0.0) -> float:
        """Evaluate the bound at these multipliers; with a temperature also the smoothed one and its gradient."""
        multipliers = np.where(self.form.free, multipliers, np.maximum(multipliers, 0.0))
        values, vectors, matrix = self.form.spectrum(multipliers)
        top = float(values[-1])
        spread = temperature if temperature > 0 else 1e-3 * max(abs(top), 1e-300)
        weights = np.exp(np.maximum(values - top, -VANISHED * spread) / spread)
        total = float(weights.sum())
        half = vectors * np.sqrt(weights / total)
        if top < self.value:
            proved = self.form.top_up(multipliers, matrix, top)
            if proved < self.value:
                self.value, self.multipliers = proved, multipliers
        self.smooth = top + spread * np.log(total)
        self.half = half
        return self.value

    def run(self, start: np.ndarray, max_steps: int, end: float) -> None:
        form = self.form
        size = len(form.gram)
        bounds = Bounds(np.where(form.free, -np.inf, 0.0), np.inf)
        point = start
        left = max_steps
        for share in (0.3, 0.05) if max_steps > SHORT else (0.1,):
            if now() > end:
                return
            distance = 0.7 * self.value
            temperature = max(share * distance, 1e-4 * self.value) / np.log(size + 1.0)
            scale = max(self.value, 1e-300)

            def smoothed(x: np.ndarray, temperature=temperature, scale=scale) -> tuple[float, np.ndarray]:
                self.offer(x * scale, temperature)
                seen = form.slots @ self.half
                return self.smooth / scale, (seen @ seen.T)[form.first, form.second]

            def stop(_: np.ndarray) -> None:
                if now() > end:
                    raise StopIteration

            calls = max(left // 2, 2) if max_steps > SHORT else max(left, 2)
            result = minimize(
                smoothed, point / scale, jac=True, bounds=bounds, method="L-BFGS-B", callback=stop,
                options={"maxfun": calls, "maxiter": left, "maxcor": 12, "ftol": 1e-9, "gtol": 1e-9},
            )  # fmt: skip
            left -= int(result.nfev)
            point = self.multipliers
            if left <= 2:
                return
