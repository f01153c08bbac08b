"""Where a solve begins, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covopt.exact.rounding import relative_gap
from covopt.problems.problem import Problem
from covopt.solvers.loop import RoundState
from covopt.status import Status

NETWORK = "neurons", "weights", "offset", "upper_bound", "finished"
DUAL = "dual", "dual_low", "lower_bound", "claimed", "hoped"


@dataclass(frozen=True)
class WarmStart:
    """Where a solve with a loss ended: columns, their weights, the dual. Nothing in it depends on the units of λ.

    Attributes
    ----------
    neurons : ndarray of shape (M, r)
    weights : ndarray of shape (M, q)
    offset : ndarray of shape (q,)
    dual : ndarray of shape (N, q)
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    dual: np.ndarray


@dataclass
class Point:
    """Best points of a solver, in the units of its problem; every array of outputs has two axes, the offset one."""

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    upper_bound: float
    dual: np.ndarray
    lower_bound: float
    status: Status
    history: list[RoundState] = field(default_factory=list)
    warm: WarmStart | None = None  # where another solve with a loss may start
    finished: bool = False  # the network is merged, and as sparse as it gets
    claimed: bool = False  # quadratics on boxes have shown that no neuron exceeds one at the dual
    hoped: np.ndarray | None = None  # a dual of which a search may prove more than is known of this one
    dual_low: np.ndarray | None = None  # what the multipliers are beside their doubles, where that matters

    @classmethod
    def nothing(cls, problem: Problem, status: Status, **options: Any) -> Point:
        """Return the point that knows nothing: no neuron, no bound but zero where networks have to interpolate."""
        return cls(
            np.zeros((0, problem.rows.shape[1])), np.zeros((0, problem.n_outputs)), np.zeros(problem.n_outputs),
            np.inf, np.zeros(problem.dual_shape), 0.0 if problem.interpolates else -np.inf, status, **options,
        )  # fmt: skip

    @property
    def network(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Neurons, weights and offset."""
        return self.neurons, self.weights, self.offset

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return relative_gap(self.upper_bound, self.lower_bound)

    def merged(self, other: Point) -> Point:
        """Return this point with the network of another one where that is better, and its dual where that is."""
        best = self
        if other.upper_bound < self.upper_bound:
            best = replace(best, **{name: getattr(other, name) for name in NETWORK})
        if other.lower_bound > self.lower_bound or not self.dual.any():  # zeros bound nothing
            best = replace(best, **{name: getattr(other, name) for name in DUAL})
        return best
