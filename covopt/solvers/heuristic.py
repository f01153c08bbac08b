"""When the faces are too many: column generation by branch and bound, and by local search where that gives up.

While branch and bound ends within its limits all bounds are proofs, as with the oracle of faces. Once it does not,
the local search alone looks for columns and nothing proves that the network is optimal. The lower bound is then
the best of several valid ones:

- the dual of that run, divided by the bound on h(Λ) that branch and bound reached, or by a relaxation's;
- an optimal dual of fewer points: a Λ supported on a subset S of the rows is a dual of the whole problem, and its
  h involves only the arrangement of S, which is chosen small enough for the exact oracle;
- the dual of the semidefinite relaxation (:mod:`covopt.solvers.relaxation`), with its proof.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

import numpy as np

from covopt.errors import BudgetError
from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp, limited, now
from covopt.oracles.base import Pricing
from covopt.oracles.bounds import choose_subset, gauge_bound, restrict
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.choose import exact_oracle
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.support import FEW_ROWS, MOST_DIMENSIONS, MOST_QUADRATIC_DIMENSIONS, STARTS, tree_limit
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import Point, RoundState, generate
from covopt.solvers.deeper import LEAST_S, SEARCH_SHARE, TOO_WIDE, boxes_in_time, deep_gauge, reporter
from covopt.solvers.master.objective import Interpolation
from covopt.solvers.partition import MOST_BOXES, PARTITION_SHARE, towards_provable
from covopt.solvers.relaxation import bracket
from covopt.status import Status

SUBSET_BUDGET = 2e6
SUBSET_BUDGET_VECTOR = 1e5
SUBSET_TOL = 1e-3
SLACK = 0.1
CLOSE = 0.3  # of the tolerance, what a bound may leave
PRICING_S = 10.0
FINAL_S = 30.0
RELAXATION_S = 30.0
RELAXATION_TOL = 1e-3  # gap at which the relaxation stops splitting


class Steering:
    """Branch and bound until it fails to end in its limits; from then on the best local maximum passes for h.

    ``trusted`` tells the two phases apart: what is computed from the second is never reported as a bound.
    """

    def __init__(
        self,
        rows: np.ndarray,
        *,
        n_outputs: int,
        time_limit_s: float,
        random_state: int | None,
        trusted: bool = False,
        tol: float = 0.0,
    ):
        self._enough, self._proven = CLOSE * tol, 0.0
        self._tree = BranchAndBoundOracle(
            rows, node_limit=tree_limit(len(rows), rows.shape[1], n_outputs), time_limit_s=time_limit_s, slack=SLACK,
            n_starts=2 * STARTS, random_state=random_state,
        )  # fmt: skip
        self._local = LocalSearchOracle(rows, random_state=random_state)
        self.trusted = trusted

    def observer(self, callback: Callable[[RoundState], bool] | None) -> Callable[[RoundState], bool]:
        """Return a callback for rounds that shows valid bounds: the lower one stays where proofs have left it."""

        def observe(state: RoundState) -> bool:
            if not self.trusted:
                self._proven = max(state.lower_bound, 0.0)
            gap = relative_gap(state.upper_bound, self._proven) if self._proven > 0 else 1.0
            return callback is not None and callback(
                dataclasses.replace(state, lower_bound=self._proven, gap=gap)
            )

        return observe

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Price exactly where that ends; otherwise return the best local maximum, which bounds nothing."""
        if not self.trusted:
            found = self._tree.price(dual, threshold=threshold, max_neurons=max_neurons, complete=complete)
            if self._tree.interrupted:
                raise KeyboardInterrupt
            best = float(np.abs(found.values).max())
            if found.exact or found.upper_bound <= best + max(1.01 * SLACK * (best - 1.0), self._enough):
                return found
            self.trusted = True
            self._local.warm = self._tree.local.warm
        return self._local.search_on(dual, threshold=threshold, max_neurons=max_neurons)


def solve_heuristic(
    problem: ShallowProblem,
    *,
    tol: float,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callable[[RoundState], bool] | None = None,
    subset_budget: float | None = None,
    pricing_s: float = PRICING_S,
    only_relaxation: bool = False,
    found: Point | None = None,
) -> Point:
    """Return a network and the best valid lower bound at hand: a proof of optimality where branch and bound ends.

    Parameters
    ----------
    problem : ShallowProblem
        With one output or several.
    tol : float
        Gap at which to stop.
    time_limit_s : float, optional
        Three quarters of it are for the network.
    random_state : int, optional
    callback : callable, optional
        Sees valid bounds: the lower one stays where branch and bound left it.
    subset_budget : float, optional
        Largest number of faces per pricing in the exact solve on a subset.
    pricing_s : float
        Seconds after which branch and bound gives up for the rest of the run.
    found : Point, optional
        A network and a dual point that another search has ended with: then only the bounds are left to do.
    only_relaxation : bool
        No branch and bound and no subset: the lower bound is the semidefinite relaxation's.

    Returns
    -------
    Point
        Status ``CERTIFIED`` (or where the run was stopped) when every bound is a proof, else ``HEURISTIC``.

    Examples
    --------
    >>> point = solve_heuristic(ShallowProblem(np.eye(3), np.array([3.0, 4.0, -6.0])), tol=1e-6)
    >>> point.status.code, round(point.upper_bound, 3)
    ('certified', 11.0)
    """
    began = now()
    if time_limit_s is not None:
        pricing_s = min(pricing_s, 0.1 * time_limit_s)
    oracle = Steering(
        problem.rows, n_outputs=problem.vector_outputs, time_limit_s=pricing_s, random_state=random_state,
        trusted=only_relaxation, tol=tol,
    )  # fmt: skip
    if found is None:
        point = generate(
            problem, oracle, tol=max(tol, 1e-9), random_state=random_state, callback=oracle.observer(callback),
            time_limit_s=None if time_limit_s is None else 0.75 * time_limit_s,
        )  # fmt: skip
    else:
        point, oracle.trusted = found, True
    if not oracle.trusted:
        return point
    stopped = point.status in (Status.INTERRUPTED, Status.CALLBACK)
    left = np.inf if time_limit_s is None else max(0.1, time_limit_s - (now() - began))
    optimal = point.dual
    dual, lower = problem.scale_dual(point.dual, gauge_bound(problem.rows, point.dual))
    bounds: list[Callable[[], tuple[np.ndarray, float]]] = []
    # beyond a few rows for each dimension quadratics on boxes are what bounds best
    quadratics = _is_for_quadratics(problem) and not only_relaxation
    if not stopped and not only_relaxation and not (quadratics and _has_many_rows(problem)):
        tree = BranchAndBoundOracle(
            problem.rows, time_limit_s=min(FINAL_S, left / 3), random_state=random_state, n_starts=STARTS
        )
        bounds = [
            lambda: problem.scale_dual(point.dual, tree.price(point.dual, max_neurons=1).upper_bound),
            lambda: subset_bound(problem, point.dual, subset_budget, left / 3, random_state),
        ]
    for bound in bounds:
        with contextlib.suppress(TimeUp), limited(left / 2):
            candidate = bound()
            if candidate[1] > lower:
                dual, lower = candidate
    if not stopped:
        point.status = Status.HEURISTIC
        if problem.rows.shape[1] > MOST_QUADRATIC_DIMENSIONS:
            reporter(problem, point, callback)(gauge_bound(problem.rows, point.dual), TOO_WIDE)
        if quadratics and time_limit_s is not None:
            spare = min(SEARCH_SHARE * time_limit_s, time_limit_s - (now() - began))
            if spare > LEAST_S:
                if problem.offset_cost > 0:
                    point.dual = towards_provable(
                        Interpolation(problem), point.dual[:, None], point.neurons, boxes=MOST_BOXES, n_threads=2,
                        time_s=PARTITION_SHARE * spare,
                        search_boxes=boxes_in_time(len(problem.rows), problem.rows.shape[1], time_limit_s),
                    )[:, 0]  # fmt: skip
                spare = min(spare, time_limit_s - (now() - began))
                report = reporter(problem, point, callback)
                deep = deep_gauge(problem.rows, point.dual, point.neurons, time_s=spare, report=report)
                candidate = problem.scale_dual(point.dual, deep)
                if candidate[1] > lower:
                    dual, lower, point.claimed = *candidate, True
        left = np.inf if time_limit_s is None else max(0.1, time_limit_s - (now() - began))
        with contextlib.suppress(TimeUp), limited(left):
            relaxed = bracket(
                problem, dual=optimal, upper_bound=point.upper_bound, tol=max(tol, RELAXATION_TOL),
                time_limit_s=min(RELAXATION_S, left if only_relaxation else left / 3),
            )  # fmt: skip
            if relaxed.lower_bound > lower:
                dual, lower, point.proof = relaxed.dual, relaxed.lower_bound, relaxed.certificate
                point.claimed = False
    point.dual, point.lower_bound = dual, lower
    return point


def _has_many_rows(problem: ShallowProblem) -> bool:
    return len(problem.rows) > FEW_ROWS * problem.rows.shape[1]


def _is_for_quadratics(problem: ShallowProblem) -> bool:
    return not problem.is_vector and MOST_DIMENSIONS < problem.rows.shape[1] <= MOST_QUADRATIC_DIMENSIONS


def subset_bound(
    problem: ShallowProblem,
    dual: np.ndarray,
    budget: float | None,
    time_limit_s: float,
    random_state: int | None,
) -> tuple[np.ndarray, float]:
    """Certified optimal dual of the most important rows, with zeros elsewhere."""
    if budget is None:
        budget = SUBSET_BUDGET_VECTOR if problem.is_vector else SUBSET_BUDGET
    chosen = choose_subset(problem.rows, dual, budget)
    rows, _ = restrict(problem.rows, chosen)
    part = ShallowProblem(rows, problem.targets[chosen], problem.offset_cost)
    full = np.zeros_like(dual)
    try:
        oracle = exact_oracle(rows, dual.shape[1] if problem.is_vector else 0)
    except BudgetError:
        return full, 0.0
    point = generate(
        part, oracle, tol=SUBSET_TOL, random_state=random_state,
        time_limit_s=time_limit_s if np.isfinite(time_limit_s) else None,
    )  # fmt: skip
    full[chosen] = point.dual
    return full, problem.dual_value(full)
