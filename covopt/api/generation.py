"""Which solver takes an interpolation problem: the best oracle that can be afforded, and a network in any case."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

from covopt.api.stopping import Clock
from covopt.certificates.sharpen import sharpen
from covopt.checks.memory import NoRoom, memory_left
from covopt.errors import BudgetError, SolverError
from covopt.limits import HURRY_S, TimeUp, limited, patiently
from covopt.oracles.base import Oracle
from covopt.oracles.cascade import suits_boxes
from covopt.oracles.choose import exact_oracle
from covopt.problems.half_plane import CLEAR, HalfPlane
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.generation import generate
from covopt.solvers.heuristic import solve_heuristic
from covopt.solvers.improve import Improvement
from covopt.solvers.one_input import solve_one_input
from covopt.solvers.points import Point
from covopt.solvers.quick import finishing_seconds, has_no_room, is_out_of_reach, master_bytes
from covopt.solvers.thin import Thin, generate_thin, solve_thin_quickly
from covopt.status import Status

CONIC, FRANK_WOLFE = "conic:", "frank-wolfe:"
QUICK_S, SOON_S = 5.0, 0.5  # for the bound beside a quick network; after an interrupt
QUICK_SHARE = 0.5  # of the time that is left
CLOSE = 1e-2  # gap of faces that arcs do not better: of rays nearly opposite the dual's digits are lost
SHARPEN_GAP = 1e-9  # a dual this accurate shows the tight set, and Newton's method can finish on it


def generate_in_time(
    problem: ShallowProblem, solver: str, options: dict[str, Any], clock: Clock
) -> tuple[Point, str]:
    """Generate columns where the table leaves room for it; a network through the points in any case."""
    as_asked = solver.startswith(CONIC)
    is_named = solver.startswith((CONIC, FRANK_WOLFE))
    plane = None if solver == "relaxation" or is_named else HalfPlane.of(problem)
    finishing = (
        0.0 if plane is not None or is_out_of_reach(problem, clock.limit) else finishing_seconds(problem)
    )
    seconds = clock.for_solver(problem.rows.shape[1], finishing)
    point, status, name = (
        None,
        Status.TIME_LIMIT if clock.limit is not None else Status.GAP,
        solver if is_named else "column-generation",
    )
    try:
        with limited(seconds):
            point, name = _generate(problem, solver, options | {"time_limit_s": seconds})
    except NoRoom:
        status = Status.GAP
    except TimeUp:
        status = Status.TIME_LIMIT
    except SolverError:
        if seconds is None:
            raise
        status = Status.TIME_LIMIT  # a cone program that was stopped before its first point
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if point is not None and (as_asked or (np.isfinite(point.upper_bound) and point.lower_bound > 0.0)):
        return point, name
    with patiently():
        left = clock.until_late(0.0)
        share = QUICK_S if left is None else QUICK_SHARE * left
        share = min(share, SOON_S) if status is Status.INTERRUPTED else share
        has_network = point is not None and np.isfinite(point.upper_bound)
        quick = solve_thin_quickly(
            problem, time_limit_s=share, network_s=0.0 if has_network else max(share, HURRY_S),
            random_state=options["random_state"],
        )  # fmt: skip
    quick.status = status
    if point is not None:
        quick = point.merged(quick)
    return quick, name if has_network else f"{name}, a quick network"


def _generate(problem: ShallowProblem, solver: str, options: dict[str, Any]) -> tuple[Point, str]:
    """Column generation with the best oracle that can be afforded, or what was asked for, and its name."""
    if solver.startswith(CONIC):
        from covopt.solvers.reference import solve_all_cells

        return solve_all_cells(problem, solver.removeprefix(CONIC), options["tol"], options["time_limit_s"])
    plane = None if solver.startswith(FRANK_WOLFE) or solver == "relaxation" else HalfPlane.of(problem)
    thin = Thin.of(problem.rows) if plane is None else None
    if thin is not None and problem.is_vector and not thin.is_far:
        thin = None  # with several outputs the oracle's bounds are sharper for the rows as they are
    if plane is None and (thin is not None or solver.startswith(FRANK_WOLFE) or solver == "relaxation"):
        if has_no_room(problem):
            raise NoRoom
        if is_out_of_reach(problem, options["time_limit_s"]):
            raise TimeUp
    if solver.startswith(FRANK_WOLFE):
        return options.pop("rounds").solve(problem, **options), solver
    if solver == "relaxation":
        point = solve_heuristic(problem, **options, only_relaxation=True)
        return point, "column-generation with local search, bound by a semidefinite relaxation"
    if plane is not None and not (plane.is_clear and master_bytes(problem) <= memory_left()):
        # inputs of both signs beside a small bias: faces first, as long as they close
        half = None if options["time_limit_s"] is None else 0.5 * options["time_limit_s"]
        if plane.opening <= CLEAR and not is_out_of_reach(problem, half):
            with contextlib.suppress(TimeUp, NoRoom, BudgetError):
                oracle = exact_oracle(problem.rows, problem.vector_outputs, beside=master_bytes(problem))
                found = generate(problem, oracle, **options | {"time_limit_s": half})
                if found.gap < CLOSE:
                    return found, "column-generation"
        return solve_one_input(plane, **options), "column-generation"
    loop = Improvement(
        problem, lambda: exact_oracle(problem.rows, problem.vector_outputs, beside=master_bytes(problem)), **options
    )  # fmt: skip
    if thin is None or (not problem.is_vector and suits_boxes(problem.rows.shape[1])):
        loop.run()
    if thin is not None and loop.point.status in (Status.GAP, Status.HEURISTIC, Status.TIME_LIMIT):
        with contextlib.suppress(BudgetError):
            oracle = exact_oracle(thin.closer, problem.vector_outputs, beside=master_bytes(problem))
            return generate_thin(problem, thin, oracle, **options).merged(loop.point), "column-generation"
        loop.run()
    point = loop.point
    if plane is not None and point.status is Status.GAP:
        other = solve_one_input(plane, **options)
        return (other if other.gap < point.gap else point), "column-generation"
    if point.status is Status.CERTIFIED and point.gap <= SHARPEN_GAP and not problem.is_vector:
        with contextlib.suppress(BudgetError):
            point = _sharpened(problem, exact_oracle(problem.rows, 0), point)
    return point, loop.name


def _sharpened(problem: ShallowProblem, oracle: Oracle, point: Point) -> Point:
    sharp = sharpen(problem, oracle, point.dual, float(point.offset))
    if sharp is None:
        return point
    dual, neurons, weights, offset = sharp
    return dataclasses.replace(
        point, dual=dual, neurons=neurons, weights=weights, offset=offset, dual_low=None, finished=False
    )


def zero_point(problem: ShallowProblem) -> Point:
    """Return the network without neurons, which is optimal where there are no targets."""
    rank = problem.rows.shape[1]
    return Point(
        np.zeros((0, rank)), np.zeros((0, *problem.targets.shape[1:])), np.zeros(problem.targets.shape[1:])[()], 0.0,
        np.zeros(problem.targets.shape), 0.0, Status.CERTIFIED,
    )  # fmt: skip
