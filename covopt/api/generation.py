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
from covopt.limits import TimeUp, limited, now, patiently
from covopt.oracles.base import Oracle
from covopt.oracles.cascade import SearchOracle, suits_boxes
from covopt.oracles.choose import exact_oracle
from covopt.problems.half_plane import CLEAR, HalfPlane
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.box_generation import solve_by_boxes
from covopt.solvers.generation import generate
from covopt.solvers.heuristic import solve_heuristic
from covopt.solvers.one_input import solve_one_input
from covopt.solvers.points import Point
from covopt.solvers.quick import finishing_seconds, has_no_room, is_out_of_reach, master_bytes
from covopt.solvers.thin import Thin, generate_thin, solve_thin_quickly
from covopt.status import Status

CONIC, FRANK_WOLFE = "conic:", "frank-wolfe:"
QUICK_S, SOON_S = 5.0, 0.5  # for the bound beside a network along a line; after an interrupt
QUICK_SHARE, ONLY_SHARE = (
    0.3,
    0.7,
)  # of the time that is left, after rounds that did not end, or instead of them
BOX_SHARE = 0.7  # of the time limit, before the heuristic takes over
CLOSE = 1e-2  # gap of faces that arcs do not better: of rays nearly opposite the dual's digits are lost
SHARPEN_GAP = 1e-9  # a dual this accurate shows the tight set, and Newton's method can finish on it


def generate_in_time(
    problem: ShallowProblem, solver: str, options: dict[str, Any], clock: Clock
) -> tuple[Point, str]:
    """Generate columns where the table leaves room for it; a network through the points in any case."""
    as_asked = solver.startswith(CONIC)
    is_named = solver.startswith((CONIC, FRANK_WOLFE))
    plane = None if solver == "relaxation" or is_named else HalfPlane.of(problem)
    finishing = finishing_seconds(problem) if plane is None else 0.0
    seconds = clock.for_solver(problem.rows.shape[1], finishing)
    point, status, name = (
        None,
        Status.TIME_LIMIT if clock.limit is not None else Status.GAP,
        solver if is_named else "column-generation",
    )
    tried = False
    if plane is None and not as_asked and has_no_room(problem):
        status = Status.GAP
    elif plane is not None or as_asked or not is_out_of_reach(problem, seconds):
        tried = True
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
        if point is not None and (as_asked or np.isfinite(point.upper_bound)):
            return point, name
    with patiently():
        left = clock.until_late(0.0)
        share = QUICK_S if left is None else (QUICK_SHARE if tried else ONLY_SHARE) * left
        share = min(share, SOON_S) if status is Status.INTERRUPTED else share
        quick = solve_thin_quickly(problem, time_limit_s=share, random_state=options["random_state"])
    quick.status = status if point is None else point.status
    if point is not None and point.lower_bound > quick.lower_bound:
        quick.dual, quick.lower_bound = point.dual, point.lower_bound
        quick.dual_low = point.dual_low
    return quick, f"{name}, network along a line"


def _generate(problem: ShallowProblem, solver: str, options: dict[str, Any]) -> tuple[Point, str]:
    """Column generation with the best oracle that can be afforded, or what was asked for, and its name."""
    if solver.startswith(CONIC):
        from covopt.solvers.reference import solve_all_cells

        return solve_all_cells(problem, solver.removeprefix(CONIC), options["tol"], options["time_limit_s"])
    if solver.startswith(FRANK_WOLFE):
        return options.pop("rounds").solve(problem, **options), solver
    plane = None if solver == "relaxation" else HalfPlane.of(problem)
    if plane is not None and not (plane.is_clear and master_bytes(problem) <= memory_left()):
        # inputs of both signs beside a small bias: faces first, as long as they close
        half = None if options["time_limit_s"] is None else 0.5 * options["time_limit_s"]
        if plane.opening <= CLEAR and not is_out_of_reach(problem, half):
            with contextlib.suppress(TimeUp, NoRoom):
                found = _without_boxes(problem, solver, options | {"time_limit_s": half}, None, None, None)
                if found[0].gap < CLOSE:
                    return found
        return solve_one_input(plane, **options), "column-generation"
    thin = Thin.of(problem.rows) if plane is None and solver != "relaxation" else None
    if thin is not None and problem.is_vector and not thin.is_far:
        thin = None  # with several outputs the oracle's bounds are sharper for the rows as they are
    first, limit, began = None, options["time_limit_s"], now()
    if solver != "relaxation" and not problem.is_vector and suits_boxes(problem.rows.shape[1]):
        share = None if limit is None else BOX_SHARE * limit
        first = solve_by_boxes(problem, **options | {"time_limit_s": share})
        if first.status is Status.CERTIFIED and first.gap <= SHARPEN_GAP:
            first = _sharpened(problem, exact_oracle(problem.rows, 0), first)
        if first.status not in (Status.GAP, Status.TIME_LIMIT):
            return first, "column-generation with boxes"
        if limit is not None:
            limit = max(limit - (now() - began), (1.0 - BOX_SHARE) * limit)
            options |= {"time_limit_s": limit}
    kept = None if first is None else dataclasses.replace(first)  # what follows may write into the other
    try:
        return _without_boxes(problem, solver, options, plane, thin, first)
    except (TimeUp, NoRoom, KeyboardInterrupt) as stop:
        if kept is None or not np.isfinite(kept.upper_bound):
            raise
        if isinstance(stop, KeyboardInterrupt):
            kept.status = Status.INTERRUPTED
        return kept, "column-generation with boxes"


def _without_boxes(
    problem: ShallowProblem,
    solver: str,
    options: dict[str, Any],
    plane: HalfPlane | None,
    thin: Thin | None,
    first: Point | None,
) -> tuple[Point, str]:
    """Faces, or a heuristic where they are too many; ``first`` is where boxes have ended."""
    oracle: Oracle | None = None
    if solver != "relaxation":
        with contextlib.suppress(BudgetError):
            rows = problem.rows if thin is None else thin.closer
            oracle = exact_oracle(rows, problem.vector_outputs, beside=master_bytes(problem))
    if oracle is None or (thin is None and isinstance(oracle, SearchOracle)):
        return _generate_heuristically(problem, options, only_relaxation=solver == "relaxation", first=first)
    if thin is not None:
        return _better_of(generate_thin(problem, thin, oracle, **options), first), "column-generation"
    point = _better_of(generate(problem, oracle, **options), first)
    if plane is not None and point.status is Status.GAP:
        other = solve_one_input(plane, **options)
        point = other if other.gap < point.gap else point
    if point.status is Status.CERTIFIED and point.gap <= SHARPEN_GAP and not problem.is_vector:
        point = _sharpened(problem, oracle, point)
    return point, "column-generation"


def _generate_heuristically(
    problem: ShallowProblem,
    options: dict[str, Any],
    *,
    only_relaxation: bool = False,
    first: Point | None = None,
) -> tuple[Point, str]:
    """Column generation by branch and bound or local search, bracketed by the best valid bound at hand.

    ``first`` is where boxes have ended: the search starts there, and the bracket is the better one of both.
    """
    known = first if first is not None and np.isfinite(first.upper_bound) and first.dual.any() else None
    if first is not None:
        first = dataclasses.replace(first)
    point = solve_heuristic(problem, **options, only_relaxation=only_relaxation, found=known)
    search = "local search" if point.status is Status.HEURISTIC else "branch and bound"
    bound = ", bound by a semidefinite relaxation" if only_relaxation else ""
    return _better_of(point, first), f"column-generation with {search}{bound}"


def _better_of(point: Point, first: Point | None) -> Point:
    """Give a point the network and the dual of an earlier one, where those are better."""
    if first is not None and first.upper_bound < point.upper_bound:
        point.neurons, point.weights, point.offset = first.neurons, first.weights, first.offset
        point.upper_bound = first.upper_bound
    if first is not None and first.lower_bound > point.lower_bound:
        point.dual, point.lower_bound = first.dual, first.lower_bound
        point.dual_low = first.dual_low
    return point


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
