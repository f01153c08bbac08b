"""The tight set: all (cell, sign) pairs where the dual function reaches one. Every minimiser lives there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.oracles.faces import FaceOracle
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.merging import ON_PLANE


@dataclass(frozen=True)
class TightSet:
    """Maximisers of |⟨λ, σ(Z w)⟩|, one per (closed cell, sign), best first.

    Attributes
    ----------
    neurons : ndarray of shape (m, D)
        Unit directions.
    values : ndarray of shape (m,)
        ⟨λ, a(w)⟩, signed, for a λ with h(λ) ≤ 1.
    """

    neurons: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.neurons)

    def within(self, slack: float) -> TightSet:
        """Return those with value at least 1 − slack."""
        keep = np.abs(self.values) >= 1.0 - slack
        return TightSet(self.neurons[keep], self.values[keep])


def tight_set(problem: ShallowProblem, oracle: FaceOracle, dual: np.ndarray, *, slack: float) -> TightSet:
    """Collect the local maxima within ``slack`` of one.

    Parameters
    ----------
    problem : ShallowProblem
    oracle : FaceOracle
    dual : ndarray of shape (N,)
        Feasible.
    slack : float
    """
    pricing = oracle.price(dual, threshold=1.0 - slack, complete=True)
    tight = np.abs(pricing.values) >= 1.0 - slack
    neurons, values = pricing.neurons[tight], pricing.values[tight]
    units = problem.rows / np.linalg.norm(problem.rows, axis=1, keepdims=True)
    side = np.sign(np.where(np.abs(neurons @ units.T) > ON_PLANE, neurons @ units.T, 0.0))
    kept: list[int] = []
    for j in range(len(neurons)):
        # a closed cell has one maximiser per sign: what shares a cell with a better one is not another
        same = [k for k in kept if values[k] * values[j] > 0 and not np.any(side[k] * side[j] < 0)]
        if not same:
            kept.append(j)
    return TightSet(neurons[kept], values[kept])
