r"""The problem that solvers take: a loss (interpolation is one) plus the cost of a shallow ReLU network.

With rows Z = X̃ V / s_x of the reduced units (:mod:`covopt.problems.reduction`), μ > 0 and unit neurons w_j

    primal   min  C(F)/μ + Σ_j ‖v_j‖ + ½ ρ ‖B‖²     F = Σ_j σ(Z w_j) v_jᵀ + 1 Bᵀ,
    dual     max  −C*(−μΛ)/μ − ‖Λᵀ1‖²/(2ρ)          s.t.  h(Λ) = max_{‖w‖=1} ‖Λᵀ σ(Z w)‖ ≤ 1.

With a loss the primal is the user's C(f) + λ‖W‖² divided by μ = 2λ/s_x. Interpolation is the loss that is zero at its
targets and infinite elsewhere, C*(U) = ⟨U, Y⟩, with μ = 1: the dual is max ⟨Λ, Y⟩ − ‖Λᵀ1‖²/(2ρ), and the squared norm
‖W‖² of the balanced network is twice the primal value. ρ = ∞ is a network without output bias (SP20), ρ > 0 a
penalised one (FL22), ρ = 0 a free one, where the dual gains Λᵀ1 = 0. At the optimum of a smooth loss Λ = −∇C(F)/μ.

All arrays of outputs have two axes: F, Y, Λ of shape (N, k), weights (m, k); B is of shape (k,).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covopt.exact.rank import COMPUTED
from covopt.limits import PIECE
from covopt.losses import Interpolation, Loss

PASSES = 0.9e-9  # largest accepted residual of interpolation, nearly what a certificate allows


@dataclass(frozen=True)
class Problem:
    """The reduced problem: objective values and scalings, independent of any solver.

    Attributes
    ----------
    rows : ndarray of shape (N, r)
        Z, of full column rank. With a loss zero rows and equal rows are allowed.
    loss : Loss
        Bound to the targets of these rows.
    strength : float
        μ.
    offset_cost : float
        ρ: ``inf`` (no offset), positive (penalised) or 0 (free).
    outputs : ndarray of shape (c, k) or None
        Orthonormal columns E when the outputs of the loss are reduced: F = F' Eᵀ.

    Examples
    --------
    >>> problem = Problem.through(np.eye(2), [3.0, -4.0])
    >>> problem.scale_dual(np.array([[1.0], [-1.0]]), 2.0)[1]
    3.5
    """

    rows: np.ndarray
    loss: Loss
    strength: float = 1.0
    offset_cost: float = np.inf
    outputs: np.ndarray | None = None

    @classmethod
    def through(cls, rows: np.ndarray, targets: np.ndarray, offset_cost: float = np.inf) -> Problem:
        """Return the problem of interpolation.

        Parameters
        ----------
        rows : ndarray of shape (N, r)
            No two on one ray, none zero.
        targets : ndarray of shape (N,) or (N, k)
        offset_cost : float
        """
        return cls(rows, Interpolation.of(targets), offset_cost=offset_cost)

    # ------------------------------------------------------------------ properties
    @property
    def interpolates(self) -> bool:
        """Whether networks have to pass through the targets."""
        return self.loss.interpolates

    @property
    def targets(self) -> np.ndarray:
        """Y of the loss."""
        return self.loss.targets

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
        return 0.0 if self.is_free else 1.0 / self.offset_cost

    @property
    def n_outputs(self) -> int:
        """Return k."""
        return self.targets.shape[1] if self.outputs is None else self.outputs.shape[1]

    @property
    def is_scalar(self) -> bool:
        """Whether there is one output: oracles then take duals of one axis."""
        return self.n_outputs == 1

    @property
    def vector_outputs(self) -> int:
        """Return k for oracles, 0 for one output."""
        return 0 if self.is_scalar else self.n_outputs

    @property
    def dual_shape(self) -> tuple[int, int]:
        """Shape of a dual."""
        return len(self.rows), self.n_outputs

    @cached_property
    def live(self) -> np.ndarray:
        """Mask of the nonzero rows, which are those that oracles take."""
        return np.asarray(self.rows.any(axis=1))

    def asked(self, dual: np.ndarray) -> np.ndarray:
        """Return a dual as oracles take it: without zero rows, and with one axis for one output."""
        some = dual[self.live]
        return np.ascontiguousarray(some[:, 0]) if self.is_scalar else some

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
        """Return F, in pieces of rows."""
        together = max(1, PIECE // max(len(neurons), 1))
        pieces = [self.rows[i : i + together] for i in range(0, max(len(self.rows), 1), together)]
        return np.concatenate([np.maximum(piece @ neurons.T, 0.0) @ weights for piece in pieces]) + offset

    def residual(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Return Y − F, where the network has to interpolate."""
        return self.targets - self.fitted(neurons, weights, offset)

    def missed(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        """Return max|Y − F|."""
        return float(np.abs(self.residual(neurons, weights, offset)).max(initial=0.0))

    def network_value(self, weights: np.ndarray, offset: np.ndarray) -> float:
        """Return Σ‖v_j‖ + ½ρ‖B‖², the value of a network that interpolates."""
        value = float(np.hypot.reduce(weights, axis=1).sum())
        if self.has_offset and self.offset_cost > 0:
            value += 0.5 * self.offset_cost * float(offset @ offset)
        return value

    def primal_value(self, fitted: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
        """Return the primal objective for outputs ``fitted`` of unit neurons with these output weights."""
        return self.loss.value(self.raise_outputs(fitted)) / self.strength + self.network_value(
            weights, offset
        )

    def best_constant(self) -> np.ndarray:
        """Minimise C(1Bᵀ)/μ + ½ρ‖B‖² over B; zero without an offset.

        Examples
        --------
        >>> from covopt.losses import make_loss
        >>> loss = make_loss("squared")
        >>> _ = loss.encode_targets([1.0, 2.0, 6.0])
        >>> Problem(np.eye(3), loss, 1.0, offset_cost=0.0).best_constant()
        array([3.])
        """
        if not self.has_offset:
            return np.zeros(self.n_outputs)
        return self.loss.constant(self.strength * self.offset_cost, self.outputs)

    @property
    def is_constant(self) -> bool:
        """Whether a free offset alone interpolates the targets or, without one, zero does."""
        return bool(np.abs(self.project_dual(self.targets)).max(initial=0.0) <= COMPUTED)

    # ------------------------------------------------------------------ dual
    def dual_of(self, fitted: np.ndarray) -> np.ndarray:
        """Return −∇C(F)/μ: the dual point that belongs to outputs F."""
        return -self.lower_outputs(self.loss.gradient(self.raise_outputs(fitted))) / self.strength

    def constant_dual(self) -> np.ndarray:
        """Return −∇C/μ at the best constant: the dual point that proves it optimal if its h is at most one.

        Its multiples in (0, 1) are strictly inside the domain of the conjugate.
        """
        price = self.strength * self.offset_cost if self.has_offset else 0.0
        at = self.raise_outputs(self.best_constant())
        dual = -self.lower_outputs(self.loss.gradient_at_constant(at, price)) / self.strength
        return dual - dual.mean(axis=0) if self.is_free and not self.loss.is_classification else dual

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
            share = np.where(total > 0, room / np.where(total > 0, total, 1.0), 1.0 / max(len(dual), 1))
            dual = dual - share * dual.sum(axis=0)
        return dual

    def dual_value(self, dual: np.ndarray) -> float:
        """Return the dual objective; feasibility is not checked."""
        square = 0.5 * self.kappa * float(np.square(dual.sum(axis=0)).sum())
        return -self.loss.conjugate_terms(self.slope(dual))[0] / self.strength - square

    def scale_dual(self, dual: np.ndarray, dual_norm: float) -> tuple[np.ndarray, float]:
        """Scale a dual point into feasibility as well as possible.

        Parameters
        ----------
        dual : ndarray of shape (N, k)
            In the domain of the conjugate (see :meth:`project_dual`), which contains every smaller multiple.
        dual_norm : float
            An upper bound on h(Λ).

        Returns
        -------
        (ndarray of shape (N, k), float)
            The best multiple tΛ with t·h ≤ 1 and its dual value, a lower bound on the primal. The value is
            concave in t.
        """
        bend = self.strength * self.kappa * float(np.square(dual.sum(axis=0)).sum())
        scaled = dual * self.loss.best_multiple(
            self.slope(dual), 1.0 / dual_norm if dual_norm > 0 else 2.0, bend
        )
        return scaled, self.dual_value(scaled)

    # ------------------------------------------------------------------ the smooth part of the dual, for Newton steps
    def demand(self, dual: np.ndarray) -> np.ndarray:
        """Return the outputs that Λ demands: ∇C*(−μΛ), the gradient of −C*(−μΛ)/μ in Λ."""
        return self.lower_outputs(self.loss.conjugate_gradient(self.slope(dual)))

    def stiffness(self, dual: np.ndarray) -> np.ndarray | None:
        """Return ∇²(C*(−μΛ)/μ): (N, k), (N, k, k), or None where it is zero."""
        if self.interpolates:
            return None
        curvature = self.strength * self.loss.conjugate_hessian(self.slope(dual))
        if curvature.shape[1] == 1 or self.outputs is None:
            return np.broadcast_to(curvature, dual.shape)
        return np.einsum("cp,ic,cq->ipq", self.outputs, curvature, self.outputs)

    def edges(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return bounds on Λ (N, k), maybe infinite, if its domain is a box with C* smooth up to the edge."""
        bounds = self.loss.box()
        if bounds is None:
            return None
        low, high = (np.broadcast_to(-edge / self.strength, self.dual_shape) for edge in bounds[::-1])
        return low, high

    def reach(self, dual: np.ndarray, step: np.ndarray) -> float:
        """Return the largest t for which Λ + t·step is in the domain, where C* is steep at its edge."""
        return self.loss.step_limit(self.slope(dual), self.slope(step))
