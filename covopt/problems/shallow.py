"""Interpolation by a shallow ReLU network with one output: primal value, dual value, dual scaling.

In the units of this file (rows rank-reduced and scaled, see :mod:`covopt.problems.reduction`)

    primal   min  Σ_j |c_j| + ½ ρ B²    s.t.  Σ_j c_j σ(Z w_j) + B·1 = y,   ‖w_j‖ = 1,
    dual     max  ⟨λ, y⟩ − (1ᵀλ)²/(2ρ)  s.t.  h(λ) = max_{‖w‖=1} |⟨λ, σ(Z w)⟩| ≤ 1.

ρ = ∞ is a network without output bias (SP20), ρ = 1/β² a penalised one (FL22), ρ = 0 a free one, where the
dual gains the constraint 1ᵀλ = 0. The squared norm ‖W‖² of the balanced network is twice the primal value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ShallowProblem:
    """The scalar interpolation problem; it knows values and scalings and imports no solver.

    Attributes
    ----------
    rows : ndarray of shape (N, r)
        Z, of full column rank, no two rows on one ray, no zero row.
    targets : ndarray of shape (N,)
    offset_cost : float
        ρ above: ``inf`` (no offset), positive (penalised) or 0 (free).
    """

    rows: np.ndarray
    targets: np.ndarray
    offset_cost: float = np.inf

    @property
    def has_offset(self) -> bool:
        """Whether an offset B exists."""
        return not np.isinf(self.offset_cost)

    def atoms(self, neurons: np.ndarray) -> np.ndarray:
        """Return σ(Z w_j) as columns, shape (N, m), for neurons of shape (m, r)."""
        return np.maximum(self.rows @ neurons.T, 0.0)

    def primal_value(self, weights: np.ndarray, offset: float = 0.0) -> float:
        """Value of the primal for unit neurons with output weights ``weights``."""
        value = float(np.abs(weights).sum())
        return (
            value + 0.5 * self.offset_cost * offset**2 if self.has_offset and self.offset_cost > 0 else value
        )

    def project_dual(self, dual: np.ndarray) -> np.ndarray:
        """Move to 1ᵀλ = 0 when the offset is free, keeping zeros; otherwise return ``dual``."""
        support = dual != 0
        if self.offset_cost > 0 or not support.any():
            return dual
        kept = np.where(support, dual - dual[support].mean(), 0.0)
        # equal numbers on the support leave nothing: then the zeros have to move
        return kept if np.abs(kept).max() > 1e-12 * np.abs(dual).max() else dual - dual.mean()

    def dual_value(self, dual: np.ndarray) -> float:
        """Value of the dual objective (feasibility is the caller's business)."""
        value = float(dual @ self.targets)
        if self.has_offset and self.offset_cost > 0:
            value -= float(dual.sum()) ** 2 / (2.0 * self.offset_cost)
        return value

    def scale_dual(self, dual: np.ndarray, gauge: float) -> tuple[np.ndarray, float]:
        """Scale a dual point into feasibility as well as possible.

        Parameters
        ----------
        dual : ndarray of shape (N,)
            Any λ; with a free offset it must already satisfy 1ᵀλ = 0.
        gauge : float
            An upper bound on h(λ).

        Returns
        -------
        (ndarray of shape (N,), float)
            The best multiple tλ with t·gauge ≤ 1 and its dual value, a lower bound on the primal.
        """
        linear = float(dual @ self.targets)
        if linear < 0:
            return self.scale_dual(-dual, gauge)
        if linear == 0 or gauge <= 0:
            return np.zeros_like(dual), 0.0
        step = 1.0 / gauge
        if self.has_offset and self.offset_cost > 0:
            quadratic = float(dual.sum()) ** 2 / self.offset_cost
            if quadratic > 0:
                step = min(step, linear / quadratic)
        scaled = step * dual
        return scaled, self.dual_value(scaled)
