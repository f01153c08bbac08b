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
from covopt.losses import Loss
from covopt.problems.reduction import Reduction, check_rows, check_size, reduce_outputs

BISECTIONS = 80
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

    @property
    def vector_outputs(self) -> int:
        """Return q for oracles, 0 for one output."""
        return 0 if self.n_outputs == 1 else self.n_outputs

    @property
    def dual_shape(self) -> tuple[int, int]:
        """Shape of a dual."""
        return len(self.rows), self.n_outputs

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
    outputs = loss.output_basis()
    if loss.is_quadratic and loss.targets.shape[1] > 1:
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
    """Minimise C(1Bᵀ)/μ + ½ρ‖B‖² over B; zero without an offset.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 2.0, 6.0])
    >>> best_constant(RegularisedProblem(np.eye(3), loss, 1.0, offset_cost=0.0))
    array([3.])
    """
    if not problem.has_offset:
        return np.zeros(problem.n_outputs)
    return problem.loss.constant(problem.strength * problem.offset_cost, problem.outputs)


def constant_dual(problem: RegularisedProblem) -> np.ndarray:
    """Return −∇C/μ at the best constant: the dual point that proves it optimal where its gauge is at most one.

    Its multiples in (0, 1) are strictly inside the domain of the conjugate.
    """
    price = problem.strength * problem.offset_cost if problem.has_offset else 0.0
    at = problem.raise_outputs(best_constant(problem))
    dual = -problem.lower_outputs(problem.loss.gradient_at_constant(at, price)) / problem.strength
    return dual - dual.mean(axis=0) if problem.is_free and not problem.loss.is_classification else dual
