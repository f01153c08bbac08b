"""Checkpoints of a solve: one file, a solution with its bracket so far, and what the rounds go on from."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from covopt.checks.speaking import logger
from covopt.checks.validation import check_number
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from covopt.files import read_json, write_json
from covopt.limits import patiently
from covopt.solution import Solution
from covopt.solvers.checkpoints import Checkpoints, State, checkpointing, from_json, to_json
from covopt.status import Status

EVERY_S = 60.0
RESUME = "resume"  # where the state stands in the file of a solution


class Checkpoint:
    """A file that a solve writes from time to time, and goes on from where it exists.

    It is the file of a :class:`~covopt.Solution`, the network and the bracket so far, so that :func:`covopt.load` and
    :func:`covopt.verify` read it; beside that it has the state of the solver's rounds. The answer of a solve that
    goes on is certified as any other: nothing in the file is believed.

    A solve that ends certified removes the file; one that is stopped leaves it.

    Parameters
    ----------
    path : path-like
    every_s : float
        Seconds between two of them. They take at most a hundredth of the time: where writing one takes long, the
        next one comes later.
    resume : bool
        Whether to go on from the file where it exists; else it is written anew.

    Raises
    ------
    InputError
        When ``every_s`` is no number ≥ 0.

    Examples
    --------
    >>> import covopt, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.checkpoint"
    >>> X, y = [[-1.0], [0.0], [1.0], [3.0]], [1.0, 0.0, 1.0, 0.0]
    >>> first = covopt.min_norm(X, y, checkpoint=file, callback=lambda state: state.round == 2)
    >>> covopt.load(file).status.code
    'callback'
    >>> covopt.min_norm(X, y, checkpoint=file).status.code, file.exists()
    ('certified', False)
    """

    def __init__(self, path: str | os.PathLike[str], *, every_s: float = EVERY_S, resume: bool = True):
        self.path, self.resume = Path(path), resume
        self.every_s = check_number("every_s", every_s, "a number of seconds ≥ 0", lambda v: 0 <= v < np.inf)
        self.found: Solution | None = None
        self.start: State | None = None
        self._lock: Any = None

    def open(self) -> None:
        """Take the file for this solve, and read it where it exists.

        Raises
        ------
        InputError
            Where the folder does not exist, cannot be written, or another process writes the file.
        SolutionFileError
            Where the file is something else, or damaged.
        """
        from filelock import FileLock, Timeout

        if not self.path.parent.is_dir():
            raise InputError(f"cannot write the checkpoint {self.path}: there is no folder {self.path.parent}.")
        self._lock = FileLock(f"{self.path}.lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            self._lock = None
            raise InputError(
                f"another process writes the checkpoint {self.path}; wait for it, or choose another file."
            ) from None
        except OSError as error:
            self._lock = None
            raise InputError(f"cannot write the checkpoint {self.path}: {error.strerror or error}.") from None
        if self.resume and self.path.exists():
            try:
                self._read()
            except BaseException:
                self.close()
                raise

    def _read(self) -> None:
        content = read_json(self.path)
        self.found = Solution.from_dict(content)
        state = content.get(RESUME)
        if state is None:
            return
        try:
            self.start = from_json(state)
            _check_positive(self.start)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise SolutionFileError(f"the checkpoint is damaged: {error}") from error

    def close(self) -> None:
        """Give the file back."""
        if self._lock is not None:
            self._lock.release()
            Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock = None

    def check_same(self, asked: dict[str, Any]) -> None:
        """Refuse to go on from the checkpoint of another problem.

        Parameters
        ----------
        asked : dict
            Some of ``X``, ``Y``, ``bias``, ``output_bias``, ``potential``, ``lam``, ``loss``, ``sample_weight``.

        Raises
        ------
        InputError
        """
        found = self.found
        if found is None:
            return
        stated = {
            "X": found.data.X, "Y": found.data.Y, "bias": found.data.bias, "output_bias": found.output_bias,
            "potential": found.potential, "lam": found.lam,
            "loss": None if found.loss is None else found.loss.parameters(), "sample_weight": found.sample_weight,
        }  # fmt: skip
        for name, value in stated.items():
            if not _equal(asked.get(name), value):
                raise InputError(
                    f"the checkpoint {self.path} is of another problem: {name} differs; give the same table and "
                    "options, or another file."
                )

    def write(self, solution: Solution, state: State | None) -> None:
        """Write the file; where that fails, say so and go on."""
        content = solution.to_dict()
        if state is not None:
            content[RESUME] = to_json(state)
        try:
            write_json(self.path, content)
            logger.debug("checkpoint %s: gap %.1e", self.path, solution.gap)
        except OSError as error:
            warnings.warn(
                f"the checkpoint {self.path} could not be written: {error.strerror or error}; the solve goes on.",
                CheckpointWarning,
                stacklevel=2,
            )

    def conclude(self, solution: Solution, state: State | None) -> None:
        """Remove the file where the solve ended certified; else leave in it what the solve ended with."""
        if solution.status is Status.CERTIFIED:
            self.path.unlink(missing_ok=True)
        else:
            self.write(solution, state)


@contextmanager
def resumable(
    checkpoint: Checkpoint | None,
    problem: Any,
    *,
    halfway: Callable[[Any], Solution],
    better: Callable[[Solution, Solution], Solution],
    asked: dict[str, Any],
) -> Iterator[Callable[[Solution], Solution]]:
    """Let a solve write its checkpoint, and go on from it where it exists.

    Parameters
    ----------
    checkpoint : Checkpoint or None
    problem : object
        The solver's, whose rounds are kept.
    halfway : callable
        Makes a certified solution of a solver's point.
    better : callable
        Makes of the solution and an earlier one the solution with the better network and the better dual.
    asked : dict
        What the problem is; see :meth:`Checkpoint.check_same`.

    Yields
    ------
    callable
        To be called with the solution: joins it with what an earlier run had, and leaves or removes the file.
    """
    if checkpoint is None:
        yield lambda solution: solution
        return
    checkpoint.open()
    try:
        checkpoint.check_same(asked)
        found = checkpoint.found
        kept = Checkpoints(
            problem, lambda point, state: checkpoint.write(_after(halfway(point), found), state),
            every_s=checkpoint.every_s, state=checkpoint.start,
        )  # fmt: skip

        def conclude(solution: Solution) -> Solution:
            if found is not None:
                solution = _after(better(solution, found), found)
            with patiently():
                checkpoint.conclude(solution, kept.state)
            return solution

        with checkpointing(kept):
            yield conclude
    finally:
        checkpoint.close()


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


def as_checkpoint(checkpoint: Any) -> Checkpoint | None:
    """Return what a user gave as a :class:`Checkpoint`.

    Raises
    ------
    InputError
        Where it is neither a path nor a checkpoint.
    """
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    if isinstance(checkpoint, str | os.PathLike):
        return Checkpoint(checkpoint)
    raise InputError(
        f"checkpoint must be a path or a covopt.Checkpoint; received {type(checkpoint).__name__}."
    )


def _check_positive(state: State) -> None:
    for name in ("cones", "edges"):
        for each, array in state.get(name, {}).items():
            if each in ("slack", "force", "masses") and not (array > 0.0).all():
                raise ValueError(f"{each} of the {name} must be positive")


def _equal(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None or isinstance(ours, str | float | dict):
        return bool(ours is theirs or (ours is not None and theirs is not None and ours == theirs))
    return np.array_equal(np.asarray(ours), np.asarray(theirs))

