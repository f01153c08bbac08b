"""Where a solve with a loss begins, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from covopt.exact.rounding import relative_gap
from covopt.solvers.loop import RoundState
from covopt.status import Status


@dataclass(frozen=True)
class WarmStart:
    """Where a solve ended: columns, their weights, the dual. Nothing in it depends on the units of λ.

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


@dataclass
class FitPoint:
    """Best points of the solver, in the units and shapes of the :class:`RegularisedProblem`.

    ``claimed``: quadratics on boxes have shown that no neuron exceeds one at the dual.
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    upper_bound: float
    dual: np.ndarray
    lower_bound: float
    status: Status
    warm: WarmStart | None = None
    history: list[RoundState] = field(default_factory=list)
    claimed: bool = False
    is_early: bool = False  # whether a first look at what can be proved has ended the rounds

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return relative_gap(self.upper_bound, self.lower_bound)
