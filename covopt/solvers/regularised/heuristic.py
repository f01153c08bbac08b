"""A loss where the faces are too many: branch and bound, and local search where that gives up.

As in :mod:`covopt.solvers.heuristic`: while branch and bound ends within its limits all bounds are proofs; from then
on the local search alone looks for columns, every network is still an upper bound, and the lower bound is that of the
last dual divided by a proved bound on h(Λ).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp, limited, now
from covopt.oracles.base import Pricing
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.support import (
    MOST_DIMENSIONS,
    MOST_QUADRATIC_DIMENSIONS,
    PATIENCE,
    STARTS,
    bound_gauge,
    sign_gauge,
)
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.column_generation import RoundState
from covopt.solvers.deeper import (
    LEAST_S,
    SEARCH_SHARE,
    TOO_WIDE,
    boxes_in_time,
    closed_gauge,
    deep_gauge,
    reporter,
)
from covopt.solvers.heuristic import FINAL_S, PRICING_S, Steering
from covopt.solvers.master.objective import Fit
from covopt.solvers.partition import BOXES, MOST_BOXES, PARTITION_SHARE, for_a_cover, towards_provable
from covopt.solvers.regularised.generation import RegularisedGeneration
from covopt.solvers.regularised.points import FitPoint, WarmStart
from covopt.status import Status

CLOSING_SHARE = 0.3  # of the time that is left
NETWORK_SHARE, NETWORK_SHARE_WIDE = 0.75, 0.5  # of the time limit; beyond eight dimensions bounds take longer
IN_TIME = 0.95  # of what is left, so that the solver's own deadline does not come first
PARTITION_S = 10.0  # seconds that have to be left for a search of a better dual
BELIEVED = 1e-3  # believed gap at which brief rounds look at what can be proved
LOOK, FAR = 0.005, 0.1  # of the search of boxes, for that, and the proved gap that ends the rounds
LAST_STEPS, CLEAN = 30, 1e-8  # of the master, and the complementarity that they are for
BRIEF_S = 2.0  # of branch and bound with several outputs


class BelievingGeneration(RegularisedGeneration):
    """Rounds whose oracle may miss neurons: one that is found later lowers what was believed of the dual kept.

    Parameters
    ----------
    problem : RegularisedProblem
    oracle : Steering
    is_brief : bool
        Whether to end where the believed gap is small and a first look leaves the proved one large: the network
        hardly gets better then, and no proof waits for its last digits.
    **options
        Of :class:`RegularisedGeneration`.
    """

    oracle: Steering

    def __init__(
        self, problem: RegularisedProblem, oracle: Steering, *, is_brief: bool = False, **options: Any
    ):
        super().__init__(problem, oracle, **options)
        self._looks = is_brief

    def should_stop(self) -> bool:
        """See the base class."""
        ended = super().should_stop()
        if not ended and self._looks and self.oracle.trusted and self.point.gap <= BELIEVED:
            self._looks = False
            asked = np.ascontiguousarray(self.point.dual[self.live])
            asked = asked[:, 0] if asked.shape[1] == 1 else asked
            found = bound_gauge(self.problem.rows[self.live], asked, budget=LOOK * DEFAULT_FACE_BUDGET)
            proved = self.problem.scale_dual(self.point.dual, found.value)[1]
            self.point.is_early = relative_gap(self.point.upper_bound, max(proved, 0.0)) > FAR
        return ended or self.point.is_early

    def _finish(self) -> None:
        """Solve the last restricted problem where the rounds ended early: fewer neurons, at a lower objective."""
        super()._finish()
        master, step = self.master, None
        if not self.point.is_early:
            return
        with contextlib.suppress(LinAlgError):
            for _ in range(LAST_STEPS):
                if master.complementarity <= CLEAN * self._scale() or self._is_late():
                    break
                step = master.step(CLEAN, self._scale(), with_networks=True)
                master.columns.slide(master.dual)
                master.cones.settle(master.heights)
            if step is not None:
                self._offer_networks(step, due=True)

    def _fresh(self, pricing: Pricing, gap: float) -> np.ndarray:
        """See the base class."""
        fresh = super()._fresh(pricing, gap)
        if self.oracle.trusted and len(fresh) and self.point.dual.any():
            self.correct(fresh)
        return fresh

    def correct(self, neurons: np.ndarray) -> None:
        """Scale the dual that is kept where neurons exceed one: restarts from outside their bounds go astray.

        Parameters
        ----------
        neurons : ndarray of shape (m, r)
        """
        point = self.point
        highest = float(np.linalg.norm(self.problem.atoms(neurons).T @ point.dual, axis=1).max())
        if highest > 1.0:
            point.dual, value = self.problem.scale_dual(point.dual, highest)
            point.lower_bound = max(value, 0.0)


def solve_heuristic_fit(
    problem: RegularisedProblem,
    *,
    tol: float,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callable[[RoundState], bool] | None = None,
    warm: WarmStart | None = None,
    pricing_s: float = PRICING_S,
    is_brief: bool = False,
) -> FitPoint:
    """Return a network and a valid lower bound: a proof of optimality where branch and bound ends.

    Parameters
    ----------
    problem : RegularisedProblem
        With at least one row that is not zero.
    tol : float
        Gap at which to stop.
    time_limit_s : float, optional
        Three quarters of it are for the network, half where boxes bound what it ends with.
    random_state : int, optional
    callback : callable, optional
        Sees valid bounds: the lower one stays where branch and bound left it.
    warm : WarmStart, optional
    pricing_s : float
        Seconds after which branch and bound gives up for the rest of the run.
    is_brief : bool
        Whether a first look at what can be proved may end the rounds, and shorten what comes after.

    Returns
    -------
    FitPoint
        Status ``CERTIFIED`` (or where the run was stopped) when every bound is a proof, else ``HEURISTIC``.

    Examples
    --------
    >>> from covopt.losses import SquaredError
    >>> loss = SquaredError()
    >>> _ = loss.encode_targets([3.0, 4.0, -6.0])
    >>> problem = RegularisedProblem(np.eye(3), loss, strength=0.1)
    >>> point = solve_heuristic_fit(problem, tol=1e-6)
    >>> point.status.code, point.gap <= 1e-6
    ('certified', True)
    """
    began = now()
    live = problem.rows.any(axis=1)
    rows = problem.rows[live]
    if time_limit_s is not None:
        pricing_s = min(pricing_s, 0.1 * time_limit_s)
    pricing_s = min(pricing_s, BRIEF_S) if is_brief else pricing_s
    outputs = 0 if problem.n_outputs == 1 else problem.n_outputs
    oracle = Steering(
        rows, n_outputs=outputs, time_limit_s=pricing_s, random_state=random_state, tol=tol
    )  # fmt: skip
    by_boxes = not outputs and MOST_DIMENSIONS < rows.shape[1] <= MOST_QUADRATIC_DIMENSIONS
    share = NETWORK_SHARE_WIDE if by_boxes else NETWORK_SHARE
    point = BelievingGeneration(
        problem, oracle, tol=max(tol, 1e-9), random_state=random_state, callback=oracle.observer(callback), warm=warm,
        time_limit_s=None if time_limit_s is None else share * time_limit_s, is_brief=is_brief,
    ).solve()  # fmt: skip
    if not oracle.trusted:
        return point
    if point.warm is not None:  # nothing is proved of the dual
        point.warm = replace(point.warm, feasible=None)
    stopped = point.status in (Status.INTERRUPTED, Status.CALLBACK)
    left = np.inf if time_limit_s is None else max(0.1, time_limit_s - (now() - began))
    asked = np.ascontiguousarray(point.dual[live, 0] if problem.n_outputs == 1 else point.dual[live])
    gauge = gauge_bound(rows, asked)
    if not stopped:
        point.status = Status.HEURISTIC
        if rows.shape[1] > MOST_QUADRATIC_DIMENSIONS:
            reporter(problem, point, callback)(gauge, TOO_WIDE)
        if by_boxes and not problem.is_free and left > PARTITION_S:
            optimal = point.dual
            try:  # the network stays, however late a bound is
                with limited(IN_TIME * left):
                    gauge = _bounded(problem, point, tol, time_limit_s, left, callback)
            except TimeUp:
                point.dual, point.claimed = optimal, False
            asked = np.ascontiguousarray(point.dual[live, 0])
        if outputs:
            tree = BranchAndBoundOracle(
                rows,
                time_limit_s=min(BRIEF_S if is_brief else FINAL_S, left),
                random_state=random_state,
                n_starts=STARTS,
            )
            with contextlib.suppress(TimeUp), limited(left):
                gauge = min(gauge, tree.price(asked, max_neurons=1).upper_bound)
    point.dual, point.lower_bound = problem.scale_dual(point.dual, gauge)
    point.lower_bound = max(point.lower_bound, 0.0)
    return point


def _bounded(
    problem: RegularisedProblem,
    point: FitPoint,
    tol: float,
    time_limit_s: float | None,
    left: float,
    callback: Callable[[RoundState], bool] | None,
) -> float:
    """Bound the gauge of a dual that boxes may prove, which the point gets, or of its own where signs end."""
    began, live = now(), np.asarray(problem.rows.any(axis=1))
    rows = problem.rows[live]
    asked = np.ascontiguousarray(point.dual[live, 0])
    signs = sign_gauge(rows, asked, LOOK * PATIENCE if point.is_early else PATIENCE)
    if signs.exact:  # the optimal dual is the best one
        return signs.value
    if not point.is_early:
        closed = closed_gauge(rows, asked, point.neurons, tol=tol, time_s=CLOSING_SHARE * left)
        if np.isfinite(closed):
            point.claimed = True
            return closed
    if point.is_early:
        moved = for_a_cover(Fit(problem), point.dual, point.neurons, boxes=0, time_s=PARTITION_SHARE * left)
    else:
        moved = towards_provable(
            Fit(problem), point.dual, point.neurons, boxes=BOXES if time_limit_s is None else MOST_BOXES,
            search_boxes=boxes_in_time(len(rows), rows.shape[1], time_limit_s), time_s=PARTITION_SHARE * left,
            n_threads=2,
        )  # fmt: skip
    asked = np.ascontiguousarray(moved[live, 0])
    point.dual, gauge = moved, gauge_bound(rows, asked)
    if time_limit_s is None:
        return gauge
    spare = min(SEARCH_SHARE * time_limit_s, IN_TIME * left - (now() - began))
    if spare <= LEAST_S:
        return gauge
    deep = deep_gauge(
        rows, asked, point.neurons, time_s=0.9 * spare, report=reporter(problem, point, callback)
    )
    point.claimed = deep < gauge
    return min(gauge, deep)
