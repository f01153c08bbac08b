r"""Regularised training of a shallow ReLU network: primal value, dual value, dual scaling.

With rows Z = X̃ V / s_x of the reduced units (see :func:`reduce_fit`), μ = 2λ/s_x and unit neurons w_j

    primal   min  C(F)/μ + Σ_j ‖v_j‖ + ½ ρ ‖B‖²     F = Σ_j σ(Z w_j) v_jᵀ + 1 Bᵀ,
    dual     max  −C*(−μΛ)/μ − ‖Λᵀ1‖²/(2ρ)          s.t.  h(Λ) = max_{‖w‖=1} ‖Λᵀ σ(Z w)‖ ≤ 1.

Both are the user's C(f) + λ‖W‖² divided by μ, so that λ → 0 with the squared loss is the interpolation problem of
:mod:`covopt.problems.shallow`. ρ = ∞ is a network without output bias, ρ = s_x/β² a penalised one, ρ = 0 a free one,
where the dual gains Λᵀ1 = 0. At the optimum Λ = −∇C(F)/μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.data import Data, row_space
from covopt.errors import InputError
from covopt.losses import Huber, Loss
from covopt.problems.reduction import Reduction, check_rows, check_size, reduce_outputs

BISECTIONS = 80
TINY = 1e-300
FLOOR = 1e-11
LEAST_SHARE = 1e-100  # of what λ_max is at most: below it squares have no room


@dataclass(frozen=True)
class RegularisedProblem:
    """The problem with a loss; it knows values and scalings and imports no solver.

    Arrays of outputs always have two axes here: F, Λ of shape (N, q), weights (m, q), B of shape (q,).

    Attributes
    ----------
    rows : ndarray of shape (N, r)
        Z, of full column rank; zero rows and equal rows are allowed.
    loss : Loss
        Bound to the targets of these rows, in the user's outputs.
    strength : float
        μ.
    offset_cost : float
        ρ: ``inf`` (no offset), positive (penalised) or 0 (free).
    outputs : ndarray of shape (k, q) or None
        Orthonormal columns E when the outputs are reduced: F = F' Eᵀ.
    """

    rows: np.ndarray
    loss: Loss
    strength: float
    offset_cost: float = np.inf
    outputs: np.ndarray | None = None

    @property
    def has_offset(self) -> bool:
        """Whether an offset B exists."""
        return not np.isinf(self.offset_cost)

    @property
    def is_free(self) -> bool:
        """Whether the offset costs nothing."""
        return self.offset_cost == 0

    @property
    def kappa(self) -> float:
        """1/ρ, zero without an offset and for a free one."""
        return 0.0 if self.offset_cost == 0 or not self.has_offset else 1.0 / self.offset_cost

    @property
    def n_outputs(self) -> int:
        """Return q."""
        return self.loss.targets.shape[1] if self.outputs is None else self.outputs.shape[1]

    # ------------------------------------------------------------------ to and from the loss's outputs
    def raise_outputs(self, values: np.ndarray) -> np.ndarray:
        """Return values of the reduced outputs in the loss's outputs."""
        return values if self.outputs is None else values @ self.outputs.T

    def lower_outputs(self, values: np.ndarray) -> np.ndarray:
        """Return values of the loss's outputs in the reduced ones."""
        return values if self.outputs is None else values @ self.outputs

    def slope(self, dual: np.ndarray) -> np.ndarray:
        """Return −μΛ, the argument of the conjugate."""
        return -self.strength * self.raise_outputs(dual)

    # ------------------------------------------------------------------ primal
    def atoms(self, neurons: np.ndarray) -> np.ndarray:
        """Return σ(Z w_j) as columns, shape (N, m)."""
        return np.maximum(self.rows @ neurons.T, 0.0)

    def fitted(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """F, of shape (N, q)."""
        return self.atoms(neurons) @ weights + offset

    def network_value(self, weights: np.ndarray, offset: np.ndarray) -> float:
        """Σ‖v_j‖ + ½ρ‖B‖²."""
        value = float(np.linalg.norm(weights, axis=1).sum())
        if self.has_offset and self.offset_cost > 0:
            value += 0.5 * self.offset_cost * float(offset @ offset)
        return value

    def primal_value(self, fitted: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        """Value of the primal for outputs ``fitted`` of unit neurons with these output weights."""
        return self.loss.value(self.raise_outputs(fitted)) / self.strength + self.network_value(
            weights, offset
        )

    # ------------------------------------------------------------------ dual
    def dual_of(self, fitted: np.ndarray) -> np.ndarray:
        """Return −∇C(F)/μ: the dual point that belongs to outputs F."""
        return -self.lower_outputs(self.loss.gradient(self.raise_outputs(fitted))) / self.strength

    def project_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return a dual point in the domain of the conjugate, with Λᵀ1 = 0 for a free offset."""
        slope = self.slope(dual)
        inside = self.loss.project(slope)
        if inside is not slope:
            dual = -self.lower_outputs(inside) / self.strength
        if self.is_free:
            room = self.loss.room(self.slope(dual))
            if self.outputs is not None or room.shape[1] != dual.shape[1]:
                room = room.min(axis=1, keepdims=True)
            total = room.sum(axis=0)
            share = np.where(total > 0, room / np.where(total > 0, total, 1.0), 1.0 / len(dual))
            dual = dual - share * dual.sum(axis=0)
        return dual

    def dual_value(self, dual: np.ndarray) -> float:
        """Value of the dual objective (feasibility is the caller's business)."""
        return self.dual_terms(dual)[0]

    def dual_terms(self, dual: np.ndarray) -> tuple[float, float]:
        """Value of the dual objective, and the sum of the sizes of its terms."""
        value, size = self.loss.conjugate_terms(self.slope(dual))
        square = 0.5 * self.kappa * float(np.square(dual.sum(axis=0)).sum())
        return -value / self.strength - square, size / self.strength + square

    def scale_dual(self, dual: np.ndarray, gauge: float) -> tuple[np.ndarray, float]:
        """Scale a dual point into feasibility as well as possible.

        Parameters
        ----------
        dual : ndarray of shape (N, q)
            In the domain of the conjugate (see :meth:`project_dual`), which contains every smaller multiple.
        gauge : float
            An upper bound on h(Λ).

        Returns
        -------
        (ndarray of shape (N, q), float)
            The best multiple tΛ with t·gauge ≤ 1 and its dual value, a lower bound on the primal. The value is
            concave in t; the root of its derivative is found by bisection.
        """
        slope = self.slope(dual)
        longest = 1.0 / gauge if gauge > 0 else 2.0
        if longest > 1.0:  # beyond 1 the domain may end
            longest = min(longest, self._reach(slope))
        bend = self.kappa * float(np.square(dual.sum(axis=0)).sum())

        def rise(t: float) -> float:
            return -float(np.vdot(slope, self.loss.conjugate_gradient(t * slope))) / self.strength - t * bend

        low, high = 0.0, longest
        if rise(high) < 0:
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if rise(middle) > 0 else (low, middle)
            high = low
        scaled = dual * high
        return scaled, self.dual_value(scaled)

    def _reach(self, slope: np.ndarray) -> float:
        """Largest t with t·slope in the domain, a little less than it."""
        reach = 1.0 + self.loss.step_limit(slope, slope)
        bounds = self.loss.box()
        if bounds is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(slope > 0, bounds[1] / slope, np.where(slope < 0, bounds[0] / slope, np.inf))
            reach = min(reach, float(ratio.min(initial=np.inf)))
        return max(1.0, reach * (1.0 - 1e-12))


def reduce_fit(data: Data, loss: Loss, lam: float, output_bias: str) -> tuple[RegularisedProblem, Reduction]:
    """Leave out samples without weight, reduce rows and outputs to their rank, scale the rows to size one.

    Rows of one point or ray all stay: each has its own loss. Targets are not scaled, so that the loss keeps its
    units. The outputs of the softmax lose the direction in which nothing changes.

    Parameters
    ----------
    data : Data
    loss : Loss
        Bound to ``data.Y``.
    lam : float
        λ.
    output_bias : {"none", "penalized", "free"}

    Raises
    ------
    InputError
        When the numbers are so large or small that they have no place in double precision.
    """
    keep = np.flatnonzero(loss.weights[:, 0] > 0)
    # without the rows of weight zero the rank may fall, and oracles take rows of full rank
    basis = data.basis if len(keep) == data.n_samples else row_space(data.lifted[keep])
    outputs = None
    k = loss.targets.shape[1]
    if loss.name == "softmax-cross-entropy":
        outputs = np.linalg.qr(np.column_stack([np.ones(k), np.eye(k)[:, : k - 1]]))[0][:, 1:]
    elif loss.name == "squared" and k > 1:
        outputs = reduce_outputs(loss.targets[keep])[1]
    rows = data.lifted[keep] @ basis
    row_scale = 1.0
    if rows.size and rows.any():
        with np.errstate(over="ignore"):
            row_scale = float(np.linalg.norm(rows, axis=1).max())
        check_size("X or bias", "the largest row has norm", row_scale)
        check_rows(rows)
    strength = 2.0 * lam / row_scale
    check_size("lam", "measured in units of X it is", strength)
    offset_cost = {"none": np.inf, "free": 0.0}.get(output_bias)
    if offset_cost is None:
        offset_cost = (row_scale / data.bias) / data.bias
        check_size("bias", "the price of the penalized output bias is", offset_cost)
    part = loss.take(keep)
    # the chances of a sample are sums of its dual's outputs: below this share of their size they are rounding
    part.floor = FLOOR * min(1.0, strength / float(part.weights.max()))
    problem = RegularisedProblem(rows / row_scale, part, strength, offset_cost, outputs)
    return problem, Reduction(keep, data.n_samples, basis, row_scale, 1.0, outputs)


def check_strength(problem: RegularisedProblem, lam: float) -> None:
    """Refuse a λ that is nothing beside λ_max: interpolation is its limit.

    Parameters
    ----------
    problem : RegularisedProblem
    lam : float
        What it is in the user's units.

    Raises
    ------
    InputError

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 2.0])
    >>> check_strength(RegularisedProblem(np.eye(2), loss, 1e-90), 1e-90)
    """
    slope = problem.loss.gradient(np.zeros(problem.loss.targets.shape))
    most = float(np.linalg.norm(slope, axis=1) @ np.linalg.norm(problem.rows, axis=1))
    if problem.strength < LEAST_SHARE * most:
        raise InputError(
            f"lam={lam:g} is less than {LEAST_SHARE:g} of λ_max, next to nothing in double precision; give a larger "
            "one, or take covopt.min_norm, which solves the limit."
        )


def best_constant(problem: RegularisedProblem) -> np.ndarray:
    """Minimise C(1Bᵀ)/μ + ½ρ‖B‖² over B, by Newton's method; zero without an offset.

    For the hinge loss, which has kinks, the minimum over B is between −1 and 1, where the loss is linear. For the
    Huber loss the derivative is piecewise linear, and Newton's method would stop where all samples are in a tail.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 2.0, 6.0])
    >>> best_constant(RegularisedProblem(np.eye(3), loss, 1.0, offset_cost=0.0))
    array([3.])
    """
    loss, mu = problem.loss, problem.strength
    n, q = len(problem.rows), problem.n_outputs
    B = np.zeros(q)
    if not problem.has_offset:
        return B
    price = problem.offset_cost
    if loss.name == "hinge":
        pull = float((loss.weights * loss.targets).sum()) / mu
        return np.clip(np.array([pull / price if price > 0 else np.copysign(np.inf, pull)]), -1.0, 1.0)
    if isinstance(loss, Huber):
        return np.array([_huber_constant(problem, loss.delta, column) for column in range(q)])

    def value(point: np.ndarray) -> float:
        return problem.primal_value(np.tile(point, (n, 1)), np.zeros((0, q)), point)

    best = value(B)
    for _ in range(100):
        fitted = problem.raise_outputs(np.tile(B, (n, 1)))
        gradient = problem.lower_outputs(loss.gradient(fitted)).sum(axis=0) / mu + price * B
        curvature = loss.hessian(fitted).sum(axis=0) / mu
        if curvature.ndim == 1:
            curvature = np.diag(np.broadcast_to(curvature, (len(fitted[0]),)))
        if problem.outputs is not None:
            curvature = problem.outputs.T @ curvature @ problem.outputs
        size = float(np.trace(curvature)) + price + TINY
        step = -np.linalg.solve(curvature + (price + 1e-14 * size) * np.eye(q), gradient)
        length = 1.0
        while length > 1e-10 and not value(B + length * step) <= best:
            length *= 0.5
        if length <= 1e-10:
            break
        B = B + length * step
        best = value(B)
        if np.abs(step).max() <= 1e-15 * (1.0 + np.abs(B).max()):
            break
    return B


def _huber_constant(problem: RegularisedProblem, delta: float, column: int) -> float:
    """Root of the nondecreasing derivative in the offset of one output: a bisection over its knots, exact."""
    targets, price = problem.loss.targets[:, column], problem.offset_cost
    weights = np.broadcast_to(problem.loss.weights, problem.loss.targets.shape)[:, column] / problem.strength
    knots = np.unique(np.concatenate([targets - delta, targets + delta]))

    def slope(point: float) -> float:
        return float(weights @ np.clip(point - targets, -delta, delta)) + price * point

    low, high = 0, len(knots) - 1
    for end, beyond in ((low, 1.0), (high, -1.0)):
        rest = slope(knots[end])
        if rest * beyond >= 0.0:  # the root is in the tail, where only the price of the offset grows
            return float(knots[end] - rest / price) if price > 0 else float(knots[end])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slope(knots[middle]) < 0.0 else (low, middle)
    left, right = slope(knots[low]), slope(knots[high])
    return float(knots[low] - left * (knots[high] - knots[low]) / (right - left))


def constant_dual(problem: RegularisedProblem) -> np.ndarray:
    """Return −∇C/μ at the best constant: the dual point that proves it optimal where its gauge is at most one.

    Its multiples in (0, 1) are strictly inside the domain of the conjugate. Where the hinge loss has its kink, at a
    constant of ±1, all samples of that class get equal shares of what optimality over the constant asks for.
    """
    loss, mu = problem.loss, problem.strength
    B = best_constant(problem)
    dual = problem.dual_of(np.tile(B, (len(problem.rows), 1)))
    if loss.name == "hinge" and problem.has_offset and abs(B[0]) >= 1.0:
        own = loss.targets * B[0] > 0
        mine, others = float(loss.weights[own].sum()), float(loss.weights[~own].sum())
        share = (others + mu * problem.offset_cost) / mine
        dual = loss.targets * loss.weights * np.where(own, share, 1.0) / mu
    return dual - dual.mean(axis=0) if problem.is_free and loss.name in ("squared", "huber") else dual
