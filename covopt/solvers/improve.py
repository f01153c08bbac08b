"""The one anytime loop: descent on both layers, columns from where it ended, bounds with what time is left.

Each step may only improve the bracket: a network is an upper bound whatever found it, and a lower bound is the best
that was proved of any dual. Whoever runs the steps stops them when the gap is small, at a deadline, or at a signal.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from covopt.checks.memory import NoRoom
from covopt.errors import BudgetError
from covopt.limits import TimeUp, limited, now, patiently
from covopt.oracles.cascade import suits_boxes, suits_search
from covopt.oracles.faces import MOST_FACED
from covopt.oracles.support import suits_integers
from covopt.problems.problem import Problem
from covopt.solvers.bounds import SUBSET_TOL, Bounds, more_and_more_points
from covopt.solvers.descent import PASSES, Descent
from covopt.solvers.generation import MANY_ROWS, Generation
from covopt.solvers.interpolating import InterpolatingDescent
from covopt.solvers.loop import RoundState
from covopt.solvers.points import Point
from covopt.solvers.quick import has_no_room, is_out_of_reach
from covopt.solvers.regularised.newton import applies
from covopt.solvers.searching import search
from covopt.status import Status

STARTS = 4  # random networks where no columns follow
SOON_S, SOON_SHARE = 1.0, 0.1  # for a network where the first round of columns took all the time
# for a bound beside it, after an interrupt (for the network at least that), and after a limit
HURRIED_S, BOUND_SHARE = 0.25, 0.15
DESCENDING = 0.3  # of the time, for a network that columns follow
SEARCHING, SEARCHING_WIDE = 0.6, 0.5  # for columns where bounds follow; beyond boxes and signs these are dear
COLUMNS, DESCENT, RELAXATION = "column-generation", "descent with local search", "relaxation"
ENDED = (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK)


def descent_of(problem: Problem, random_state: int | None) -> Descent | InterpolatingDescent:
    """Return the descent of a problem; its point is the best constant, or no network through the points."""
    if problem.interpolates:
        return InterpolatingDescent(problem, random_state)
    return Descent(problem, random_state)


class Improvement:
    """The loop and the best bracket so far.

    Parameters
    ----------
    problem : Problem
        With the norm as the price of a neuron.
    oracle : callable
        Returns the exact oracle of the rows that are not zero, None without such rows, or raises BudgetError.
    tol : float
    time_limit_s : float, optional
        From now.
    effort : float
        Of :class:`~covopt.solvers.bounds.Bounds`.
    proves : bool
        Whether dual norms are bounded by search; else by the semidefinite relaxation.
    **options
        ``random_state``, ``callback`` and ``warm``, of :func:`~covopt.solvers.generation.generate`.

    Attributes
    ----------
    point : Point
        At first the best constant, or no network through the points.
    name : str
        What has found it, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from covopt.losses import make_loss
    >>> from covopt.oracles.cascade import exact_oracle
    >>> loss, rows = make_loss("squared"), np.eye(3)
    >>> _ = loss.encode_targets([3.0, 4.0, -6.0])
    >>> loop = Improvement(Problem(rows, loss, 0.1), lambda: exact_oracle(rows, 0), tol=1e-6)
    >>> point = loop.run()
    >>> point.status.code, point.gap <= 1e-6
    ('certified', True)
    """

    def __init__(
        self,
        problem: Problem,
        oracle: Callable[[], Any],
        *,
        tol: float,
        time_limit_s: float | None = None,
        effort: float = 1.0,
        proves: bool = True,
        **options: Any,
    ):
        self.problem, self.oracle, self.tol, self.effort, self.proves = problem, oracle, tol, effort, proves
        self.limit, self.began = time_limit_s, now()
        self.callback, self.options = options.get("callback"), options | {"callback": self._seen}
        self.last: Point | None = None  # of the rounds that run, and their name
        self.rounds, self.is_cut = COLUMNS, False  # whether a descent ended at its share of the limit
        seed = options.get("random_state")
        self.descent = descent_of(problem, seed)
        self.is_searched = not proves or (self.problem.is_scalar and problem.rows.shape[1] > MOST_FACED)
        self.closes = problem.is_scalar and suits_search(*problem.rows.shape)
        self.point, self.name = self.descent.point, "constant"

    @property
    def left(self) -> float | None:
        """Seconds."""
        return None if self.limit is None else max(1e-6, self.limit - (now() - self.began))

    def steps(self) -> Iterator[Point]:
        """Yield the best bracket after each step."""
        problem, no_room, oracle = self.problem, has_no_room(self.problem), None
        is_far = no_room or is_out_of_reach(problem, self.limit)
        if not (no_room or self.is_searched or (is_far and problem.interpolates)):
            with contextlib.suppress(BudgetError):
                oracle = self.oracle()
        follows = not problem.interpolates and not no_room and applies(problem)
        is_late = self.limit is not None and len(problem.rows) > MANY_ROWS
        # columns find better networks through the points; else pricing all faces is dear beyond three dimensions
        meets = self.problem.interpolates and oracle is not None
        is_dear = not meets and problem.rows.shape[1] > MOST_FACED
        begins = is_far or is_dear or oracle is None or (is_late and not meets)
        if self.options.get("warm") is None and begins and problem.rows.any():
            alone = is_far and not follows
            starts = STARTS if alone or problem.interpolates else 1
            passes = 0 if self.closes else PASSES  # where columns close the gap, they are better at it
            share = SEARCHING if alone and not problem.interpolates else DESCENDING
            for _ in self._descents(starts, passes, share):
                yield self._improved(self.descent.point, DESCENT)
                if (
                    not self.problem.interpolates and self._report()
                ):  # of interpolation columns tell the first round
                    self.point.status = Status.CALLBACK
                    return
            self.options["warm"] = self.descent.point.warm
        if follows or not is_far:
            yield from self._columns(oracle)
        elif self.proves and np.isfinite(self.point.upper_bound):
            found = self._bounded(dataclasses.replace(self.point), self.point.dual)
            if no_room:
                found.status = Status.GAP
            elif problem.interpolates and found.status is not Status.CERTIFIED:  # columns would do better
                found.status = Status.GAP if self.limit is None else Status.TIME_LIMIT
            yield self._improved(found, DESCENT)

    def _descents(self, starts: int, passes: int, share: float) -> Iterator[Point]:
        """Yield what each descent ends with, in their share of the time; through the points the first one will do."""
        left, through, more = self.left, self.problem.interpolates, True
        end = now() + share * (np.inf if left is None else left)
        points = self.descent.run(starts, passes)
        try:
            while more:
                with limited(None if left is None else max(end - now(), 1e-6)):
                    more = next(points, None) is not None
                if more and np.isfinite(self.descent.point.upper_bound):
                    yield self.descent.point
                    more = not through
        except TimeUp:  # bounds and columns need the rest
            self.is_cut = True
        met = np.isfinite(self.descent.point.upper_bound)
        if (self.is_cut and met) or (not met and self.descent.rescue(self.left or np.inf)):
            yield self.descent.point

    def run(
        self,
        others: Iterator[tuple[Point, str]] | None = None,
        *,
        is_over: bool = False,
        rescues: bool = True,
    ) -> Point:
        """Take steps until the gap is small, or a deadline, an interrupt or the callback says stop.

        Parameters
        ----------
        others : iterator of (Point, str), optional
            What other solvers find, and their names, instead of these steps.
        is_over : bool
            Whether somebody has said so before.
        rescues : bool
            Whether a network of small norm will do where none was found.
        """
        status = Status.INTERRUPTED if is_over else None
        steps = self.steps() if others is None else (self._improved(*found) for found in others)
        if self.point.gap <= self.tol:
            self.point.status, self.name = Status.CERTIFIED, "closed form"
            return self.point
        try:
            with limited(self.left):
                for point in () if is_over else steps:
                    if point.gap <= self.tol or point.status is Status.CALLBACK:
                        break
        except TimeUp as stop:
            status = Status.GAP if self.limit is None or isinstance(stop, NoRoom) else Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        point = self.point
        is_lost = not np.isfinite(point.upper_bound) or (
            self.problem.interpolates and not point.lower_bound > 0.0
        )
        is_cut = self.is_cut or point.status in ENDED
        if status is not None or is_lost or (not len(point.neurons) and is_cut):
            if self.last is not None:
                self._improved(dataclasses.replace(self.last, status=self.point.status), self.rounds)
            if rescues:
                self.rescue(hurries=status is Status.INTERRUPTED)
        if status is None and self.point.gap <= self.tol:  # of two steps together
            status = Status.CERTIFIED
        if status is None and self.is_cut and self.point.status is Status.HEURISTIC:
            status = Status.TIME_LIMIT
        if status is not None:
            self.point = dataclasses.replace(self.point, status=status)
        return self.point

    def rescue(self, *, hurries: bool = False) -> None:
        """Take over what a deadline left of a descent; where that is nothing, let it end soon, and make a bound."""
        self._take_descent()
        soon = min(0.5 * SOON_S if hurries else SOON_S, SOON_SHARE * (self.limit or np.inf))
        with patiently():
            if not len(self.point.neurons):
                with contextlib.suppress(TimeUp), limited(max(soon, HURRIED_S)):
                    self.descent.rescue()
                if (
                    isinstance(self.descent, InterpolatingDescent)
                    and self.descent.point.upper_bound == np.inf
                ):
                    self.descent.take_quick(soon)
                self._take_descent()
            few = self.last is None or not self.last.history  # rounds
            if self.problem.interpolates and (few or not self.point.lower_bound > 0.0):
                seed = self.options.get("random_state")
                spare = HURRIED_S if hurries else SOON_S if self.limit is None else BOUND_SHARE * self.limit
                for dual in more_and_more_points(self.problem, spare, seed, self.point.dual):
                    lower = self.problem.dual_value(dual)
                    if lower > self.point.lower_bound:
                        self.point = dataclasses.replace(self.point, dual=dual, lower_bound=lower)

    def _take_descent(self) -> None:
        if self.descent.point.upper_bound < self.point.upper_bound:
            # the name says what the dual is of: with local search its bound is dear
            is_bounded = self.problem.interpolates and self.point.lower_bound > 0.0
            self.point, self.name = (
                self.point.merged(self.descent.point),
                self.name if is_bounded else DESCENT,
            )

    def _columns(self, oracle: Any) -> Iterator[Point]:
        """Column generation: by the exact oracle, else by a search, which signs and boxes prove; then bounds."""
        problem, rank = self.problem, self.problem.rows.shape[1]
        closes = self.closes
        if oracle is not None:  # what faces of several outputs do not prove, integers may
            closes = getattr(oracle, "proved", True) or suits_integers(problem.rows, problem.targets)
        # where no bound will come as close, columns to the last digit are not worth a brief search
        is_brief = not closes and self.limit is None and self.effort < 1.0
        tol = self.tol / self.effort if is_brief else self.tol
        options = {**self.options, "tol": tol, "is_brief": is_brief}
        if oracle is not None or not problem.rows.any():
            rounds = Generation(problem, oracle, **options, time_limit_s=self.left)
            self.last = rounds.point
            yield self._improved(rounds.solve(), COLUMNS)
            return
        by_boxes = self.problem.is_scalar and suits_boxes(rank)
        wide = self.problem.is_scalar and not (by_boxes or (self.problem.interpolates and closes))
        limit = self.left and (SEARCHING_WIDE if wide else SEARCHING) * self.left
        # nothing will prove the last digits, which take as long as all before
        if wide and problem.interpolates and rank > MOST_FACED:
            options["tol"] = max(tol, SUBSET_TOL)
        self.rounds = f"{COLUMNS} with local search"
        found, dual = search(problem, **options, time_limit_s=limit, proves=self.proves, effort=self.effort)
        is_proved = found.status is Status.CERTIFIED
        by = "boxes" if by_boxes else "branch and bound" if is_proved else "local search"
        by += "" if self.proves else ", bound by a semidefinite relaxation"
        yield self._improved(found, f"{COLUMNS} with {by}")
        if found.status in (Status.GAP, Status.TIME_LIMIT):
            yield self._improved(self._bounded(dataclasses.replace(found), dual), f"{COLUMNS} with {by}")

    def _bounded(self, point: Point, dual: np.ndarray) -> Point:
        """Raise the bound of a point in the time that is left."""
        bounds = Bounds(
            self.problem, point, dual, tol=self.tol, time_s=self.left,
            effort=self.effort, callback=self._seen,
            random_state=self.options.get("random_state"),
        )  # fmt: skip
        if not self.proves:
            bounds.by_relaxation()
            point.status = Status.CERTIFIED if point.gap <= self.tol else Status.HEURISTIC
            return point
        return bounds.raise_all()

    def _improved(self, point: Point, name: str) -> Point:
        self.point, self.name = point.merged(self.point), name
        return self.point

    def _report(self) -> bool:
        """Show the callback what a descent has found; whether to stop."""
        point = self.point
        state = RoundState(
            len(point.history), point.lower_bound, point.upper_bound, point.gap, len(point.neurons),
            now() - self.began, "descent on both layers",
        )  # fmt: skip
        point.history.append(state)
        return self.callback is not None and bool(self.callback(state, point))

    def _seen(self, state: Any, point: Point) -> bool:
        """Keep what rounds have found and proved, for a deadline may cut the next; whether the callback says stop."""
        if point is not self.last:  # that of columns goes on: a round that is cut has raised its bound
            self.last = dataclasses.replace(point)
        return self.callback is not None and bool(self.callback(state, point.merged(self.point)))
