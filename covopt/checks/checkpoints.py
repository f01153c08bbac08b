"""What a user asks for when a solve is to be kept: which file, how often, whether to go on from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from covopt.checks.validation import check_number
from covopt.errors import InputError

EVERY_S = 60.0
REST = 1.0  # times what a checkpoint took, until the next one at least
SHARE = 0.01  # of the time that has passed, that certificates for checkpoints may take


class Checkpoint:
    """A file that a solve writes from time to time, and goes on from where it exists.

    It is the file of a :class:`~covopt.Solution`, the network and the bracket so far: :func:`covopt.load` and
    :func:`covopt.verify` read it. A solve that goes on starts from its network and its dual point. Its answer is
    certified as any other: nothing in the file is believed.

    A solve that comes to its end removes the file; one that is stopped (time limit, Ctrl-C, callback) leaves it.

    Parameters
    ----------
    path : path-like
    every_s : float
        Seconds between two writes; they come between rounds, so a long round makes them rarer. 0 writes after every
        round. New bounds for the file may take a hundredth of the time; beyond that it states an earlier bound.
    resume : bool
        Whether to go on from the file where it exists; else it is written anew.
    keep : bool
        Whether the file is left where a solve comes to its end, for who removes it once the result is saved.

    Attributes
    ----------
    stopped : bool
        Whether the last ``prove`` or ``cp_rank`` that had it was stopped, so that there is something to go on with.

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

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every_s: float = EVERY_S,
        resume: bool = True,
        keep: bool = False,
    ):
        self.path, self.resume, self.keep, self.stopped = Path(path), resume, keep, False
        self.every_s = check_number("every_s", every_s, "a number of seconds ≥ 0", lambda v: 0 <= v < np.inf)


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
