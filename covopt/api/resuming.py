"""Checkpoints of a solve: the file of a solution, written from time to time, from which the next run starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from covopt.api.solution_path import FORMAT as PATH
from covopt.api.solution_path import SolutionPath, path_from_dict
from covopt.checks.checkpoints import Checkpoint
from covopt.checks.kept import KeptFile
from covopt.errors import InputError
from covopt.solution import Solution
from covopt.status import Status

STOPPED = (Status.TIME_LIMIT, Status.INTERRUPTED, Status.CALLBACK)


class CheckpointFile(KeptFile):
    """The file of a checkpoint while a solve has it.

    Parameters
    ----------
    asked : Checkpoint
    of_path : bool
        Whether a path keeps it.

    Attributes
    ----------
    points : list of Solution
        What an earlier run has left: one solution, or those of a path.
    """

    what = "the solve"

    def __init__(self, asked: Checkpoint, *, of_path: bool = False):
        super().__init__(asked)
        self.points: list[Solution] = []
        self.take()
        try:
            with self.named():
                self._read(of_path=of_path)
        except BaseException:
            self.close()
            raise

    def _read(self, *, of_path: bool) -> None:
        content, self.content = self.content, None
        if content is None:
            return
        is_path = isinstance(content, dict) and content.get("format") == PATH
        if of_path != is_path:
            what = "a path" if is_path else "one solve"
            raise InputError(f"the checkpoint {self.path} is of {what}; choose another file.")
        self.points = list(path_from_dict(content)) if is_path else [Solution.from_dict(content)]

    def start_for(self, stated: dict[str, Any]) -> Solution | None:
        """Return the solution that an earlier run has left, if there is one.

        Parameters
        ----------
        stated : dict
            The problem, of :meth:`~covopt.api.task.Task.stated`.

        Raises
        ------
        InputError
            Where the file is of another problem.
        """
        for found in self.points:
            theirs: dict[str, Any] = {
                "X": found.data.X, "Y": found.data.Y, "bias": found.data.bias, "output_bias": found.output_bias,
                "potential": found.potential, "lam": found.lam, "loss": found.loss and found.loss.parameters(),
                "sample_weight": found.sample_weight,
            }  # fmt: skip
            for name, mine in stated.items():
                if not np.array_equal(mine, theirs[name]):
                    raise InputError(
                        f"the checkpoint {self.path} is of another problem: {name} differs; give the same table and "
                        "options, or another file."
                    )
            return found
        return None

    def conclude(self, found: Solution | SolutionPath, *, is_stopped: bool) -> None:
        """Leave in the file what a run that was stopped ended with; remove it where the run came to its end."""
        if is_stopped:
            self.write(found.to_dict())
        else:
            self.remove()


@contextmanager
def opened(checkpoint: Checkpoint | None, *, of_path: bool = False) -> Iterator[CheckpointFile | None]:
    """Hold a checkpoint's file in the block, read where it exists.

    Parameters
    ----------
    checkpoint : Checkpoint or None
    of_path : bool

    Raises
    ------
    InputError
        Where the folder does not exist, cannot be written, or another process writes the file.
    SolutionFileError
        Where the file is something else, or damaged.
    """
    file = None if checkpoint is None else CheckpointFile(checkpoint, of_path=of_path)
    try:
        yield file
    finally:
        if file is not None:
            file.close()
