"""Choice of the solver: the anytime loop, the solver requested, or the special one for one input."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from covopt.certificates.tight import sharpen
from covopt.checks.memory import NoRoom
from covopt.errors import BudgetError, InputError, SolverError, Status
from covopt.limits import TimeUp
from covopt.oracles.cascade import exact_oracle
from covopt.potentials import LabelNoise
from covopt.problems.half_plane import HalfPlane
from covopt.problems.problem import Problem
from covopt.solvers.improve import COLUMNS, RELAXATION, Improvement
from covopt.solvers.label_noise import solve_label_noise
from covopt.solvers.loop import Point
from covopt.solvers.one_input import solve_one_input
from covopt.solvers.quick import has_no_room, is_out_of_reach

if TYPE_CHECKING:
    from covopt.api.task import Task

CONIC = "conic:"
GENERATION = ("auto", "column-generation")


def other_solvers(task: Task, loop: Improvement) -> Iterator[tuple[Point, str]] | None:
    """Return the points of another solver than the loop, with its name; None if the loop solves the problem.

    Parameters
    ----------
    task : Task
        Names the solver requested.
    loop : Improvement
    """
    problem = loop.problem
    options = {**loop.options, "tol": loop.tol, "time_limit_s": loop.limit}
    if isinstance(task.weighing, LabelNoise):
        return _by_columns(problem, task, options)
    if task.rounds is not None:  # vanilla and pairwise rounds make no networks
        return _by_rounds(problem, task, options | {"callback": loop.callback})
    if not problem.interpolates:
        return None
    if task.solver.startswith(CONIC):
        if not problem.is_scalar:
            raise InputError(
                f"solver={task.solver!r} handles one output (a cell may need several neurons with more), but Y "
                f'has {task.data.n_outputs} columns of rank {problem.targets.shape[1]}; use solver="auto"'
            )
        return _by_cells(problem, task, options["time_limit_s"])
    plane = None if task.solver == RELAXATION else HalfPlane.of(problem)
    return None if plane is None else _by_arcs(plane, options)


def _by_columns(problem: Problem, task: Task, options: dict[str, Any]) -> Iterator[tuple[Point, str]]:
    yield solve_label_noise(problem, task.oracle(problem), **options), COLUMNS


def _by_rounds(problem: Problem, task: Task, options: dict[str, Any]) -> Iterator[tuple[Point, str]]:
    if problem.interpolates and has_no_room(problem):
        raise NoRoom
    if problem.interpolates and is_out_of_reach(problem, options["time_limit_s"]):
        raise TimeUp
    assert task.rounds is not None
    yield task.rounds.solve(problem, **options), f"frank-wolfe:{task.rounds.variant}"


def _by_cells(problem: Problem, task: Task, limit: float | None) -> Iterator[tuple[Point, str]]:
    from covopt.solvers.reference import solve_all_cells

    try:
        yield solve_all_cells(problem, task.solver.removeprefix(CONIC), task.tol, limit)
    except SolverError as error:
        if limit is None:
            raise
        raise TimeUp from error  # a cone program that was stopped before its first point


def _by_arcs(plane: HalfPlane, options: dict[str, Any]) -> Iterator[tuple[Point, str]]:
    options.pop("warm", None)
    yield solve_one_input(plane, **options), COLUMNS


def sharpened(problem: Problem, point: Point) -> Point:
    """Refine a point to the last digits by Newton's method on its tight set, if it is close enough."""
    sharp = None
    if not problem.is_scalar or point.status is not Status.CERTIFIED:
        return point
    with contextlib.suppress(BudgetError):
        sharp = sharpen(problem, exact_oracle(problem.rows, 0), point.dual, point.offset)
    if sharp is None:
        return point
    dual, neurons, weights, offset = sharp
    return dataclasses.replace(
        point, dual=dual, neurons=neurons, weights=weights, offset=offset, dual_low=None, finished=False
    )
