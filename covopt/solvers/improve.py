"""The anytime loop: descent on both layers, column generation from its network, bounds in the remaining time.

No step worsens the bracket: every network is an upper bound, and the lower bound is the best one proved for any dual.
:meth:`Improvement.run` ends the steps when the gap is small, at a deadline, or at an interrupt.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from covopt.checks.memory import NoRoom
from covopt.errors import BudgetError, Status
from covopt.limits import HURRY_S, TimeUp, defer_interrupts, limited, now
from covopt.oracles.cascade import suits_boxes, suits_search
from covopt.oracles.certified import suits_integers
from covopt.oracles.faces import MOST_FACED
from covopt.problems.problem import Problem
from covopt.solvers.active_set import applies
from covopt.solvers.bounds import SUBSET_TOL, Bounds, more_and_more_points
from covopt.solvers.descent import PASSES, Descent
from covopt.solvers.generation import MANY_ROWS, Generation
from covopt.solvers.interpolating import InterpolatingDescent
from covopt.solvers.loop import Point, RoundState
from covopt.solvers.quick import has_no_room, is_out_of_reach
from covopt.solvers.searching import searching

# for a first network and a bound: seconds, or a share of the time limit if that is longer
SOON_S, SOON_SHARE = 0.25, 0.1
COLUMNS, DESCENT, RELAXATION = "column-generation", "descent with local search", "relaxation"
ENDED = (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK)


def descent_of(problem: Problem, random_state: int | None) -> Descent | InterpolatingDescent:
    """Return the descent of a problem; it begins with the best constant or, for interpolation, without a network."""
    if problem.interpolates:
        return InterpolatingDescent(problem, random_state)
    return Descent(problem, random_state)


class Improvement:
    """The loop and the best bracket so far.

    Parameters
    ----------
    problem : Problem
        With the norm as the cost of a neuron.
    oracle : callable
        Returns the exact oracle of the rows that are not zero, None without such rows, or raises BudgetError.
    tol : float
    time_limit_s : float, optional
        From now.
    effort : float
        See :class:`~covopt.solvers.bounds.Bounds`.
    proves : bool
        Whether dual norms are bounded by search; else by the semidefinite relaxation.
    **options
        ``random_state``, ``callback`` and ``warm``, of :func:`~covopt.solvers.generation.generate`.

    Attributes
    ----------
    point : Point
        Initially the best constant or, for interpolation, no network.
    name : str
        The method that found it, in words.

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
        self.limit, self.began, self.seed = time_limit_s, now(), options.get("random_state")
        self.callback, self.options = options.get("callback"), options | {"callback": self._seen}
        self.is_cut = False  # whether a descent was cut off at its share of the limit
        self.descent = descent_of(problem, self.seed)
        self.is_searched = not proves or (self.problem.is_scalar and problem.rows.shape[1] > MOST_FACED)
        self.closes = problem.is_scalar and suits_search(*problem.rows.shape)
        self.point, self.name = self.descent.point, "constant"

    @property
    def left(self) -> float | None:
        """Remaining seconds."""
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
        # for interpolation columns find better networks; else pricing all faces is slow beyond three dimensions
        meets = problem.interpolates and oracle is not None
        is_dear = not meets and problem.rows.shape[1] > MOST_FACED
        begins = is_far or is_dear or oracle is None or (is_late and not meets)
        columns = follows or not is_far
        if self.options.get("warm") is None and begins and problem.rows.any():
            part = 1 / 3 if columns or problem.interpolates else 1 / 2
            yield from self._descents(part, meets=columns and problem.interpolates and self.closes)
            if self.point.status is Status.CALLBACK:
                return
            self.options["warm"] = self.descent.point.warm
        if columns:
            yield from self._columns(oracle)
        elif self.proves and np.isfinite(self.point.upper_bound):
            self._bounded(self.point, self.point.dual, DESCENT)
            if no_room or (problem.interpolates and self.point.status is not Status.CERTIFIED):
                # with more time, column generation would do better
                self.point.status = Status.GAP if no_room or self.limit is None else Status.TIME_LIMIT
            yield self.point

    def _descents(self, part: float, meets: bool) -> Iterator[Point]:
        """Yield the best point after each descent, within their share of the time; for interpolation only one.

        A descent that is cut off need not interpolate if the columns that follow do so sooner (``meets``).
        """
        left, through, more = self.left, self.problem.interpolates, True
        end = now() + part * (np.inf if left is None else left)
        # where columns close the gap, pricing finds missing neurons better
        points = self.descent.run(passes=0 if self.closes else PASSES)
        try:
            while more:
                with limited(None if left is None else max(end - now(), 1e-6)):
                    more = next(points, None) is not None
                if more and np.isfinite(self.descent.point.upper_bound):
                    yield self._improved(self.descent.point, DESCENT)
                    if through:  # column generation reports the first round
                        return
                    if self._report():
                        self.point.status = Status.CALLBACK
                        return
        except TimeUp:  # bounds and columns need the rest
            self.is_cut = True
        if not np.isfinite(self.descent.point.upper_bound) and not (self.is_cut and meets):
            self.descent.rescue(self.left or np.inf)
        if self.descent.point.upper_bound < self.point.upper_bound:
            yield self._improved(self.descent.point, DESCENT)

    def run(
        self,
        others: Iterator[tuple[Point, str]] | None = None,
        *,
        is_over: bool = False,
        rescues: bool = True,
    ) -> Point:
        """Take steps until the gap is small, or a deadline, an interrupt or the callback stops them.

        Parameters
        ----------
        others : iterator of (Point, str), optional
            Points of other solvers and the solvers' names, used instead of these steps.
        is_over : bool
            Whether an interrupt has already ended the solve.
        rescues : bool
            Whether :meth:`rescue` may make a network if none was found.
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
        if rescues and (status is not None or is_lost or (not len(point.neurons) and is_cut)):
            self.rescue(hurries=status is Status.INTERRUPTED)
        stopped = self.point.status is Status.INTERRUPTED
        if status is None and self.point.gap <= self.tol and not stopped:  # by the bounds of two steps
            status = Status.CERTIFIED
        if status is None and self.is_cut and self.point.status is Status.HEURISTIC:
            status = Status.TIME_LIMIT
        if status is not None:
            self.point = dataclasses.replace(self.point, status=status)
        return self.point

    def rescue(self, *, hurries: bool = False) -> None:
        """Use the network of a cut-off descent, or make one quickly; for interpolation add a missing lower bound."""
        soon = SOON_S if hurries or self.limit is None else max(SOON_S, SOON_SHARE * self.limit)
        self._take_descent()
        with defer_interrupts():
            if not len(self.point.neurons):
                with contextlib.suppress(TimeUp), limited(soon):
                    self.descent.rescue(max(soon, HURRY_S))
                if (
                    isinstance(self.descent, InterpolatingDescent)
                    and self.descent.point.upper_bound == np.inf
                ):
                    self.descent.take_quick(soon)
                self._take_descent()
            if self.problem.interpolates and not (self.point.history and self.point.lower_bound > 0.0):
                for dual in more_and_more_points(self.problem, soon, self.seed, self.point.dual):
                    lower = self.problem.dual_value(dual)
                    if lower > self.point.lower_bound:
                        self.point = dataclasses.replace(self.point, dual=dual, lower_bound=lower)

    def _take_descent(self) -> None:
        if self.descent.point.upper_bound < self.point.upper_bound:
            self.point = self.point.merged(self.descent.point)
            if not (self.problem.interpolates and self.point.lower_bound > 0.0):
                self.name = DESCENT  # the name is the dual's method: after local search its bound takes long

    def _columns(self, oracle: Any) -> Iterator[Point]:
        """Generate columns by the exact oracle, else by local search proved by signs and boxes; then raise bounds."""
        problem, rank = self.problem, self.problem.rows.shape[1]
        closes, name = self.closes, COLUMNS
        if oracle is not None:  # integers may prove what faces of several outputs do not
            closes = getattr(oracle, "proved", True) or suits_integers(problem.rows, problem.targets)
        # where no bound gets that close, a brief search need not solve to the last digit
        is_brief = not closes and self.limit is None and self.effort < 1.0
        tol = self.tol / self.effort if is_brief else self.tol
        options = self.options | {"tol": tol, "is_brief": is_brief}
        if oracle is not None or not problem.rows.any():
            yield self._solved(Generation(problem, oracle, **options, time_limit_s=self.left), COLUMNS)
            return
        name, again = f"{COLUMNS} with local search", True
        if problem.is_scalar and suits_boxes(rank):
            name = f"{COLUMNS} with boxes"
        # no bound proves the last digits, which take as long as all before
        if problem.is_scalar and problem.interpolates and rank > MOST_FACED and not closes:
            options["tol"] = max(tol, SUBSET_TOL)
        # share of the time, since bounds follow; interpolation with proofs on the way leaves less to them
        part = 2 / 3 if problem.interpolates and closes else 1 / 2
        while again:
            rounds = searching(
                problem, **options, time_limit_s=self.left and part * self.left, proves=self.proves,
                effort=self.effort,
            )  # fmt: skip
            found = self._solved(rounds, name)
            if not self.proves:
                self.name += ", bound by a semidefinite relaxation"
            elif found.status is Status.CERTIFIED and not suits_boxes(rank):
                self.name = f"{COLUMNS} with branch and bound"
            yield found
            if found.status not in (Status.GAP, Status.TIME_LIMIT):
                return
            is_exact = self._bounded(rounds.point, rounds.last_dual, self.name, rounds.failed)
            yield self.point
            # the remaining gap is due to column generation, which the deadline has cut off
            again = is_exact and found.status is Status.TIME_LIMIT and not problem.interpolates
            options["warm"] = rounds.point.warm

    def _solved(self, rounds: Generation, name: str) -> Point:
        """Run rounds, and keep what they found and proved, whatever ends them."""
        try:
            rounds.solve()
        finally:
            self._improved(rounds.known(), name)
        return self.point

    def _bounded(self, point: Point, dual: np.ndarray, name: str, failed: bool = False) -> bool:
        """Raise the bound of a point in the remaining time; return whether the bound of this dual is exact."""
        bounds = Bounds(
            self.problem, dataclasses.replace(point), dual, tol=self.tol, time_s=self.left,
            effort=self.effort, callback=self._seen, random_state=self.seed, failed=failed,
        )  # fmt: skip
        try:
            bounds.raise_all(proves=self.proves)
        finally:
            self._improved(bounds.point, name)
        return bounds.is_exact

    def _improved(self, point: Point, name: str) -> Point:
        self.point, self.name = point.merged(self.point), name
        return self.point

    def _report(self) -> bool:
        """Report the result of a descent to the callback; return whether to stop."""
        point = self.point
        state = RoundState(
            len(point.history), point.lower_bound, point.upper_bound, point.gap, len(point.neurons),
            now() - self.began, "descent on both layers",
        )  # fmt: skip
        point.history.append(state)
        return self.callback is not None and bool(self.callback(state, point))

    def _seen(self, state: Any, point: Point) -> bool:
        """Report rounds, merged with the best point so far, to the callback; return whether to stop."""
        return self.callback is not None and bool(self.callback(state, point.merged(self.point)))
