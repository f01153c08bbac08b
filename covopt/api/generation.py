"""Which solver takes an interpolation problem: the best oracle that can be afforded, and a network in any case."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.stopping import Clock
from covopt.certificates.sharpen import sharpen
from covopt.checks.memory import NoRoom, memory_left
from covopt.errors import BudgetError, InputError, SolverError
from covopt.limits import HURRY_S, TimeUp, limited, patiently
from covopt.oracles.base import Oracle
from covopt.oracles.cascade import exact_oracle
from covopt.problems.half_plane import CLEAR, HalfPlane
from covopt.problems.problem import Problem
from covopt.solvers.bounds import more_and_more_points
from covopt.solvers.generation import generate
from covopt.solvers.improve import MANY_ROWS, Improvement
from covopt.solvers.one_input import solve_one_input
from covopt.solvers.points import Point
from covopt.solvers.quick import has_no_room, is_out_of_reach, master_bytes, quick_network
from covopt.status import Status

if TYPE_CHECKING:
    from covopt.api.task import Task

CONIC = "conic:"
NAME = "column-generation"
QUICK_S, SOON_S = 5.0, 0.5  # for the bound beside a quick network; after an interrupt
QUICK_SHARE, BOUND_SHARE = 0.5, 0.75  # of the time that is left, for a quick network and a bound beside it
CLOSE = 1e-2  # gap of faces that arcs do not better: of rays nearly opposite the dual's digits are lost
SHARPEN_GAP = 1e-9  # a dual this accurate shows the tight set, and Newton's method can finish on it


def generate_in_time(
    problem: Problem, task: Task, options: dict[str, Any], clock: Clock
) -> tuple[Point, str]:
    """Generate columns where the table leaves room for it; a network through the points in any case."""
    solver = task.solver
    if not len(problem.rows) or not problem.targets.any():
        return zero_point(problem), "closed form"
    if solver.startswith(CONIC) and not problem.is_scalar:
        raise InputError(
            f"solver={solver!r} handles one output (a cell may need several neurons with more), but Y "
            f'has {task.data.n_outputs} columns of rank {problem.targets.shape[1]}; use solver="auto"'
        )
    is_named = task.rounds is not None or solver.startswith(CONIC)
    plane = None if is_named or solver == "relaxation" else HalfPlane.of(problem)
    point, quick, name = None, None, solver if is_named else NAME
    status = Status.GAP if clock.limit is None else Status.TIME_LIMIT
    seconds = clock.for_solver(problem.rows.shape[1])
    try:
        if plane is None and not solver.startswith(CONIC):
            quick, is_over = _quick(problem, task, clock)
            if is_over:
                raise KeyboardInterrupt
            seconds = clock.for_solver(problem.rows.shape[1])
        # the loop has its own limit, and keeps what it has
        with limited(seconds if is_named or plane is not None else None):
            point, name = _generate(problem, task, plane, options | {"time_limit_s": seconds})
        status = point.status
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
    has_network = point is not None and np.isfinite(point.upper_bound)
    if point is not None and (solver.startswith(CONIC) or (has_network and point.lower_bound > 0.0)):
        return (point if quick is None else point.merged(quick)), name
    with patiently():
        left = clock.until_late(0.0)
        share = QUICK_S if left is None else BOUND_SHARE * left
        share = min(share, SOON_S) if status is Status.INTERRUPTED else share
        if quick is None:
            quick = quick_network(problem, 0.0 if has_network else max(share, HURRY_S), task.random_state)
        quick.dual, quick.lower_bound = more_and_more_points(problem, share, task.random_state)
    quick.status = status
    if point is not None:
        quick = point.merged(quick)
    return quick, name if has_network else f"{name}, a quick network"


def _quick(problem: Problem, task: Task, clock: Clock) -> tuple[Point | None, bool]:
    """Return a network through many points, and whether a signal came: a limit or one may leave the solver none."""
    if len(problem.rows) <= MANY_ROWS:
        return None, False
    seconds = clock.for_solver(problem.rows.shape[1])
    spare = QUICK_S if seconds is None else seconds
    if seconds is not None and not is_out_of_reach(problem, seconds):
        spare *= QUICK_SHARE
    quick = None
    with contextlib.suppress(TimeUp), limited(seconds), patiently() as interrupted:
        quick = quick_network(problem, spare, task.random_state)
    return quick, interrupted()


def _generate(
    problem: Problem, task: Task, plane: HalfPlane | None, options: dict[str, Any]
) -> tuple[Point, str]:
    """Column generation with the best oracle that can be afforded, or what was asked for, and its name."""
    limit = options["time_limit_s"]
    if task.solver.startswith(CONIC):
        from covopt.solvers.reference import solve_all_cells

        return solve_all_cells(problem, task.solver.removeprefix(CONIC), task.tol, limit)
    is_relaxed = task.solver == "relaxation"
    if task.rounds is not None or is_relaxed:
        if has_no_room(problem):
            raise NoRoom
        if is_out_of_reach(problem, limit):
            raise TimeUp
    if task.rounds is not None:
        return task.rounds.solve(problem, **options), task.solver
    if plane is not None and not (plane.is_clear and master_bytes(problem) <= memory_left()):
        return _on_a_plane(problem, task, plane, options), NAME
    loop = Improvement(
        problem, lambda: task.oracle(problem), effort=task.effort, proves=not is_relaxed, **options
    )
    loop.run()
    if is_relaxed:
        return loop.point, f"{NAME} with local search, bound by a semidefinite relaxation"
    point = loop.point
    if plane is not None and point.status is Status.GAP:
        other = solve_one_input(plane, **options)
        return (other if other.gap < point.gap else point), NAME
    if point.status is Status.CERTIFIED and point.gap <= SHARPEN_GAP and problem.is_scalar:
        with contextlib.suppress(BudgetError):
            point = _sharpened(problem, exact_oracle(problem.rows, 0), point)
    return point, loop.name


def _on_a_plane(problem: Problem, task: Task, plane: HalfPlane, options: dict[str, Any]) -> Point:
    """Solve with one input; where inputs of both signs stand beside a small bias faces come first, if they close."""
    limit = options["time_limit_s"]
    half = None if limit is None else 0.5 * limit
    if plane.opening <= CLEAR and not is_out_of_reach(problem, half):
        with contextlib.suppress(TimeUp, NoRoom, BudgetError):
            found = generate(problem, task.oracle(problem), **options | {"time_limit_s": half})
            if found.gap < CLOSE:
                return found
    return solve_one_input(plane, **options)


def _sharpened(problem: Problem, oracle: Oracle, point: Point) -> Point:
    sharp = sharpen(problem, oracle, point.dual, point.offset)
    if sharp is None:
        return point
    dual, neurons, weights, offset = sharp
    return dataclasses.replace(
        point, dual=dual, neurons=neurons, weights=weights, offset=offset, dual_low=None, finished=False
    )


def zero_point(problem: Problem) -> Point:
    """Return the network without neurons, which is optimal where there are no targets."""
    return dataclasses.replace(Point.nothing(problem, Status.CERTIFIED), upper_bound=0.0)
