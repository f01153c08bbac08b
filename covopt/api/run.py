"""One solve: the warm start, the choice of the solver, and the certified solution in the user's units."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.api.lambdas import check_strength
from covopt.api.stopping import Clock, best_in_time, in_time, noting
from covopt.certificates.certify import Certifier, Conclusion
from covopt.certificates.dual_norms import DualNorm, LabelNoiseDualNorm, VariationDualNorm
from covopt.certificates.tight import sharpened
from covopt.checks.log import log_event, log_result, round_line, timing
from covopt.checks.memory import NoRoom
from covopt.errors import BudgetError, InputError, SolverError, Status
from covopt.exact.far_rows import without_middle
from covopt.exact.rank import FOUND
from covopt.limits import HALF, HURRY_S, TimeUp, now
from covopt.network import ReLUNetwork
from covopt.oracles.base import SHOWN, remember, remembering
from covopt.oracles.certified import certified_dual_norm, fan_limit
from covopt.oracles.faces import MOST_FACED, FaceOracle
from covopt.potentials import LabelNoise
from covopt.problems.half_plane import HalfPlane
from covopt.problems.label_noise import Whitening
from covopt.problems.problem import Problem
from covopt.solution import Solution
from covopt.solvers.improve import COLUMNS, DESCENT, RELAXATION, Improvement
from covopt.solvers.label_noise import solve_label_noise
from covopt.solvers.loop import Point, RoundState, WarmStart
from covopt.solvers.one_input import solve_one_input
from covopt.solvers.postprocess import Network, finish_network, with_few_neurons
from covopt.solvers.quick import has_no_room, is_out_of_reach

if TYPE_CHECKING:
    from covopt.api.task import Task

CONIC = "conic:"
GENERATION = ("auto", "column-generation")
ROOM = 2.0**-36  # relative margin of a dual to its constraint, which the proof of feasibility uses up
Callback = Callable[[Any], Any]


class Watch:
    """Callback of the solver, which records each round and calls the user's callback.

    Parameters
    ----------
    scale : float
        Factor from the solver's bounds to the user's.
    callback : callable or None
        The user's; a true return value stops.
    began : float
    so_far : callable
        Makes a solution of a point; None where there is none.

    Attributes
    ----------
    history : list of dict
    """

    def __init__(
        self,
        scale: float,
        callback: Callback | None,
        began: float,
        so_far: Callable[[Any], Any] | None = None,
    ):
        self.scale, self.callback, self.began, self.so_far = scale, callback, began, so_far
        self.history: list[dict[str, float]] = []

    def __call__(self, state: RoundState, point: Any) -> bool:
        """Record a round; return whether to stop."""
        state = state.scaled(self.scale, now() - self.began)
        seen = {k: v for k, v in vars(state).items() if (np.isfinite(v) if isinstance(v, int | float) else v)}
        log_event(logging.DEBUG, round_line(state), "round", **seen)
        if state.note:
            note = f"round {state.round}: {state.note}"
            log_event(logging.INFO, note, "note", round=state.round, note=state.note)
        self.history.append(seen)
        if self.so_far is not None and np.isfinite(point.upper_bound):
            state = dataclasses.replace(state, best=partial(self.so_far, dataclasses.replace(point)))
        return self.callback is not None and bool(self.callback(state))


class Run:
    """A task for one λ.

    Parameters
    ----------
    task : Task
    lam, time_limit_s, callback, began
        See :meth:`~covopt.api.task.Task.solve`.
    """

    def __init__(
        self,
        task: Task,
        lam: float,
        time_limit_s: float | None,
        callback: Callback | None,
        began: float,
    ):
        self.task, self.lam, self.clock = task, lam, Clock(time_limit_s, began)
        self.problem, self.reduction = task.reduced(lam)
        self.is_norm = not isinstance(self.reduction, Whitening)  # whether a neuron costs its norm
        if not self.problem.interpolates:
            check_strength(self.problem, lam)
        scale = self.reduction.cost_scale if self.problem.interpolates else self.problem.strength
        self.start: Solution | None = None
        # vanilla and pairwise rounds of Frank–Wolfe make no networks
        self.watch = Watch(scale, callback, began, None if task.rounds else self._so_far)

    def solve(self, start: Solution | None) -> Solution:
        """Solve, from a warm start if there is one; the result is never worse than a start of the same problem."""
        task, self.start = self.task, start
        options: dict[str, Any] = {"random_state": task.random_state, "callback": self.watch}
        is_exact = task.interpolates and self.problem.is_scalar
        options["tol"] = task.tol * (1.0 if is_exact else HALF)  # bounds that are not exact need a margin
        with remembering(), timing(self.clock.began) as watch:
            if start is not None:
                options["warm"] = self._warm(start)
            point, name = self._point(options)
            solution = self._solution(point, name, self.clock)
            solution = dataclasses.replace(self._better(solution), timings=watch.seconds())
        log_result(solution)
        return solution

    # ------------------------------------------------------------------ the solver
    def _point(self, options: dict[str, Any]) -> tuple[Point, str]:
        """Run the solver; return its point and its name."""
        task, problem = self.task, self.problem
        n, rank = problem.rows.shape
        proves = rank > MOST_FACED if problem.is_scalar else fan_limit(n, rank, SHOWN) < problem.n_outputs
        loop = Improvement(
            problem, lambda: task.oracle(problem), effort=task.effort, proves=task.solver != RELAXATION,
            time_limit_s=self.clock.for_solver(proves=proves and self.is_norm), **options,
        )  # fmt: skip
        others = other_solvers(task, loop)
        point = loop.run(others, is_over=task.interrupted, rescues=self.is_norm)
        if problem.interpolates and task.solver in GENERATION and self.is_norm and task.tol <= FOUND:
            point = sharpened(problem, point)
        return point, loop.name

    def _so_far(self, point: Point) -> Solution:
        """Return the solution of an intermediate point, with the bound that takes no search.

        Another thread may call this: it uses nothing that the solve changes.
        """
        run = Run(self.task, self.lam, None, None, self.clock.began)
        point, run.start = dataclasses.replace(point, status=Status.INTERRUPTED), self.start
        found = run._better(run._certified(point, run._network(*point.network), DESCENT, run.clock))
        if run.clock.interrupted:
            raise KeyboardInterrupt
        return dataclasses.replace(found, history=list(self.watch.history))

    # ------------------------------------------------------------------ the user's units
    def _solution(self, point: Point, name: str, clock: Clock) -> Solution:
        """Return the certified solution of a point, in the time of a clock."""
        if point.status is Status.INTERRUPTED:
            clock.hurry()
        elif point.status is Status.CALLBACK:
            # a sparse network of 2000 points takes three times as long as the rounds
            clock.hurry(max(HURRY_S, HALF * (now() - clock.began)))
        self._prove(point, clock)
        network = self._network(*self._finished(point, clock))
        return self._certified(point, network, name, clock)

    def _certified(self, point: Point, network: ReLUNetwork, name: str, clock: Clock) -> Solution:
        task = self.task
        found = self._concluded(point, network, name, clock)
        if found.status is Status.HEURISTIC and clock.is_spent:
            found = found._replace(status=Status.TIME_LIMIT)
        if not np.isfinite(found.certificate.objective):
            raise InputError(
                "the norm of such a network is beyond double precision; divide Y, or multiply X, by its size."
            )
        if clock.interrupted:
            task.interrupted = True
            if found.status is not Status.CERTIFIED:
                found = found._replace(status=Status.INTERRUPTED)
        through, largest = task.interpolates, task.largest_known
        return Solution(
            task.data, task.output_bias, task.potential, dataclasses.replace(network, scaling=task.scaling),
            *found[:3], task.tol, name, self.watch.history, now() - clock.began, task.random_state,
            lam=None if through else self.lam, loss=task.named_loss, sample_weight=task.sample_weight,
            lambda_max=largest, dual_low=found.low,
            held_out=task.held_out,
        )  # fmt: skip

    def _prove(self, point: Point, clock: Clock) -> None:
        """Bound the dual norm by all faces before the network is finished, which may take all the remaining time.

        With this, 500 noisy points have a gap of .4 after a second; without it, no useful gap.
        """
        rows = self.problem.rows[self.problem.rows.any(axis=1)]
        if clock.limit is None or not self.is_norm or rows.shape[1] > MOST_FACED:
            return
        dual = np.ascontiguousarray(point.dual[self.problem.rows.any(axis=1)])
        if dual.any():
            in_time(
                clock, lambda: remember(rows, dual, self._dual_norm(rows, dual)), lambda: None, halved=True
            )

    def _dual_norm(self, rows: np.ndarray, dual: np.ndarray) -> float:
        """Bound the dual norm of a dual that was scaled in the rounds, by the faces that these have sorted."""
        found = None
        with contextlib.suppress(BudgetError):
            # a dual supported on few points needs the faces of these only
            oracle = self.task.oracle(self.problem) if dual.all() else None
            if isinstance(oracle, FaceOracle):
                found = oracle.proved_bound(dual[:, 0], 1.0 + FOUND)
        return certified_dual_norm(rows, dual).value if found is None else found

    def _finished(self, point: Point, clock: Clock) -> Network:
        """Return the network merged and made sparse, as far as there is time."""
        problem, network = self.problem, point.network
        if not point.finished:
            network = in_time(
                clock, lambda: finish_network(problem, *point.network), lambda: point.network, halved=True
            )
        if not problem.interpolates:
            return network
        fewer = partial(with_few_neurons, problem, *network, spare=clock.half())
        return in_time(clock, fewer, lambda: network, share=0.5)

    def _network(self, neurons, weights, offset) -> ReLUNetwork:
        """Return a network of the reduced problem in the user's units."""
        return self.task.network(self.reduction, neurons, weights, offset)

    # ------------------------------------------------------------------ the certificate
    def _certifier(self, network: ReLUNetwork) -> Certifier:
        task = self.task
        dual_norm: DualNorm = VariationDualNorm(task.data, self.reduction.keep)
        if isinstance(self.reduction, Whitening):
            dual_norm = LabelNoiseDualNorm(self.reduction)
        return Certifier(
            task.data, network, output_bias=task.output_bias, loss=task.named_loss, lam=self.lam,
            dual_norm=dual_norm,
        )  # fmt: skip

    def _concluded(self, point: Point, network: ReLUNetwork, name: str, clock: Clock) -> Conclusion:
        """Certify the solution: with a limit first without a search, then by a search in the remaining time."""
        task, data, reduction = self.task, self.task.data, self.reduction
        dual = reduction.invert_dual(point.dual)
        low = reduction.invert_low(point.dual_low)
        hoped = None if point.hoped is None else reduction.invert_dual(point.hoped)
        if data.n_outputs == 1:  # one axis, as users see it
            dual, low = dual[:, 0], None if low is None else low[:, 0]
            hoped = None if hoped is None else hoped[:, 0]
        if task.interpolates and self.is_norm and low is None:
            dual = dual * (1.0 - ROOM)
        options: dict[str, Any] = {"stopped": point.status, "tol": task.tol}
        hold = None
        if (
            reduction.is_far
        ):  # where rows were brought closer, the component along their middle is removed from the dual
            free = self.problem.offset_cost == 0.0  # or negligible: Λᵀ1 = 0 has to hold to the last digit

            def hold(dual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                return without_middle(data.lifted, dual, keep_sums=free)

        goal = 1.0 if point.claimed else None
        certifier = noting(clock, lambda: self._certifier(network))
        if not self.is_norm:
            return certifier.conclude(dual, **options)

        def searched(effort: float) -> Conclusion:
            effort *= task.effort
            # the dual's own bound is known and takes no search
            asked = [(dual, effort)] if hoped is None else [(dual, 0.0), (hoped, effort)]
            found = [
                certifier.conclude(each, low=low, hold=hold, goal=goal, effort=work, **options)
                for each, work in asked
            ]
            return max(found, key=lambda made: made.certificate.lower_bound)

        if point.status is Status.INTERRUPTED and name == DESCENT:  # its dual is far from optimal
            return noting(clock, lambda: searched(0.0))
        return best_in_time(
            clock, searched, name=name, key=lambda made: made.certificate.lower_bound,
            enough=lambda made: made.status is Status.CERTIFIED,
        )  # fmt: skip

    def _better(self, solution: Solution) -> Solution:
        """Return a solution with the network and the dual of the start, each if it is better, certified anew."""
        earlier = self.start
        if earlier is None or not self.task.is_solved_by(earlier, self.lam):
            return solution
        cheaper = earlier.objective < solution.objective and earlier.certificate.interpolates
        tighter = earlier if earlier.lower_bound > solution.lower_bound else solution
        if not cheaper and tighter is solution:
            return solution
        network = (earlier if cheaper else solution).network
        found = self._certifier(network.bare()).conclude(
            tighter.dual, low=tighter.dual_low, stopped=solution.status, tol=self.task.tol
        )
        if found.certificate.gap >= solution.gap:
            return solution
        return dataclasses.replace(
            solution, network=dataclasses.replace(network, scaling=self.task.scaling), dual=found.dual,
            dual_low=found.low, certificate=found.certificate, status=found.status,
        )  # fmt: skip

    # ------------------------------------------------------------------ the warm start
    def _warm(self, start: Solution) -> WarmStart:
        """Convert a solution with another λ, loss or weights into a warm start of the solver."""
        neurons, weights, offset = self.reduction.apply_network(*start.network.to_neurons())
        if not self.problem.has_offset:  # the start may have had one
            offset = np.zeros(self.problem.n_outputs)
        return WarmStart(neurons, weights, offset, self.reduction.apply_dual(start.dual))


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
