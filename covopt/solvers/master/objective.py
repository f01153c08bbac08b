r"""What the rounds have to know about a problem: its smooth part, seen from the dual, and what its networks cost.

    min over Λ   Φ(Λ) + ½κ‖Λᵀ1‖²   s.t.  ‖Λᵀa(w)‖ ≤ 1 for all neurons w  (Λᵀ1 = 0 with a free offset)

Φ(Λ) = −⟨Λ, Y⟩ for interpolation and C*(−μΛ)/μ for a loss. The master needs −∇Φ, the outputs that Λ asks for; ∇²Φ; and
how far Λ may go. All arrays have two axes: duals (N, k), weights (M, k), offsets (k,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from covopt.problems.regularised import RegularisedProblem, constant_dual
from covopt.problems.shallow import ShallowProblem

PASSES = 0.9e-9  # residual that a certificate allows, nearly: for networks where nothing comes closer


class Objective(ABC):
    """The view of a problem that the rounds take: its smooth part in the dual, and its values.

    Parameters
    ----------
    problem : ShallowProblem or RegularisedProblem
    n_outputs : int
    is_scalar : bool
        Whether the oracle is asked with duals of one axis.
    """

    interpolates = False

    def __init__(self, problem: Any, n_outputs: int, *, is_scalar: bool):
        self.problem, self.rows, self.has_offset = problem, problem.rows, problem.has_offset
        self.n_outputs, self.is_scalar = n_outputs, is_scalar
        self.is_free = problem.offset_cost == 0
        self.kappa = 0.0 if self.is_free else 1.0 / problem.offset_cost
        self.live = problem.rows.any(axis=1)  # the rows that oracles know

    @abstractmethod
    def demand(self, dual: np.ndarray) -> np.ndarray:
        """Return −∇Φ(Λ), shape (N, k)."""

    def stiffness(self, dual: np.ndarray) -> np.ndarray | None:
        """Return ∇²Φ(Λ): (N, k), (N, k, k), or None where it is zero."""
        return None

    def edges(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounds on Λ (N, k), infinite where there is none, if its domain is a box with Φ smooth up to the edge."""
        return None

    def reach(self, dual: np.ndarray, step: np.ndarray) -> float:
        """Largest t for which Λ + t·step is in the domain, where Φ is steep at its edge."""
        return np.inf

    @abstractmethod
    def reached(self, neurons: np.ndarray, weights: np.ndarray, offset: Any) -> float:
        """Return the objective of a network in the problem's own shapes; infinite where it is none."""

    def own(self, values: np.ndarray) -> Any:
        """Return values with an axis for outputs in the problem's own shape."""
        return values

    def asked(self, dual: np.ndarray) -> np.ndarray:
        """Return a dual as the oracle takes it: its rows alone, and one axis for one output."""
        some = dual[self.live]
        return np.ascontiguousarray(some[:, 0]) if self.is_scalar else some

    def project(self, dual: np.ndarray) -> np.ndarray:
        """Return a point of the domain, with Λᵀ1 = 0 for a free offset."""
        return self.problem.project_dual(self.own(dual)).reshape(dual.shape)

    def value(self, dual: np.ndarray) -> float:
        """Return the dual objective, to be maximised."""
        return self.problem.dual_value(self.own(dual))

    def scale(self, dual: np.ndarray, gauge: float) -> tuple[np.ndarray, float]:
        """Return the best feasible multiple of Λ for h(Λ) ≤ gauge, and its value."""
        scaled, value = self.problem.scale_dual(self.own(dual), gauge)
        return scaled.reshape(dual.shape), value


class Interpolation(Objective):
    """The view of a :class:`ShallowProblem`: interpolation is the loss that is zero or infinite.

    Parameters
    ----------
    problem : ShallowProblem
    """

    interpolates = True

    def __init__(self, problem: ShallowProblem):
        self.targets = problem.targets.reshape(len(problem.rows), -1)
        super().__init__(problem, self.targets.shape[1], is_scalar=not problem.is_vector)

    def demand(self, dual):  # noqa: D102
        return self.targets

    def own(self, values):  # noqa: D102
        return np.asarray(values[..., 0], order="C")[()] if self.is_scalar else values

    def reached(self, neurons, weights, offset):  # noqa: D102
        missed = np.abs(self.problem.residual(neurons, weights, offset)).max(initial=0.0)
        passes = missed <= 10.0 * PASSES * np.abs(self.targets).max(initial=0.0)
        return self.problem.primal_value(weights, offset) if passes else np.inf


class Fit(Objective):
    """The view of a :class:`RegularisedProblem`.

    Parameters
    ----------
    problem : RegularisedProblem
    """

    def __init__(self, problem: RegularisedProblem):
        super().__init__(problem, problem.n_outputs, is_scalar=problem.n_outputs == 1)

    def demand(self, dual):  # noqa: D102
        return self.problem.lower_outputs(self.problem.loss.conjugate_gradient(self.problem.slope(dual)))

    def stiffness(self, dual):  # noqa: D102
        problem = self.problem
        curvature = problem.strength * problem.loss.conjugate_hessian(problem.slope(dual))
        if curvature.shape[1] == 1 or problem.outputs is None:
            return np.broadcast_to(curvature, dual.shape)
        return np.einsum("cp,ic,cq->ipq", problem.outputs, curvature, problem.outputs)

    def edges(self):  # noqa: D102
        bounds = self.problem.loss.box()
        if bounds is None:
            return None
        shape = len(self.rows), self.n_outputs
        low, high = (np.broadcast_to(-edge / self.problem.strength, shape) for edge in bounds[::-1])
        return low, high

    def reach(self, dual, step):  # noqa: D102
        return self.problem.loss.step_limit(self.problem.slope(dual), self.problem.slope(step))

    def reached(self, neurons, weights, offset):  # noqa: D102
        return self.problem.primal_value(self.problem.fitted(neurons, weights, offset), weights, offset)

    def first_dual(self) -> np.ndarray:
        """Return the dual of the best constant, projected."""
        return self.problem.project_dual(constant_dual(self.problem))
