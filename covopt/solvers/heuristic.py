"""When the faces are too many: a network by local search, and a lower bound that is valid all the same.

The network comes from column generation whose oracle is a local search, so nothing proves that it is optimal. The
lower bound is the better of two valid ones:

- the dual of that run, divided by a relaxation's upper bound on h(λ);
- an optimal dual of fewer points: a λ supported on a subset S of the rows is a dual of the whole problem, and its
  h involves only the arrangement of S, which is chosen small enough for the exact oracle.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from covopt.oracles.base import Pricing
from covopt.oracles.bounds import choose_subset, gauge_bound, restrict
from covopt.oracles.faces import FaceOracle
from covopt.oracles.local_search import LocalSearchOracle
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration, Point, RoundState
from covopt.status import Status

SUBSET_BUDGET = 2e6
SUBSET_TOL = 1e-3


class _Trusted:
    """Takes the best local maximum for h(λ): good enough to steer by, never reported as a bound."""

    def __init__(self, oracle: LocalSearchOracle):
        self._oracle = oracle

    def price(self, dual: np.ndarray, *, threshold: float = 0.0, max_neurons: int | None = None) -> Pricing:
        found = self._oracle.price(dual, threshold=threshold, max_neurons=max_neurons)
        return dataclasses.replace(found, upper_bound=float(np.abs(found.values).max()))


def solve_heuristic(
    problem: ShallowProblem,
    *,
    tol: float,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callable[[RoundState], bool] | None = None,
    subset_budget: float = SUBSET_BUDGET,
) -> Point:
    """Return a network without proof of optimality, with the best valid lower bound at hand.

    Parameters
    ----------
    problem : ShallowProblem
    tol : float
        Gap at which the local search counts as converged.
    time_limit_s : float, optional
        Three quarters of it are for the network.
    random_state : int, optional
    callback : callable, optional
        Sees upper bounds; the lower bound stays 0 until the end.
    subset_budget : float
        Largest number of faces per pricing in the exact solve on a subset.
    """
    began = time.perf_counter()

    def observe(state: RoundState) -> bool:
        # what the loop calls a lower bound rests on the local search here
        return callback is not None and callback(dataclasses.replace(state, lower_bound=0.0, gap=1.0))

    trusted = _Trusted(LocalSearchOracle(problem.rows, random_state=random_state))
    point = ColumnGeneration(
        problem, trusted, tol=max(tol, 1e-9), random_state=random_state, callback=observe,
        time_limit_s=None if time_limit_s is None else 0.75 * time_limit_s,
    ).solve()  # fmt: skip
    heuristic_dual = point.dual
    dual, lower = problem.scale_dual(heuristic_dual, gauge_bound(problem.rows, heuristic_dual))
    if point.status not in (Status.INTERRUPTED, Status.CALLBACK):
        left = None if time_limit_s is None else max(0.1, time_limit_s - (time.perf_counter() - began))
        other, value = _subset_bound(problem, heuristic_dual, subset_budget, left, random_state)
        if value > lower:
            dual, lower = other, value
        point.status = Status.HEURISTIC
    point.dual, point.lower_bound = dual, lower
    return point


def _subset_bound(
    problem: ShallowProblem,
    dual: np.ndarray,
    budget: float,
    time_limit_s: float | None,
    random_state: int | None,
) -> tuple[np.ndarray, float]:
    """Certified optimal dual of the most important rows, with zeros elsewhere."""
    chosen = choose_subset(problem.rows, dual, budget)
    rows, _ = restrict(problem.rows, chosen)
    part = ShallowProblem(rows, problem.targets[chosen], problem.offset_cost)
    point = ColumnGeneration(
        part, FaceOracle(rows), tol=SUBSET_TOL, time_limit_s=time_limit_s, random_state=random_state
    ).solve()
    full = np.zeros(len(problem.rows))
    full[chosen] = point.dual
    return full, problem.dual_value(full)
