r"""The shallow problem in the covariances of its hidden layer: a smooth convex function over the cone S (FL22 §3.2).

With atoms a_j = σ(Z w_j) of unit neurons, masses m_j ≥ 0 and K(m) = Σ m_j a_j a_jᵀ, FL22's 𝓛ᵏ for L = 2 is

.. math::
    F(m) = \sum_j m_j + \operatorname{Tr} Y^\top (K(m) + K_0)^{-1} Y, \qquad K_0 = \tau 11^\top + \kappa I,

τ = 1/ρ > 0 for a penalised output bias (FL22's β²11ᵀ), κ = λ for the regularised loss with the SUM of squares
(its outputs are minimised out), both 0 for interpolation without output bias. A free output bias projects atoms and
targets to the complement of the constants. With Λ = (K + K₀)⁻¹ Y,

.. math::
    \partial F / \partial m_j = 1 - \|\Lambda^\top a_j\|^2, \qquad
    F^* = \max_\Lambda \; 2\langle\Lambda, Y\rangle - \operatorname{Tr} \Lambda^\top K_0 \Lambda
    \;\text{ s.t. }\; h(\Lambda) = \max_{\|w\|=1} \|\Lambda^\top \sigma(Z w)\| \le 1,

so the linear minimisation oracle of Frank–Wolfe is the pricing oracle. F* is R₂ for interpolation and
(min C + λ‖W‖²)/λ for the regularised loss, in the units of the rows and targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covopt.exact.rounding import allowance
from covopt.losses import SquaredError
from covopt.problems.regularised import RegularisedProblem
from covopt.problems.shallow import ShallowProblem


@dataclass(frozen=True)
class ConeProblem:
    """Rows, targets and the constant part K₀ of the covariance.

    Attributes
    ----------
    rows : ndarray of shape (N, r)
        Z; zero rows are allowed only with a ridge.
    targets : ndarray of shape (N, k)
    offset : float
        τ = 1/ρ: 0 for no output bias, ``inf`` for a free one.
    ridge : float
        κ ≥ 0.

    Examples
    --------
    >>> problem = ConeProblem(np.array([[1.0], [-1.0]]), np.ones((2, 1)))
    >>> problem.value(problem.atoms(np.array([[1.0], [-1.0]])), np.ones(2))
    4.0
    """

    rows: np.ndarray
    targets: np.ndarray
    offset: float = 0.0
    ridge: float = 0.0

    @classmethod
    def from_shallow(cls, problem: ShallowProblem) -> ConeProblem:
        """Take over an interpolation problem; scalar targets become one column."""
        targets = problem.targets if problem.targets.ndim == 2 else problem.targets[:, None]
        offset = np.inf if problem.offset_cost == 0 else 1.0 / problem.offset_cost
        return cls(problem.rows, targets, offset)

    @cached_property
    def centred(self) -> np.ndarray | None:
        """Orthonormal basis (N, N − 1) of the complement of the constants when the offset is free, else None."""
        if not np.isinf(self.offset):
            return None
        n = len(self.rows)
        return np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]

    @cached_property
    def network_problem(self) -> ShallowProblem | RegularisedProblem:
        """The same problem over networks, of half the value: interpolation, or with a ridge the sum of squares."""
        offset_cost = np.inf if self.offset == 0 else 1.0 / self.offset
        if self.ridge == 0:
            targets = self.targets[:, 0] if self.targets.shape[1] == 1 else self.targets
            return ShallowProblem(self.rows, targets, offset_cost)
        loss = SquaredError(total=True)
        loss.encode_targets(self.targets)
        return RegularisedProblem(self.rows, loss, 2.0 * self.ridge, offset_cost)

    @cached_property
    def inner_targets(self) -> np.ndarray:
        """Y, or its part in the complement of the constants."""
        return self.targets if self.centred is None else self.centred.T @ self.targets

    @cached_property
    def base(self) -> np.ndarray:
        """K₀, of the size of the inner targets."""
        size = len(self.inner_targets)
        constant = self.offset if np.isfinite(self.offset) else 0.0
        return np.full((size, size), constant) + self.ridge * np.eye(size)

    @property
    def is_homogeneous(self) -> bool:
        """Whether K₀ = 0, so that scaling the masses is a closed form."""
        return self.ridge == 0 and (self.offset == 0 or np.isinf(self.offset))

    def atoms(self, neurons: np.ndarray) -> np.ndarray:
        """Return σ(Z w_j), one per ROW, in inner coordinates: shape (m, N) or (m, N − 1)."""
        atoms = np.maximum(neurons @ self.rows.T, 0.0)
        return atoms if self.centred is None else atoms @ self.centred

    def outer_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return an inner Λ on all N rows."""
        return dual if self.centred is None else self.centred @ dual

    def inner_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return a Λ on all N rows, with columns that sum to zero for a free offset, in inner coordinates."""
        return dual if self.centred is None else self.centred.T @ dual

    def covariance(self, atoms: np.ndarray, masses: np.ndarray) -> np.ndarray:
        """K(m) + K₀."""
        return (atoms.T * masses) @ atoms + self.base

    def value(self, atoms: np.ndarray, masses: np.ndarray) -> float:
        """F(m); infinite where K(m) + K₀ is singular to working precision."""
        try:
            dual = np.linalg.solve(self.covariance(atoms, masses), self.inner_targets)
        except np.linalg.LinAlgError:
            return np.inf
        return float(masses.sum() + np.vdot(self.inner_targets, dual))

    def dual_bound(self, dual: np.ndarray, gauge: float) -> tuple[np.ndarray, float]:
        """Scale an inner Λ into h ≤ 1 as well as possible.

        Parameters
        ----------
        dual : ndarray of the inner targets' shape
        gauge : float
            An upper bound on h(Λ).

        Returns
        -------
        (ndarray, float)
            tΛ and its dual value, a lower bound on F*; the rounding error of the sums is taken off.
        """
        linear = float(np.vdot(dual, self.inner_targets))
        if linear <= 0:
            return np.zeros_like(dual), 0.0
        step = 1.0 / gauge if gauge > 0 else np.inf
        quadratic = float(np.vdot(dual, self.base @ dual))
        if quadratic > 0:
            step = min(step, linear / quadratic)
        if not np.isfinite(step):
            return np.zeros_like(dual), 0.0
        terms = 2 * step * float(np.vdot(np.abs(dual), np.abs(self.inner_targets)))
        terms += step**2 * float(np.vdot(np.abs(dual), np.abs(self.base) @ np.abs(dual)))
        error = allowance(2 * len(dual) + 8, terms)
        return step * dual, max(0.0, 2 * step * linear - step**2 * quadratic - error)

    def network_value(
        self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray | None = None
    ) -> tuple[float, float]:
        """Objective of a network of unit neurons with output weights (m, k), and what it misses.

        Returns
        -------
        (float, float)
            2 Σ‖v_j‖ + ‖B‖²/τ (+ ‖residual‖²/κ), and max |residual|.
        """
        shift = np.zeros(self.targets.shape[1]) if offset is None else offset
        residual = self.targets - np.maximum(self.rows @ neurons.T, 0.0) @ weights - shift
        value = 2.0 * float(np.linalg.norm(weights, axis=1).sum())
        if np.isfinite(self.offset) and self.offset > 0:
            value += float(shift @ shift) / self.offset
        if self.ridge > 0:
            value += float((residual**2).sum()) / self.ridge
        return value, float(np.abs(residual).max(initial=0.0))
