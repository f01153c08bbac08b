"""Interpolation by a shallow ReLU network: primal value, dual value, dual scaling.

In the units of this file (rows rank-reduced and scaled, see :mod:`covopt.problems.reduction`)

    primal   min  Σ_j ‖v_j‖ + ½ ρ ‖B‖²    s.t.  Σ_j σ(Z w_j) v_jᵀ + 1 Bᵀ = Y,   ‖w_j‖ = 1,
    dual     max  ⟨Λ, Y⟩ − ‖Λᵀ1‖²/(2ρ)    s.t.  h(Λ) = max_{‖w‖=1} ‖Λᵀ σ(Z w)‖ ≤ 1.

ρ = ∞ is a network without output bias (SP20), ρ = 1/β² a penalised one (FL22), ρ = 0 a free one, where the
dual gains the constraint Λᵀ1 = 0. The squared norm ‖W‖² of the balanced network is twice the primal value.

Scalar problems have targets, duals and weights of shapes (N,), (N,), (m,) and a float B; vector problems (N, k),
(N, k), (m, k) and (k,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

AT_ONCE = 256  # neurons whose atoms are written out at a time


@dataclass(frozen=True)
class ShallowProblem:
    """The interpolation problem; it knows values and scalings and imports no solver.

    Attributes
    ----------
    rows : ndarray of shape (N, r)
        Z, of full column rank, no two rows on one ray, no zero row.
    targets : ndarray of shape (N,) or (N, k)
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

    @property
    def is_vector(self) -> bool:
        """Whether the outputs are vectors: targets of shape (N, k)."""
        return self.targets.ndim == 2

    @property
    def vector_outputs(self) -> int:
        """Return k of a vector problem, 0 of a scalar one."""
        return self.targets.shape[1] if self.targets.ndim == 2 else 0

    @property
    def dual_shape(self) -> tuple[int, int]:
        """Shape of a dual with an axis for outputs."""
        return len(self.rows), max(self.vector_outputs, 1)

    def atoms(self, neurons: np.ndarray) -> np.ndarray:
        """Return σ(Z w_j) as columns, shape (N, m), for neurons of shape (m, r)."""
        return np.maximum(self.rows @ neurons.T, 0.0)

    def residual(
        self, neurons: np.ndarray, weights: np.ndarray, offset: float | np.ndarray = 0.0
    ) -> np.ndarray:
        """Return what the network misses, Y − Σ σ(Z w_j) v_jᵀ − 1Bᵀ, of the targets' shape."""
        missed = self.targets - offset
        for start in range(0, len(neurons), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            missed = missed - self.atoms(neurons[some]) @ weights[some]
        return missed

    def primal_value(self, weights: np.ndarray, offset: float | np.ndarray = 0.0) -> float:
        """Value of the primal for unit neurons with output weights ``weights``."""
        value = float(np.abs(weights).sum()) if weights.ndim == 1 else float(sizes(weights).sum())
        if self.has_offset and self.offset_cost > 0:
            value += 0.5 * self.offset_cost * float(np.sum(np.square(offset)))
        return value

    def project_dual(self, dual: np.ndarray) -> np.ndarray:
        """Move to Λᵀ1 = 0 when the offset is free, keeping zero rows; otherwise return ``dual``."""
        support = dual != 0 if dual.ndim == 1 else dual.any(axis=1)
        if self.offset_cost > 0 or not support.any():
            return dual
        kept = np.zeros_like(dual)
        kept[support] = dual[support] - dual[support].mean(axis=0)
        # equal numbers on the support leave nothing: then the zeros have to move
        return kept if np.abs(kept).max() > 1e-12 * np.abs(dual).max() else dual - dual.mean(axis=0)

    def dual_value(self, dual: np.ndarray) -> float:
        """Value of the dual objective (feasibility is the caller's business)."""
        value = float(np.vdot(dual, self.targets))
        if self.has_offset and self.offset_cost > 0:
            value -= _square(dual.sum(axis=0)) / (2.0 * self.offset_cost)
        return value

    def scale_dual(self, dual: np.ndarray, gauge: float) -> tuple[np.ndarray, float]:
        """Scale a dual point into feasibility as well as possible.

        Parameters
        ----------
        dual : ndarray of shape (N,) or (N, k)
            Any Λ; with a free offset it must already satisfy Λᵀ1 = 0.
        gauge : float
            An upper bound on h(Λ).

        Returns
        -------
        (ndarray of the dual's shape, float)
            The best multiple tΛ with t·gauge ≤ 1 and its dual value, a lower bound on the primal.
        """
        linear = float(np.vdot(dual, self.targets))
        if linear < 0:
            return self.scale_dual(-dual, gauge)
        if linear == 0 or gauge <= 0:
            return np.zeros_like(dual), 0.0
        step = 1.0 / gauge
        if self.has_offset and self.offset_cost > 0:
            quadratic = _square(dual.sum(axis=0)) / self.offset_cost
            if quadratic > 0:
                step = min(step, linear / quadratic)
        scaled = step * dual
        return scaled, self.dual_value(scaled)


def sizes(weights: np.ndarray) -> np.ndarray:
    """|c_j| of scalar output weights (m,), ‖v_j‖ of vector ones (m, k)."""
    return np.abs(weights) if weights.ndim == 1 else np.linalg.norm(weights, axis=1)


def _square(total: float | np.ndarray) -> float:
    return float(np.sum(np.square(total)))
