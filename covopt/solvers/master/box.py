r"""Constraints |u_j| ≤ e_j of the restricted master: two slacks and two multipliers each.

With signs ± the constraints are e_± ∓ u − s_± = 0, s ≥ 0, with multipliers p_± ≥ 0; column j has weight p₊ − p₋.
Slacks are variables of their own, so that a new column may enter violated and no step has to be taken back. A
Newton step for p∘s = c gives

    δp = b ± (p/s) δu,   b = (c − p∘ρ)/s − p,   δs = ρ ∓ δu,   ρ = e ∓ u − s,

so that a column adds p₊/s₊ + p₋/s₋ times the square of its atom to the normal matrix.
"""

from __future__ import annotations

import numpy as np

from covopt.losses.base import TINY

SIGNS = np.array([[1.0], [-1.0]])
# products of slack and multiplier that Gondzio's correctors leave alone, and what multipliers are lifted to, in goals
LOW, HIGH = 0.1, 10.0


class Box:
    """Slacks and multipliers of |u_j| ≤ 1, or of −e₋ ≤ u_j ≤ e₊, for scalars u_j.

    Parameters
    ----------
    edges : ndarray of shape (2, m), optional
        e₊ and e₋, for constraints that are not columns; without them the box is empty and columns are added.

    Attributes
    ----------
    slack, force : ndarray of shape (2, M)
        s and p.
    """

    def __init__(self, edges: np.ndarray | None = None):
        self.edges = edges
        m = 0 if edges is None else edges.shape[1]
        self.slack, self.force = np.ones((2, m)), np.ones((2, m))

    @property
    def count(self) -> int:
        """Number of products."""
        return self.slack.size

    @property
    def complementarity(self) -> float:
        """Σ p s."""
        return float(np.vdot(self.slack, self.force))

    @property
    def weights(self) -> np.ndarray:
        """p₊ − p₋, shape (M, 1)."""
        return (self.force[0] - self.force[1])[:, None]

    @property
    def sizes(self) -> np.ndarray:
        """The larger multiplier of every column."""
        return self.force.max(axis=0)

    @property
    def tightness(self) -> np.ndarray:
        """Multiplier over slack, where it is largest: above one the column is in use."""
        return (self.force / self.slack).max(axis=0)

    # ------------------------------------------------------------------ columns
    def add(self, u: np.ndarray, level: float, floor: float) -> None:
        """Add columns at heights u (m, 1) with products ``level`` and slacks of at least ``floor``."""
        slack = np.maximum(np.abs(1.0 - SIGNS * u.T), floor)
        self.slack = np.concatenate([self.slack, slack], axis=1)
        self.force = np.concatenate([self.force, level / slack], axis=1)

    def keep(self, kept: np.ndarray) -> None:
        """Leave only the columns that ``kept`` names."""
        self.slack, self.force = self.slack[:, kept], self.force[:, kept]

    def merge(self, first: int, second: int) -> None:
        """Give the multipliers of the second column to the first."""
        self.force[:, first] += self.force[:, second]

    def lift(self, level: float) -> None:
        """Raise multipliers whose products are far below the level."""
        self.force = np.maximum(self.force, LOW * level / self.slack)

    def centre(self, level: float) -> None:
        """Give every multiplier the product ``level``."""
        self.force = np.maximum(level / self.slack, TINY)

    def settle(self, u: np.ndarray) -> None:
        """After heights have changed by themselves: nothing, slacks do not depend on them here."""

    def enter(self, u: np.ndarray) -> None:
        """Take the slacks that heights u (M, 1) inside the box have."""
        limits = 1.0 if self.edges is None else self.edges
        self.slack = np.maximum(limits - SIGNS * u.T, 1e-16)

    # ------------------------------------------------------------------ a Newton step
    def prepare(self, u: np.ndarray) -> None:
        """Prepare steps from heights u (M, 1)."""
        limits = 1.0 if self.edges is None else self.edges
        self._missed = limits - SIGNS * u.T - self.slack
        self._ratio = self.force / self.slack

    def hessian(self) -> tuple[np.ndarray, None]:
        """p₊/s₊ + p₋/s₋, shape (M,)."""
        return self._ratio.sum(axis=0), None

    def push(self, aim: np.ndarray | float, share: float) -> tuple[np.ndarray, np.ndarray]:
        """b₊ − b₋ of shape (M, 1), and b, for a step to products ``aim`` that mends a share of the residuals."""
        b = (aim - share * self.force * self._missed) / self.slack - share * self.force
        return (b[0] - b[1])[:, None], b

    def respond(self, b: np.ndarray, change: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps of multipliers and slacks for heights that change by ``change`` (M, 1)."""
        signed = SIGNS * change.T
        return b + self._ratio * signed, share * self._missed - signed

    def moved_weights(self, step: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Weights after a full step, shape (M, 1)."""
        moved = self.force + step[0]
        return (moved[0] - moved[1])[:, None]

    def longest(self, step: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
        """Longest steps, at most one, that leave multipliers and slacks nonnegative."""
        return _longest(self.force, step[0]), _longest(self.slack, step[1])

    def reached(self, step: tuple[np.ndarray, np.ndarray], primal: float, dual: float) -> float:
        """Σ p s after a step."""
        return float(np.vdot(self.force + primal * step[0], self.slack + dual * step[1]))

    def second_order(self, step: tuple[np.ndarray, np.ndarray], goal: float) -> np.ndarray:
        """Aim of Mehrotra's corrector: the goal less the product of the predictor's steps."""
        return goal - step[0] * step[1]

    def correction(
        self, step: tuple[np.ndarray, np.ndarray], primal: float, dual: float, goal: float
    ) -> np.ndarray:
        """Aim of Gondzio's corrector: products that are far from the goal after a trial step go back towards it."""
        product = (self.force + primal * step[0]) * (self.slack + dual * step[1])
        return np.maximum(np.clip(product, LOW * goal, HIGH * goal) - product, -HIGH * goal)

    def advance(self, step: tuple[np.ndarray, np.ndarray], primal: float, dual: float) -> None:
        """Take a step."""
        self.force = np.maximum(self.force + primal * step[0], TINY)
        self.slack = np.maximum(self.slack + dual * step[1], 1e-16)


def _longest(values: np.ndarray, steps: np.ndarray) -> float:
    steepest = float((steps / values).min(initial=0.0))
    return -1.0 / steepest if steepest < -1.0 else 1.0


def total(parts: tuple, steps: tuple) -> tuple:
    """Add two steps of the same part, array by array."""
    return tuple(first + second for first, second in zip(parts, steps, strict=True))
