"""When the faces are too many: column generation by branch and bound, and by local search where that gives up.

While branch and bound ends within its limits all bounds are proofs, as with the oracle of faces. Once it does not,
the local search alone looks for columns and nothing proves that the network is optimal: what is found later may lower
what was believed of a dual, and the lower bound is the best of several valid ones (:mod:`covopt.solvers.brackets`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from covopt.checks.optional import required
from covopt.exact.rounding import relative_gap
from covopt.limits import now
from covopt.oracles.base import Pricing
from covopt.oracles.cascade import suits_signs
from covopt.oracles.steering import Steering
from covopt.oracles.support import MOST_DIMENSIONS, MOST_QUADRATIC_DIMENSIONS, bound_gauge
from covopt.problems.regularised import RegularisedProblem
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.brackets import BRIEF_S, LOOK, Bracket
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.loop import RoundState
from covopt.solvers.master.objective import Fit, Interpolation, Objective
from covopt.solvers.points import Point, WarmStart
from covopt.solvers.regularised.generation import RegularisedGeneration
from covopt.status import Status

PRICING_S = 10.0
NETWORK_SHARE, NETWORK_SHARE_WIDE = 0.75, 0.5  # of the time limit; with a loss bounds by boxes take longer
BELIEVED = 1e-3  # believed gap at which brief rounds look at what can be proved
FAR = 0.1  # the proved gap that ends them then
LAST_STEPS, CLEAN = 30, 1e-8  # of the master, and the complementarity that they are for


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
            rows, asked = self.objective.rows[self.objective.live], self.objective.asked(self.point.dual)
            found = bound_gauge(rows, asked, effort=LOOK)
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
                master.slide()
            if step is not None:
                self._offer_networks(step, due=True)

    def _fresh(self, pricing: Pricing, gap: float) -> np.ndarray:
        """See the base class."""
        fresh = super()._fresh(pricing, gap)
        if self.oracle.trusted:  # restarts from outside the bounds of neurons go astray
            self.correct(fresh)
        return fresh


def observer(oracle: Steering, callback: Callable[[RoundState], bool] | None) -> Callable[[RoundState], bool]:
    """Return a callback for rounds that shows valid bounds: the lower one stays where proofs have left it."""
    proved = 0.0

    def observe(state: RoundState) -> bool:
        nonlocal proved
        if not oracle.trusted:
            proved = max(state.lower_bound, 0.0)
        gap = relative_gap(state.upper_bound, proved) if proved > 0 else 1.0
        return callback is not None and callback(dataclasses.replace(state, lower_bound=proved, gap=gap))

    return observe


def solve_heuristic(
    problem: ShallowProblem | RegularisedProblem,
    *,
    tol: float,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callable[[RoundState], bool] | None = None,
    subset_budget: float | None = None,
    pricing_s: float = PRICING_S,
    only_relaxation: bool = False,
    found: Point | None = None,
    warm: WarmStart | None = None,
    is_brief: bool = False,
) -> Point:
    """Return a network and the best valid lower bound at hand: a proof of optimality where branch and bound ends.

    Parameters
    ----------
    problem : ShallowProblem or RegularisedProblem
        With one output or several, and at least one row that is not zero.
    tol : float
        Gap at which to stop.
    time_limit_s : float, optional
        Three quarters of it are for the network, half with a loss where boxes bound what it ends with.
    random_state : int, optional
    callback : callable, optional
        Sees valid bounds: the lower one stays where branch and bound left it.
    subset_budget : float, optional
        Largest number of faces per pricing in the exact solve on a subset.
    pricing_s : float
        Seconds after which branch and bound gives up for the rest of the run.
    only_relaxation : bool
        No branch and bound and no subset: the lower bound is the semidefinite relaxation's.
    found : Point, optional
        A network and a dual point that another search has ended with: then only the bounds are left to do.
    warm : WarmStart, optional
        Where rounds begin.
    is_brief : bool
        Whether a first look at what can be proved may end rounds with a loss, and shorten what comes after.

    Returns
    -------
    Point
        Status ``CERTIFIED`` (or where the run was stopped) when every bound is a proof, else ``HEURISTIC``.

    Examples
    --------
    >>> point = solve_heuristic(ShallowProblem(np.eye(3), np.array([3.0, 4.0, -6.0])), tol=1e-6)
    >>> point.status.code, round(point.upper_bound, 3)
    ('certified', 11.0)
    >>> from covopt.losses import SquaredError
    >>> loss = SquaredError()
    >>> _ = loss.encode_targets([3.0, 4.0, -6.0])
    >>> point = solve_heuristic(RegularisedProblem(np.eye(3), loss, strength=0.1), tol=1e-6)
    >>> point.status.code, point.gap <= 1e-6
    ('certified', True)
    """
    if only_relaxation:
        required("cvxpy", "the solver 'relaxation'", "conic")
    began = now()
    if time_limit_s is not None:
        pricing_s = min(pricing_s, 0.1 * time_limit_s)
    pricing_s = min(pricing_s, BRIEF_S) if is_brief else pricing_s
    view: Objective = Interpolation(problem) if isinstance(problem, ShallowProblem) else Fit(problem)
    rows = view.rows[view.live]
    oracle = Steering(
        rows, n_outputs=0 if view.is_scalar else view.n_outputs, time_limit_s=pricing_s, random_state=random_state,
        trusted=only_relaxation or not suits_signs(*rows.shape), tol=tol,
    )  # fmt: skip
    wide = view.is_scalar and MOST_DIMENSIONS < rows.shape[1] <= MOST_QUADRATIC_DIMENSIONS
    share = NETWORK_SHARE_WIDE if wide and not view.interpolates else NETWORK_SHARE
    options: dict[str, Any] = {
        "tol": max(tol, 1e-9), "random_state": random_state, "callback": observer(oracle, callback),
        "time_limit_s": None if time_limit_s is None else share * time_limit_s,
    }  # fmt: skip
    if found is not None and found.dual.any():
        point, oracle.trusted = found, True
    elif isinstance(problem, ShallowProblem):
        point = ColumnGeneration(problem, oracle, warm=warm, **options).solve()
    else:
        point = BelievingGeneration(problem, oracle, warm=warm, is_brief=is_brief, **options).solve()
    if not oracle.trusted:
        return point
    if point.warm is not None:  # nothing is proved of the dual
        point.warm = dataclasses.replace(point.warm, feasible=None)
    known = Bracket(
        view, point, began=began, tol=tol, time_limit_s=time_limit_s, random_state=random_state, callback=callback
    )  # fmt: skip
    if point.status in (Status.INTERRUPTED, Status.CALLBACK):
        return known.conclude()
    point.status = Status.HEURISTIC
    return known.close(is_brief=is_brief, only_relaxation=only_relaxation, subset_budget=subset_budget)
