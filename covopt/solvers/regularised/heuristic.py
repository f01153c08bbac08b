"""A loss where the faces are too many: branch and bound, and local search where that gives up.

As in :mod:`covopt.solvers.heuristic`: while branch and bound ends within its limits all bounds are proofs; from then
on the local search alone looks for columns, every network is still an upper bound, and the lower bound is that of the
last dual divided by a proved bound on h(Λ).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np

from covopt.limits import TimeUp, limited, now
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.support import MOST_DIMENSIONS, MOST_QUADRATIC_DIMENSIONS, STARTS
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.column_generation import RoundState
from covopt.solvers.deeper import LEAST_S, SEARCH_SHARE, deep_gauge, reporter
from covopt.solvers.heuristic import FINAL_S, PRICING_S, Steering
from covopt.solvers.regularised.generation import RegularisedGeneration
from covopt.solvers.regularised.partition import towards_provable
from covopt.solvers.regularised.points import FitPoint, WarmStart
from covopt.status import Status

PARTITION_S = 10.0  # seconds that have to be left for a search of a better dual


def solve_heuristic_fit(
    problem: RegularisedProblem,
    *,
    tol: float,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callable[[RoundState], bool] | None = None,
    warm: WarmStart | None = None,
    pricing_s: float = PRICING_S,
) -> FitPoint:
    """Return a network and a valid lower bound: a proof of optimality where branch and bound ends.

    Parameters
    ----------
    problem : RegularisedProblem
        With at least one row that is not zero.
    tol : float
        Gap at which to stop.
    time_limit_s : float, optional
        Three quarters of it are for the network.
    random_state : int, optional
    callback : callable, optional
        Sees valid bounds: the lower one stays where branch and bound left it.
    warm : WarmStart, optional
    pricing_s : float
        Seconds after which branch and bound gives up for the rest of the run.

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
    outputs = 0 if problem.n_outputs == 1 else problem.n_outputs
    oracle = Steering(
        rows, n_outputs=outputs, time_limit_s=pricing_s, random_state=random_state, tol=tol
    )  # fmt: skip
    point = RegularisedGeneration(
        problem, oracle, tol=max(tol, 1e-9), random_state=random_state, callback=oracle.observer(callback), warm=warm,
        time_limit_s=None if time_limit_s is None else 0.75 * time_limit_s,
    ).solve()  # fmt: skip
    if not oracle.trusted:
        return point
    stopped = point.status in (Status.INTERRUPTED, Status.CALLBACK)
    left = np.inf if time_limit_s is None else max(0.1, time_limit_s - (now() - began))
    asked = np.ascontiguousarray(point.dual[live, 0] if problem.n_outputs == 1 else point.dual[live])
    gauge = gauge_bound(rows, asked)
    if not stopped:
        point.status = Status.HEURISTIC
        if (
            not outputs
            and not problem.is_free
            and MOST_DIMENSIONS < rows.shape[1] <= MOST_QUADRATIC_DIMENSIONS
            and left > PARTITION_S
        ):
            began = now()
            point.dual = towards_provable(problem, point.dual, point.neurons)
            asked = np.ascontiguousarray(point.dual[live, 0])
            gauge = gauge_bound(rows, asked)
            if time_limit_s is not None:
                spare = min(SEARCH_SHARE * time_limit_s, left - (now() - began))
                if spare > LEAST_S:
                    report = reporter(problem, point, callback)
                    deep = deep_gauge(rows, asked, point.neurons, time_s=spare, report=report)
                    if deep < gauge:
                        gauge, point.claimed = deep, True
        if outputs:
            tree = BranchAndBoundOracle(
                rows, time_limit_s=min(FINAL_S, left), random_state=random_state, n_starts=STARTS
            )
            with contextlib.suppress(TimeUp), limited(left):
                gauge = min(gauge, tree.price(asked, max_neurons=1).upper_bound)
    point.dual, point.lower_bound = problem.scale_dual(point.dual, gauge)
    point.lower_bound = max(point.lower_bound, 0.0)
    return point
