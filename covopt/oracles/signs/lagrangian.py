r"""Eigenvalue bounds on max ‖Λᵀ σ(Z w)‖² over a cone of directions: the doubly nonnegative dual, stopped at any time.

Fix what some rows do: z_i·w ≥ 0 (on), ≤ 0 (off) or = 0 (zero). With p = σ(Zw), q = σ(−Zw) every product of two of
the numbers p_i, q_i is nonnegative and p_i q_i = 0, so for every symmetric N with N ≥ 0 outside of the
pairs (p_i, q_i), where it is free,

.. math::
    \|Λ^T p\|^2 \le \|Λ^T p\|^2 + c^T N c, \qquad c = (p, q).

Of an undecided row p_i = (z_i·w + r_i)/2 and q_i = (r_i − z_i·w)/2 with r_i = |z_i·w|; an on row has p_i = z_i·w and
q_i = 0. So the right side is a quadratic form in x = (w, r), and ‖w‖² = xᵀSx with S = (I − ½ω Z_UᵀZ_U) ⊕ ½ω I
because r_i² = (z_i·w)²: the bound is the top eigenvalue of the form in the metric S, convex in N. Its minimum over N
is the dual of the doubly nonnegative relaxation (FL22 §3.2: the cone S, lifted); here N follows the gradient of a
smoothed maximum for a few steps, because every N gives a valid bound.

**Rounding.** Let w be a unit vector of the cone, ℓ_i ≥ ‖z_i‖, L = Σ‖Λ_i‖ℓ_i, V the basis of the zero rows' flat and
‖w − Vy‖ ≤ m (:func:`covopt.exact.definite.flat_up`; V = 1 and m = 0 without zero rows). Computed are the slots P,
p ≈ Px, D = ΛᵀP and the matrices, with x = (t, ρ), y = Rt, and ρ_i such that its computed coefficient makes it r_i/2.

- *Slots.* p_i and q_i differ from their row of P times x by at most ℓ_i(m + γ(D + r + 8)‖V‖_F‖R‖_F)‖x‖ = ℓ_i s‖x‖,
  so Λᵀp from Dx by at most L(s + γ(N + 2)(1 + ‖V‖_F‖R‖_F))‖x‖: relative to L, which Λ may cancel, not to D.
- *Products.* Slots of size l_i are divided by it: they are off by s_i = sℓ_i/l_i + γ(r + N + 8), and the products
  under cᵀNc by s_i + s_j + s_i s_j, paid for with the size of every multiplier.
- *The metric.* G = 1 − ½ωUᵀU with the computed units U and the computed ω. From E = RᵀGR − 1 follows ‖t‖²(1 − ‖E‖) ≤
  yᵀGy = ‖y‖² − ½ω‖Uy‖². As |r_i/ℓ_i − |u_i·y|| ≤ d = m + γ(2D + 16)‖V‖_F and ½ω‖Uy‖² ≤ ‖y‖², G being positive,
  ‖x‖² ≤ (‖y‖² + √(2ωn)d‖y‖ + ωnd²)(1 + γ(16))/(1 − ‖E‖) for n undecided rows, and ‖y‖ ≤ ‖V‖.
- *The eigenvalue* is proved by a factorisation, and the products that made its matrix are paid for entry by entry.

With ν above the top eigenvalue, all products paid, ‖Λᵀp‖ ≤ (√ν + what Λᵀp differs by)‖x‖.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize

from covopt.exact.definite import flat_up, product_error_up, top_eigenvalue_up
from covopt.exact.rounding import UNIT, allowance, gamma, lengths_up, operator_norm_up, total_up, up
from covopt.limits import now

UNDECIDED, ON, OFF, ZERO = 0, 1, 2, 3
VANISHED = 745.0  # e to minus this is no number any more
LIVE = 1e-8  # share of a row's length below which what is left of it on a flat has no multipliers
ROOM = 1.0 + 2.0**-20  # more than a few sums and products of numbers that are not negative err by
SHORT = 100  # steps up to which one temperature is enough


@dataclass(frozen=True)
class ConeBound:
    """What the relaxation of one cone says.

    Attributes
    ----------
    value : float
        Upper bound on ‖Λᵀσ(Zw)‖ over unit w in the cone, rounding included; 0 when no direction is left.
    multipliers : ndarray of shape (2N, 2N)
        N above, for p then q; a start for every part of the cone.
    direction : ndarray of shape (r,)
        Unit vector of the relaxation's maximiser, on the zero rows' flat; zero when none is left.
    doubt : ndarray of shape (N,)
        How far each undecided row is from a sign in the relaxation, as a share of its size.
    """

    value: float
    multipliers: np.ndarray
    direction: np.ndarray
    doubt: np.ndarray


class _Form:
    """The quadratic form of one cone in coordinates where S = I, and its derivative in N."""

    def __init__(self, rows: np.ndarray, dual: np.ndarray, state: np.ndarray):
        n = len(rows)
        self.basis, self.miss = np.eye(rows.shape[1]), 0.0
        if (state == ZERO).any():
            self.basis, self.miss, _ = flat_up(rows[state == ZERO])
        self.undecided = np.flatnonzero(state == UNDECIDED)
        local = rows @ self.basis
        rank, count = local.shape[1], len(self.undecided)
        self.rank = rank
        if rank == 0:
            return
        lengths = np.linalg.norm(rows, axis=1)
        units = local[self.undecided] / lengths[self.undecided, None]
        squares, vectors = np.linalg.eigh(units.T @ units)
        omega = 1.0 / max(float(squares[-1]), 1e-3) if count else 1.0
        self.root = (vectors / np.sqrt(1.0 - 0.5 * omega * np.clip(squares, 0, None))) @ vectors.T
        moved = local @ self.root
        p, q = np.zeros((n, rank + count)), np.zeros((n, rank + count))
        on, off = state == ON, state == OFF
        p[on, :rank], q[off, :rank] = moved[on], -moved[off]
        p[self.undecided, :rank] = 0.5 * moved[self.undecided]
        q[self.undecided, :rank] = -0.5 * moved[self.undecided]
        place = rank + np.arange(count)
        p[self.undecided, place] = q[self.undecided, place] = (
            0.5 * np.sqrt(2.0 / omega) * lengths[self.undecided]
        )
        self.objective = dual.T @ p
        slots = np.concatenate([p, q])
        self.live = np.flatnonzero(np.linalg.norm(slots, axis=1) > LIVE * np.tile(lengths, 2))
        self.sizes = np.linalg.norm(slots[self.live], axis=1)
        self.slots = slots[self.live] / self.sizes[:, None]
        self.first, self.second = np.triu_indices(len(self.live), 1)
        self.free = (self.live[self.first] + n == self.live[self.second]) & (
            state[self.live[self.first] % n] == UNDECIDED
        )
        self.gram = self.objective.T @ self.objective
        self._allow(rows, dual, units, omega)

    def _allow(self, rows: np.ndarray, dual: np.ndarray, units: np.ndarray, omega: float) -> None:
        """Set what rounding does, as at the module's head: ``stretch`` ≥ ‖x‖, ``lost``, ``slips`` = s_i."""
        n, dim = rows.shape
        count, lengths = len(units), lengths_up(rows)
        wide, spread = float(np.linalg.norm(self.basis)), float(np.linalg.norm(self.root))
        slip = (self.miss + gamma(2 * (dim + self.rank + 8)) * wide * spread) * ROOM
        self.lost = total_up(lengths_up(dual), lengths) * ROOM
        self.lost *= slip + gamma(2 * (n + 2)) * (1.0 + wide * spread)
        live_lengths = np.tile(lengths, 2)[self.live]
        self.slips = (slip * live_lengths / self.sizes + gamma(2 * (self.rank + n + 8))) * ROOM
        metric = np.eye(self.rank) - 0.5 * omega * (units.T @ units)
        moved = metric @ self.root
        error = float(np.linalg.norm(self.root.T @ moved - np.eye(self.rank)))
        error += product_error_up(self.root, moved) + 2 * self.rank * UNIT
        inner = 0.5 * omega * product_error_up(units, units) + 4 * UNIT * self.rank
        error += spread * (product_error_up(metric, self.root) + inner * spread)
        long = operator_norm_up(self.basis)
        d = (self.miss + gamma(2 * (2 * dim + 16)) * wide) * ROOM
        square = long * long + np.sqrt(2.0 * omega * count) * d * long + omega * count * d * d
        error = error * ROOM
        self.stretch = np.inf
        if error < 0.5 and np.isfinite(square):
            # what is above 1 is small: its rounding is paid apart
            self.stretch = float(np.sqrt(square / (1.0 - error)) * (1.0 + gamma(32)))

    def value_up(self, top: float) -> float:
        """Turn a proved eigenvalue into what no unit vector of the cone exceeds."""
        return up(up(up(np.sqrt(max(top, 0.0))) + self.lost) * self.stretch)

    def full(self, multipliers: np.ndarray) -> np.ndarray:
        matrix = np.zeros((len(self.live), len(self.live)))
        matrix[self.first, self.second] = 0.5 * multipliers
        return matrix + matrix.T

    def spectrum(self, multipliers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvalues, eigenvectors, and the matrix that they belong to."""
        matrix = self.gram + self.slots.T @ self.full(multipliers) @ self.slots
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors, matrix

    def top_up(self, multipliers: np.ndarray, matrix: np.ndarray, top: float) -> float:
        """Bound xᵀ(DᵀD)x + cᵀNc over unit x from above, c the exact products' factors."""
        sizes = np.abs(multipliers)
        first, second = self.slips[self.first], self.slips[self.second]
        paid = total_up(sizes, first + second + first * second) * ROOM
        terms = len(self.live) + len(self.objective) + 4
        paid += allowance(2 * terms, float(np.trace(self.gram)) + float(sizes.sum()))
        return up(top_eigenvalue_up(matrix, top) + up(paid))


def bound_on_cone(
    rows: np.ndarray,
    dual: np.ndarray,
    state: np.ndarray,
    multipliers: np.ndarray | None = None,
    *,
    target: float = 0.0,
    max_steps: int = 60,
    seconds: float = np.inf,
) -> ConeBound:
    """Bound ‖Λᵀσ(Zw)‖ from above over the unit vectors of a cone.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.
    dual : ndarray of shape (N, k)
    state : ndarray of shape (N,)
        What each row does: UNDECIDED, ON, OFF or ZERO.
    multipliers : ndarray of shape (2N, 2N), optional
        Where to start, from a cone that contains this one.
    target : float
        A bound this small is good enough.
    max_steps : int
        Steps of the multipliers; each costs one eigenvalue decomposition of size r + number of undecided rows.
    seconds : float
        After so many no other step is begun; the best so far is returned.

    Returns
    -------
    ConeBound

    Examples
    --------
    >>> found = bound_on_cone(np.eye(2), np.array([[1.0], [-1.0]]), np.zeros(2, dtype=int))
    >>> 1.0 <= found.value < 1.01
    True
    """
    n = len(rows)
    nothing = np.zeros((2 * n, 2 * n)) if multipliers is None else multipliers
    form = _Form(rows, dual, state)
    if not np.isfinite(form.miss):
        return ConeBound(np.inf, nothing, np.zeros(rows.shape[1]), np.zeros(n))
    if form.rank == 0 or not len(form.live):
        # no slot is above rounding: what is left is the size of the rows on the flat
        value = _without_slots(form, rows, dual, state)
        return ConeBound(value, nothing, np.zeros(rows.shape[1]), np.zeros(n))
    block = nothing[np.ix_(form.live, form.live)] * np.outer(form.sizes, form.sizes)
    start = 2.0 * block[form.first, form.second]
    best = _Best(form)
    value = best.offer(start)
    enough = target**2
    if value > enough and max_steps > 0 and len(start):
        best.run(start, enough, max_steps, now() + seconds)
    kept = nothing.copy()
    kept[np.ix_(form.live, form.live)] = form.full(best.multipliers) / np.outer(form.sizes, form.sizes)
    direction, doubt = _read(form, best, n)
    return ConeBound(form.value_up(best.value), kept, direction, doubt)


def _without_slots(form: _Form, rows: np.ndarray, dual: np.ndarray, state: np.ndarray) -> float:
    """Bound the cone where no direction is left, or no row is of any size on those that are."""
    if form.rank == 0:
        # every unit vector of the flat would be within the miss of 0
        return 0.0 if form.miss < 1.0 else np.inf
    carried = (state == ON) | (state == UNDECIDED)
    slips = LIVE * lengths_up(rows[carried]) * ROOM
    return up((total_up(lengths_up(dual[carried]), slips) + form.lost) * form.stretch)


class _Best:
    """The smallest top eigenvalue met; calls itself finished once it is small enough."""

    def __init__(self, form: _Form):
        self.form, self.value = form, np.inf
        self.multipliers = np.zeros(0)
        self.density = np.zeros((0, 0))

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
                self.value, self.multipliers, self.density = proved, multipliers, half
        self.smooth = top + spread * np.log(total)
        self.half = half
        return self.value

    def run(self, start: np.ndarray, enough: float, max_steps: int, end: float = np.inf) -> None:
        form = self.form
        size = len(self.density)
        bounds = Bounds(np.where(form.free, -np.inf, 0.0), np.inf)
        point = start
        left = max_steps
        for share in (0.3, 0.05) if max_steps > SHORT else (0.1,):
            if now() > end:
                return
            distance = self.value - max(enough, 0.3 * self.value)
            temperature = max(share * distance, 1e-4 * self.value) / np.log(size + 1.0)
            scale = max(self.value, 1e-300)

            def smoothed(x: np.ndarray, temperature=temperature, scale=scale) -> tuple[float, np.ndarray]:
                self.offer(x * scale, temperature)
                seen = form.slots @ self.half
                return self.smooth / scale, (seen @ seen.T)[form.first, form.second]

            def stop(_: np.ndarray) -> None:
                if self.value <= enough or now() > end:
                    raise StopIteration

            calls = max(left // 2, 2) if max_steps > SHORT else max(left, 2)
            result = minimize(
                smoothed, point / scale, jac=True, bounds=bounds, method="L-BFGS-B", callback=stop,
                options={"maxfun": calls, "maxiter": left, "maxcor": 12, "ftol": 1e-9, "gtol": 1e-9},
            )  # fmt: skip
            left -= int(result.nfev)
            point = self.multipliers
            if self.value <= enough or left <= 2:
                return


def _read(form: _Form, best: _Best, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Take a direction and the doubtful rows from the relaxation's density."""
    half = best.density
    local = form.root @ half[: form.rank]
    vector = form.basis @ local[:, -1]
    norm = float(np.linalg.norm(vector))
    seen = (form.slots * form.sizes[:, None]) @ half
    squares = np.zeros(2 * n)
    squares[form.live] = (seen**2).sum(axis=1)
    doubt = np.zeros(n)
    p, q = squares[form.undecided], squares[n + form.undecided]
    doubt[form.undecided] = np.sqrt(np.minimum(p, q)) + 1e-300
    return (vector / norm if norm > 0 else vector), doubt
