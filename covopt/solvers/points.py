"""Where a solve begins, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covopt.exact.rounding import relative_gap
from covopt.solvers.loop import RoundState
from covopt.status import Status

NETWORK = "neurons", "weights", "offset", "upper_bound", "finished"
DUAL = "dual", "dual_low", "lower_bound", "claimed"


@dataclass(frozen=True)
class WarmStart:
    """Where a solve with a loss ended: columns, their weights, the dual. Nothing in it depends on the units of λ.

    Attributes
    ----------
    neurons : ndarray of shape (M, r)
    weights : ndarray of shape (M, q)
    masses : ndarray of shape (M,)
    offset : ndarray of shape (q,)
    dual : ndarray of shape (N, q)
    edges : ndarray of shape (2, N·q) or None
        Multipliers of the loss's box.
    feasible : ndarray of shape (N, q) or None
        A dual with h ≤ 1, where a solve on these rows has proved one.
    """

    neurons: np.ndarray
    weights: np.ndarray
    masses: np.ndarray
    offset: np.ndarray
    dual: np.ndarray
    edges: np.ndarray | None = None
    feasible: np.ndarray | None = None

    @classmethod
    def of(cls, neurons: np.ndarray, weights: np.ndarray, offset: Any, dual: np.ndarray) -> WarmStart:
        """Return a start from a network and a dual of any solve, in its shapes."""
        weights = weights[:, None] if weights.ndim == 1 else weights
        sizes = np.linalg.norm(weights, axis=1)
        return cls(neurons, weights, sizes, np.atleast_1d(offset), dual[:, None] if dual.ndim == 1 else dual)


@dataclass
class Point:
    """Best points of a solver, in the units and shapes of its problem, with a loss or without."""

    neurons: np.ndarray
    weights: np.ndarray
    offset: Any  # a float, or an array of shape (k,)
    upper_bound: float
    dual: np.ndarray
    lower_bound: float
    status: Status
    history: list[RoundState] = field(default_factory=list)
    warm: WarmStart | None = None  # where another solve with a loss may start
    finished: bool = False  # the network is merged, and as sparse as it gets
    claimed: bool = False  # quadratics on boxes have shown that no neuron exceeds one at the dual
    dual_low: np.ndarray | None = None  # what the multipliers are beside their doubles, where that matters

    @property
    def network(self) -> tuple[np.ndarray, np.ndarray, Any]:
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
        if other.lower_bound > self.lower_bound:
            best = replace(best, **{name: getattr(other, name) for name in DUAL})
        return best
