"""Checkpoints of a solve: one file, a solution with its bracket so far, and what the rounds go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.api.path_files import path_from_dict, save_path
from covopt.api.solution_path import FORMAT as PATH
from covopt.api.solution_path import SolutionPath
from covopt.api.stopping import Allowance, Clock
from covopt.certificates.certify import Conclusion, conclude
from covopt.certificates.prechecks import not_finite, structure
from covopt.checks.checkpoints import EVERY_S, SHARE, Checkpoint
from covopt.checks.kept import KeptFile
from covopt.checks.rounds import Checkpoints, State, checkpointing, from_json, to_json
from covopt.checks.speaking import logger
from covopt.data import Data
from covopt.errors import InputError, SolutionFileError
from covopt.exact.rounding import relative_gap
from covopt.files import write_json
from covopt.limits import now, patiently
from covopt.losses import Loss
from covopt.solution import Solution
from covopt.status import Status

STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK)
RESUME = "resume"  # where the state stands in the file of a solution


class CheckpointFile(KeptFile):
    """The file of a checkpoint while a solve has it.

    Parameters
    ----------
    asked : Checkpoint

    Attributes
    ----------
    found : Solution or None
        What an earlier run has left.
    path_found : SolutionPath
        The same of a path.
    start : dict or None
        State of the rounds of that run.
    """

    what = "the solve"

    def __init__(self, asked: Checkpoint):
        super().__init__(asked)
        self.found: Solution | None = None
        self.path_found = SolutionPath()
        self.start: State | None = None

    def open(self, *, of_path: bool = False) -> None:
        """Take the file for this solve, and read it where it exists.

        Raises
        ------
        InputError
            Where the folder does not exist, cannot be written, or another process writes the file.
        SolutionFileError
            Where the file is something else, or damaged.
        """
        self.take()
        if self.content is None:
            return
        try:
            with self.named():
                self._read(self.content)
            if of_path != bool(self.path_found):
                what = "a path" if self.path_found else "one solve"
                raise InputError(f"the checkpoint {self.path} is of {what}; choose another file.")
        except BaseException:
            self.close()
            raise
        self.content = None

    def _read(self, content: Any) -> None:
        if isinstance(content, dict) and content.get("format") == PATH:
            self.path_found = path_from_dict(content)
            return
        self.found = Solution.from_dict(content)
        if not all(type(each.get("round", 0)) is int for each in self.found.history):
            raise SolutionFileError("it is damaged: the rounds of its history are not counted")
        state = content.get(RESUME)
        if state is None:
            return
        try:
            self.start = from_json(state)
            _check_positive(self.start)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise SolutionFileError(f"it is damaged: {error}") from error

    def offer_path(self, solutions: SolutionPath) -> None:
        """Write the points of a path so far where that is due."""
        if self.is_due:
            self.attempt(lambda: save_path(solutions, self.path))
            self.wait()

    def conclude_path(self, solutions: SolutionPath, asked: int) -> None:
        """Remove the file where all points are done; else leave those that are."""
        if len(solutions) == asked and solutions[-1].status not in STOPPED:
            self.remove()
        elif solutions:
            self.attempt(lambda: save_path(solutions, self.path))

    def check_same(
        self,
        data: Data,
        output_bias: str,
        potential: str,
        lam: float | None = None,
        loss: Loss | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> None:
        """Refuse to go on from the checkpoint of another problem.

        Raises
        ------
        InputError
        """
        found = self.found
        if found is None:
            return
        theirs = found.data
        same = {
            "X": np.array_equal(data.X, theirs.X), "Y": np.array_equal(data.Y, theirs.Y),
            "bias": data.bias == theirs.bias, "output_bias": output_bias == found.output_bias,
            "potential": potential == found.potential, "lam": lam == found.lam,
            "loss": (loss and loss.parameters()) == (found.loss and found.loss.parameters()),
            "sample_weight": _equal(sample_weight, found.sample_weight),
        }  # fmt: skip
        for name, is_same in same.items():
            if not is_same:
                raise InputError(
                    f"the checkpoint {self.path} is of another problem: {name} differs; give the same table and "
                    "options, or another file."
                )

    def write_solution(self, solution: Solution, state: State | None) -> None:
        """Write the file; where that fails, say so and go on."""
        content = solution.to_dict()
        if state is not None:
            content[RESUME] = to_json(state)
        if self.attempt(lambda: write_json(self.path, content)):
            logger.debug("checkpoint %s: gap %.1e", self.path, solution.gap)

    def conclude(self, solution: Solution, state: State | None) -> None:
        """Leave in the file what a solve that was stopped ended with; remove it where the solve came to its end."""
        if solution.status in STOPPED:
            self.write_solution(solution, state)
        else:
            self.remove()


def resumed_path(checkpoint: CheckpointFile, task: Any, grid: np.ndarray) -> SolutionPath:
    """Return the points of a path that an earlier run finished.

    Parameters
    ----------
    checkpoint : Checkpoint
    task : FitTask
    grid : ndarray
        The λ of this run.

    Raises
    ------
    InputError
        Where the file is of another path.
    """
    done = SolutionPath()
    for solution, lam in zip(checkpoint.path_found, grid, strict=False):
        checkpoint.found = solution
        checkpoint.check_same(
            task.data, task.output_bias, task.potential, float(lam), task.loss, task.sample_weight
        )
        again = None if solution.status in STOPPED else _again(task, solution)
        if again is None:
            break
        done.append(again)
    return done


def _again(task: Any, solution: Solution) -> Solution | None:
    """Return a point of a path with what its network and its dual prove; None where that is less than was stated."""
    if not_finite(solution) or not all(check.ok for check in structure(solution)):
        return None
    found = conclude(
        task.data, replace(solution.network, scaling=None), solution.dual, stopped=solution.status, tol=task.tol,
        output_bias=task.output_bias, loss=task.loss, lam=float(solution.lam or 0.0), potential=task.weighing,
        goal=solution.certificate.goal(task.data.rank),
    )  # fmt: skip
    if solution.status is Status.CERTIFIED is not found.status:
        return None
    network = replace(solution.network, scaling=task.scaling)
    return replace(
        solution,
        network=network,
        dual=found.dual,
        certificate=found.certificate,
        status=found.status,
        tol=task.tol,
    )


@contextmanager
def opened(checkpoint: Checkpoint | None, *, of_path: bool = False) -> Iterator[CheckpointFile | None]:
    """Hold a checkpoint's file in the block, read where it exists.

    Parameters
    ----------
    checkpoint : Checkpoint or None
    of_path : bool
        Whether a path keeps it.
    """
    if checkpoint is None:
        yield None
        return
    file = CheckpointFile(checkpoint)
    file.open(of_path=of_path)
    try:
        yield file
    finally:
        file.close()


@contextmanager
def resumable(
    file: CheckpointFile | None,
    problem: Any,
    *,
    halfway: Callable[[Any, Clock], Solution],
    better: Callable[[Solution, Solution], Solution],
    asked: tuple[Any, ...],
) -> Iterator[Callable[[Solution], Solution]]:
    """Let a solve write its checkpoint, and go on from it where it exists.

    Parameters
    ----------
    file : CheckpointFile or None
    problem : object
        The solver's, whose rounds are kept.
    halfway : callable
        Makes a certified solution of a solver's point in the time of a clock, beyond which its bound is a weak one.
    better : callable
        Makes of the solution and an earlier one the solution with the better network and the better dual.
    asked : tuple
        What the problem is: the arguments of :meth:`CheckpointFile.check_same`.

    Yields
    ------
    callable
        To be called with the solution: joins it with what an earlier run had, and leaves or removes the file.
    """
    if file is None:
        yield lambda solution: solution
        return
    file.check_same(*asked)
    found, certified = file.found, _InTime(halfway, file.every_s)
    kept = Checkpoints(
        problem, lambda point, state: file.write_solution(_after(certified(point), found), state),
        every_s=file.every_s, state=file.start,
    )  # fmt: skip

    def conclude(solution: Solution) -> Solution:
        if found is not None:
            solution = _after(better(solution, found), found)
        with patiently():
            file.conclude(solution, kept.state)
        return solution

    with checkpointing(kept):
        yield conclude


class _InTime:
    """Certified solutions of rounds for checkpoints, all of them in a hundredth of the time that has passed.

    A certificate may take seconds where the solver's rounds are bounded by less than it looks at. One that is given
    up is tried again when twice the time may be spent on it; until then the bound is that of the last one.
    """

    def __init__(self, halfway: Callable[[Any, Clock], Solution], every_s: float):
        self._halfway, self._began = halfway, now() if every_s else -np.inf
        self._spent = self._given_up = 0.0
        self._best: Solution | None = None

    def __call__(self, point: Any) -> Solution:
        began = now()
        left = SHARE * max(began - self._began, EVERY_S) - self._spent
        given = left if left >= 2.0 * self._given_up else 0.0
        solution = self._halfway(point, Allowance(None if given == np.inf else given))
        took = now() - began
        self._spent += took
        if 0.0 < given < took:
            self._given_up = given
        best = self._best
        if best is None or best.lower_bound < solution.lower_bound:
            self._best = solution
            return solution
        stated, bound = solution.certificate, best.certificate
        certificate = replace(
            stated, lower_bound=bound.lower_bound, gap=relative_gap(stated.objective, bound.lower_bound),
            gauge=bound.gauge, exact=bound.exact, bound=bound.bound,
        )  # fmt: skip
        return replace(solution, dual=best.dual, dual_low=best.dual_low, certificate=certificate)


def joined(
    solution: Solution, earlier: Solution, conclude: Callable[[Any, Solution], Conclusion]
) -> Solution:
    """Return a solution with the network and the dual of an earlier one where they are better.

    Parameters
    ----------
    solution, earlier : Solution
    conclude : callable
        Certifies a network with the dual of a solution; what an earlier file states counts for nothing.
    """
    cheaper = earlier.objective < solution.objective
    if solution.loss is None:
        cheaper &= earlier.certificate.interpolates
    if not cheaper and earlier.lower_bound <= solution.lower_bound:
        return solution
    tighter = earlier if earlier.lower_bound > solution.lower_bound else solution
    network = earlier.network if cheaper else solution.network
    network = replace(network, scaling=solution.network.scaling)
    found = conclude(replace(network, scaling=None), tighter)
    if found.certificate.gap >= solution.gap:
        return solution
    return replace(
        solution, network=network, dual=found.dual, dual_low=found.low, certificate=found.certificate,
        status=found.status,
    )  # fmt: skip


def _after(solution: Solution, earlier: Solution | None) -> Solution:
    """Return a solution with the rounds and the time of the run before in front of its own."""
    if earlier is None:
        return solution
    first = 1 + max((int(each.get("round", 0)) for each in earlier.history), default=-1)
    later = [
        {**each, "round": each["round"] + first, "time_s": each["time_s"] + earlier.time_s}
        for each in solution.history
    ]
    names = {*solution.timings, *earlier.timings}
    timings = {name: solution.timings.get(name, 0.0) + earlier.timings.get(name, 0.0) for name in names}
    return replace(
        solution, history=[*earlier.history, *later], time_s=solution.time_s + earlier.time_s,
        timings=dict(sorted(timings.items(), key=lambda item: -item[1])),
    )  # fmt: skip


def _equal(first: np.ndarray | None, second: np.ndarray | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _check_positive(state: State) -> None:
    for name in ("cones", "edges"):
        for each, array in state.get(name, {}).items():
            if each in ("slack", "force", "masses") and not (array > 0.0).all():
                raise ValueError(f"{each} of the {name} must be positive")
