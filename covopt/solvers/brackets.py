"""Lower bounds where nothing proves the network optimal that a search has ended with: the best of several valid ones.

- the dual of the search, divided by a bound on its gauge: quadratics over the sphere, branch and bound, signs, and
  quadratics on boxes for as long as there is time;
- where the network interpolates, an optimal dual of fewer points: a Λ supported on a subset S of the rows is a dual
  of all, and its h involves only the arrangement of S, which is chosen small enough for the exact oracle;
- where it is asked for, the dual of the semidefinite relaxation (:mod:`covopt.conic.relaxation`), divided likewise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np

from covopt.conic.relaxation import relaxed_dual
from covopt.errors import BudgetError, SolverError
from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp, limited, now
from covopt.oracles.bounds import choose_subset, gauge_bound, importance, restrict
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.cascade import suits_boxes, suits_signs
from covopt.oracles.choose import exact_oracle
from covopt.oracles.cones.deeper import (
    LEAST_S,
    SEARCH_SHARE,
    TOO_WIDE,
    closed_gauge,
    deep_gauge,
)
from covopt.oracles.support import (
    MOST_DIMENSIONS,
    MOST_QUADRATIC_DIMENSIONS,
    STARTS,
    bound_gauge,
    sign_gauge,
)
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.generation import generate
from covopt.solvers.loop import RoundState
from covopt.solvers.master.objective import Objective
from covopt.solvers.points import Point
from covopt.status import Status

SUBSET_BUDGET = 2e6
SUBSET_BUDGET_VECTOR = 1e5
SUBSET_TOL = 1e-3
FINAL_S, BRIEF_S = 30.0, 2.0  # of branch and bound
CLOSING_SHARE = 0.3  # of the time that is left
IN_TIME, WITHIN = 0.95, 0.9  # of what is left, so that no deadline comes first
LOOK = 0.005  # of the search of boxes or signs, for a first look at what can be proved


class Bracket:
    """The best lower bound for the network that a search has ended with, and the dual that gives it.

    Parameters
    ----------
    view : Objective
    point : Point
        Of the search; it gets the bound.
    began : float
        When the solve began.
    tol : float
    time_limit_s : float, optional
    random_state : int, optional
    callback : callable, optional
        Sees how boxes raise the bound.
    """

    def __init__(
        self,
        view: Objective,
        point: Point,
        *,
        began: float,
        tol: float,
        time_limit_s: float | None,
        random_state: int | None,
        callback: Callable[[RoundState], bool] | None,
    ):
        self.view, self.point, self.began, self.tol = view, point, began, tol
        self.time_limit_s, self.random_state, self.callback = time_limit_s, random_state, callback
        self.rows, self.optimal = view.rows[view.live], point.dual.reshape(len(view.rows), -1)
        self.lower, self._kept = -np.inf, (self.optimal, False)
        self.by_gauge(self.optimal, gauge_bound(self.rows, view.asked(self.optimal)))

    @property
    def left(self) -> float:
        """Seconds."""
        return np.inf if self.time_limit_s is None else max(0.1, self.time_limit_s - (now() - self.began))

    def offer(self, dual: np.ndarray, lower: float, claimed: bool = False) -> None:
        """Keep a feasible dual (N, k) and its value where it is the best so far."""
        if lower > self.lower:
            self.lower, self._kept = lower, (dual, claimed)

    def by_gauge(self, dual: np.ndarray, gauge: float, *, claimed: bool = False) -> None:
        """Offer a dual (N, k) divided by a bound on its gauge."""
        self.offer(*self.view.scale(dual, gauge), claimed)

    def conclude(self) -> Point:
        """Give the point the best bound."""
        dual, self.point.claimed = self._kept
        self.point.dual, self.point.lower_bound = self.view.own(dual), max(self.lower, 0.0)
        if self.point.status is Status.HEURISTIC and self.point.gap <= self.tol:
            self.point.status = Status.CERTIFIED
        return self.point

    # ------------------------------------------------------------------ ways to bound
    def tree(self, most_s: float) -> None:
        """Branch and bound on the search's dual; with several outputs what certificates do."""
        asked = self.view.asked(self.optimal)
        if not self.view.is_scalar:
            self.by_gauge(self.optimal, bound_gauge(self.rows, asked).value)
            return
        tree = BranchAndBoundOracle(
            self.rows, time_limit_s=most_s, random_state=self.random_state, n_starts=STARTS
        )
        self.by_gauge(self.optimal, tree.price(asked, max_neurons=1).upper_bound)

    def subset(self, budget: float | None, time_s: float) -> None:
        """Solve for a few points."""
        dual, lower = subset_bound(self.view.problem, self.point.dual, budget, time_s, self.random_state)
        self.offer(dual.reshape(self.optimal.shape), lower)

    def quadratics(self) -> None:
        """Bound by boxes with quadratics after signs, and with a loss few boxes, have been tried."""
        view, point, left = self.view, self.point, self.left
        asked = view.asked(self.optimal)
        signs = sign_gauge(self.rows, asked, LOOK if point.is_early else 1.0)
        self.by_gauge(self.optimal, signs.value)
        if signs.exact:  # the optimal dual is the best one
            return
        if not view.interpolates and not point.is_early:
            closed = closed_gauge(self.rows, asked, point.neurons, tol=self.tol, time_s=CLOSING_SHARE * left)
            if np.isfinite(closed):
                self.by_gauge(self.optimal, closed, claimed=True)
                return
        limit = np.inf if self.time_limit_s is None else SEARCH_SHARE * self.time_limit_s
        spare = min(limit, WITHIN * self.left)
        if LEAST_S < spare < np.inf:
            deep = deep_gauge(self.rows, asked, point.neurons, time_s=spare, report=self.report)
            self.by_gauge(self.optimal, deep, claimed=True)

    def relaxation(self, most_s: float) -> None:
        """Solve the semidefinite relaxation for a dual point, and bound its dual norm."""
        found = relaxed_dual(
            self.view.problem, weights=importance(self.rows, self.optimal),
            time_limit_s=most_s if np.isfinite(most_s) else None,
        ).reshape(self.optimal.shape)  # fmt: skip
        self.by_gauge(found, bound_gauge(self.rows, self.view.asked(found)).value)

    def report(self, gauge: float, note: str) -> bool:
        """Show the callback a new bound on the gauge of the point's dual, and why it is one; whether to stop."""
        point = self.point
        lower = max(self.view.problem.scale_dual(point.dual, gauge)[1], 0.0)
        columns, gap = (
            point.history[-1].n_columns if point.history else 0,
            relative_gap(point.upper_bound, lower),
        )
        state = RoundState(len(point.history), lower, point.upper_bound, gap, columns, 0.0, note)
        point.history.append(state)
        return self.callback is not None and bool(self.callback(state))

    # ------------------------------------------------------------------ which of them
    def close(self, *, is_brief: bool, only_relaxation: bool, subset_budget: float | None) -> Point:
        """Try what there is time for, and conclude."""
        view, left, rank = self.view, self.left, self.rows.shape[1]
        if rank > MOST_QUADRATIC_DIMENSIONS:
            gauge = gauge_bound(self.rows, view.asked(self.optimal))
            self.report(gauge, TOO_WIDE)
        # beyond a few rows for each dimension quadratics on boxes are what bounds best
        boxes = view.is_scalar and MOST_DIMENSIONS < rank <= MOST_QUADRATIC_DIMENSIONS
        if not view.interpolates:
            if boxes and left > LEAST_S:
                with contextlib.suppress(TimeUp), limited(IN_TIME * left):
                    self.quadratics()
            if not view.is_scalar and suits_signs(*self.rows.shape):  # else it does not end
                with contextlib.suppress(TimeUp), limited(left):
                    self.tree(min(BRIEF_S if is_brief else FINAL_S, left))
            if view.is_scalar and suits_boxes(rank):  # as certificates do
                self.by_gauge(self.optimal, bound_gauge(self.rows, view.asked(self.optimal)).value)
            return self.conclude()
        if only_relaxation:
            with contextlib.suppress(TimeUp, SolverError), limited(left):
                self.relaxation(left / 2)
            return self.conclude()
        if not (boxes and not suits_signs(*self.rows.shape)):
            with contextlib.suppress(TimeUp), limited(left / 2):
                self.tree(min(FINAL_S, left / 3))
            with contextlib.suppress(TimeUp), limited(left / 2):
                self.subset(subset_budget, left / 3)
        if boxes:
            with contextlib.suppress(TimeUp), limited(IN_TIME * self.left):
                self.quadratics()
        return self.conclude()


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
