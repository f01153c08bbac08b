r"""What the master has to know about a problem: its smooth part, seen from the dual.

    min over Λ   Φ(Λ) + ½κ‖Λᵀ1‖²   s.t.  ‖Λᵀa(w)‖ ≤ 1 for all neurons w  (Λᵀ1 = 0 with a free offset)

Φ(Λ) = −⟨Λ, Y⟩ for interpolation and C*(−μΛ)/μ for a loss. The master needs −∇Φ, the outputs that Λ asks for; ∇²Φ; and
how far Λ may go. All arrays have two axes: duals (N, k), weights (M, k), offsets (k,).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from covopt.problems.regularised import RegularisedProblem, constant_dual
from covopt.problems.shallow import ShallowProblem


class Objective(Protocol):
    """Smooth part of a problem in the dual, and its values."""

    rows: np.ndarray
    n_outputs: int
    kappa: float
    is_free: bool
    interpolates: bool

    def demand(self, dual: np.ndarray) -> np.ndarray:
        """Return −∇Φ(Λ), shape (N, k)."""
        ...

    def stiffness(self, dual: np.ndarray) -> np.ndarray | None:
        """Return ∇²Φ(Λ): (N, k), (N, k, k), or None where it is zero."""
        ...

    def edges(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounds on Λ (N, k), infinite where there is none, if its domain is a box with Φ smooth up to the edge."""
        ...

    def reach(self, dual: np.ndarray, step: np.ndarray) -> float:
        """Largest t for which Λ + t·step is in the domain, where Φ is steep at its edge."""
        ...

    def project(self, dual: np.ndarray) -> np.ndarray:
        """Return a point of the domain, with Λᵀ1 = 0 for a free offset."""
        ...

    def value(self, dual: np.ndarray) -> float:
        """Return the dual objective, to be maximised."""
        ...

    def scale(self, dual: np.ndarray, gauge: float) -> tuple[np.ndarray, float]:
        """Return the best feasible multiple of Λ for h(Λ) ≤ gauge, and its value."""
        ...

    def cost(self, weights: np.ndarray, offset: np.ndarray) -> float:
        """Return what a network of unit neurons costs, without its loss."""
        ...


class Interpolation:
    """The view of a :class:`ShallowProblem` that the master takes.

    Parameters
    ----------
    problem : ShallowProblem
    """

    interpolates = True

    def __init__(self, problem: ShallowProblem):
        self.problem, self.rows = problem, problem.rows
        self.targets = problem.targets.reshape(len(problem.rows), -1)
        self.n_outputs = self.targets.shape[1]
        self.is_free = problem.offset_cost == 0
        self.kappa = 1.0 / problem.offset_cost if problem.offset_cost > 0 else 0.0
        self.has_offset = problem.has_offset

    def _own(self, dual: np.ndarray) -> np.ndarray:
        return dual if self.problem.is_vector else dual[:, 0]

    def demand(self, dual):  # noqa: D102
        return self.targets

    def stiffness(self, dual):  # noqa: D102
        return None

    def edges(self):  # noqa: D102
        return None

    def reach(self, dual, step):  # noqa: D102
        return np.inf

    def project(self, dual):  # noqa: D102
        return self.problem.project_dual(self._own(dual)).reshape(dual.shape)

    def value(self, dual):  # noqa: D102
        return self.problem.dual_value(self._own(dual))

    def scale(self, dual, gauge):  # noqa: D102
        scaled, value = self.problem.scale_dual(self._own(dual), gauge)
        return scaled.reshape(dual.shape), value

    def cost(self, weights, offset):  # noqa: D102
        return self.problem.primal_value(weights, offset)


class Fit:
    """The view of a :class:`RegularisedProblem` that the master takes.

    Parameters
    ----------
    problem : RegularisedProblem
    """

    interpolates = False

    def __init__(self, problem: RegularisedProblem):
        self.problem, self.rows = problem, problem.rows
        self.n_outputs, self.kappa, self.is_free = problem.n_outputs, problem.kappa, problem.is_free
        self.has_offset = problem.has_offset

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

    def project(self, dual):  # noqa: D102
        return self.problem.project_dual(dual)

    def value(self, dual):  # noqa: D102
        return self.problem.dual_value(dual)

    def scale(self, dual, gauge):  # noqa: D102
        return self.problem.scale_dual(dual, gauge)

    def cost(self, weights, offset):  # noqa: D102
        return self.problem.network_value(weights, offset)

    def first_dual(self) -> np.ndarray:
        """Return the dual of the best constant, projected."""
        return self.problem.project_dual(constant_dual(self.problem))
