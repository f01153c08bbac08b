"""Checkpoints: the networks of a run and their place in the schedule, from which the same call goes on."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from covopt.errors import CheckpointWarning, InputError
from covopt.files import write_atomically
from covopt.training.loop import Runner

_ARRAYS = ("status", "steps", "times", "objectives")


def check_path(checkpoint: Any, resume: Any) -> Path | None:
    """Return where the checkpoint goes.

    Raises
    ------
    InputError
        For ``resume`` without a path, what is no path, and a file that would be overwritten.
    """
    if checkpoint is None:
        if resume:
            raise InputError("resume=True needs the path of the checkpoint: give checkpoint='run.npz'.")
        return None
    if not isinstance(checkpoint, str | os.PathLike):
        raise InputError(f"checkpoint must be a path; received {checkpoint!r}.")
    path = Path(os.fsdecode(checkpoint))
    if not path.parent.is_dir():
        raise InputError(f"cannot write the checkpoint {path}: the folder {path.parent} does not exist.")
    if path.exists() and not resume:
        raise InputError(
            f"checkpoint {path} exists; go on from it with resume=True, or delete it to start anew."
        )
    return path


def digest(*parts: Any) -> str:
    """Return a short hash of arrays, and of what other things are written as.

    Examples
    --------
    >>> digest(np.zeros(2), "a") == digest(np.zeros(2), "a"), digest(np.zeros(2)) == digest(np.zeros((2, 1)))
    (True, False)
    """
    found = hashlib.sha256()
    for part in parts:
        is_array = isinstance(part, np.ndarray)
        found.update(f"{part.shape}{part.dtype.str}".encode() if is_array else f"{part!r};".encode())
        found.update(np.ascontiguousarray(part).tobytes() if is_array else b"")
    return found.hexdigest()[:16]


def write(path: Path, runner: Runner, problem: str) -> None:
    """Write where a run is; where that fails, say so and go on.

    Warns
    -----
    CheckpointWarning
    """
    runner.store()
    content = {
        "problem": problem, "place": [runner.phase, runner.step],
        "weights": np.concatenate([layer.ravel() for layers in runner.weights for layer in layers]),
        "history": np.hstack([np.zeros((4, 0)), *(np.vstack(np.broadcast_arrays(*rows)) for rows in runner.history)]),
        **{name: getattr(runner, name) for name in _ARRAYS},
    }  # fmt: skip
    try:
        write_atomically(path, lambda stream: np.savez(stream, **content))  # type: ignore[arg-type]
    except OSError as error:
        warnings.warn(
            f"the checkpoint {path} could not be written: {error.strerror or error}; training goes on.",
            CheckpointWarning,
            stacklevel=2,
        )


def read(path: Path, runner: Runner, problem: str) -> None:
    """Put a run where the file says; what the optimiser of the phase remembered begins anew.

    Raises
    ------
    InputError
        When the file cannot be read, is no checkpoint, or belongs to another problem.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            content = dict(file)
        if content["problem"] == problem:
            ends = np.cumsum([layer.size for layers in runner.weights for layer in layers])
            flat = iter(np.split(content["weights"], ends))
            runner.weights[:] = [
                [next(flat).reshape(old.shape) for old in layers] for layers in runner.weights
            ]
            runner.phase, runner.step = (int(place) for place in content["place"][:2])
            for name in _ARRAYS:
                getattr(runner, name)[:] = content[name]
            runner.history = [
                (int(row[0]), int(row[1]), np.array([int(row[2])]), row[3:]) for row in content["history"].T
            ]
            return
    except PermissionError:
        raise InputError(f"cannot read the checkpoint {path}: permission denied.") from None
    except Exception:  # whatever is missing, or of another kind
        raise InputError(
            f"{path} is not a checkpoint of this covopt, or it is damaged; give another path."
        ) from None
    raise InputError(
        f"checkpoint {path} belongs to another problem; give what it was written with, or another path."
    )
