"""Checkpoints: where a run is, as ``torch.save`` writes it, with a note of the problem that it belongs to."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from covopt.errors import CheckpointWarning, InputError
from covopt.files import write_atomically
from covopt.training.backend import torch
from covopt.training.grid import Batch
from covopt.training.loop import Runner

FORMAT, SCHEMA = "covopt-checkpoint", 3  # 3: torch.save
_KEPT = ("status", "phase", "step", "elapsed_s")
_ARRAYS = ("steps", "times", "objectives")


def check_path(checkpoint: Any, resume: Any) -> Path | None:
    """Return where the checkpoint goes, after a look at what is there.

    Raises
    ------
    InputError
        For ``resume`` without a path, a path that cannot be written, and a file that would be overwritten.
    """
    if not isinstance(resume, bool | np.bool_):
        raise InputError(f"resume must be True or False; received {resume!r}.")
    if checkpoint is None:
        if resume:
            raise InputError("resume=True needs the path of the checkpoint: give checkpoint='run.pt'.")
        return None
    if not isinstance(checkpoint, str | os.PathLike):
        raise InputError(f"checkpoint must be a path; received {checkpoint!r}.")
    path = Path(os.fsdecode(checkpoint))
    if path.is_dir():
        raise InputError(f"checkpoint {path} is a folder; give the path of a file.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write the checkpoint {path}: the folder {path.parent} does not exist.")
    if path.exists() and not resume:
        raise InputError(
            f"checkpoint {path} exists; go on from it with resume=True, or delete it to start anew."
        )
    return path


def digest(*arrays: np.ndarray) -> str:
    """Return a short hash of arrays, their shapes included.

    Examples
    --------
    >>> digest(np.zeros(2)) == digest(np.zeros(2)), digest(np.zeros(2)) == digest(np.zeros((2, 1)))
    (True, False)
    """
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape}{array.dtype.str}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def write(path: Path, runner: Runner, fingerprint: dict[str, str]) -> None:
    """Write where a run is; where that fails, say so and go on.

    Warns
    -----
    CheckpointWarning
    """
    content = {
        "format": FORMAT, "schema": SCHEMA, "fingerprint": fingerprint,
        **{name: getattr(runner, name) for name in _KEPT},
        **{name: torch.as_tensor(getattr(runner, name)) for name in _ARRAYS},
        "weights": [[torch.as_tensor(layer) for layer in layers] for layers in runner.weights],
        "history": [(step, phase, torch.as_tensor(index), torch.as_tensor(values))
                    for step, phase, index, values in runner.history],
        "batches": [{"index": torch.as_tensor(batch.index), "theta": batch.theta, "last_good": batch.last_good,
                     "state": batch.state} for batch in runner.batches],
    }  # fmt: skip
    try:
        write_atomically(path, lambda stream: torch.save(content, stream))
    except OSError as error:
        warnings.warn(
            f"the checkpoint {path} could not be written: {error.strerror or error}; training goes on.",
            CheckpointWarning,
            stacklevel=2,
        )


def read(path: Path, runner: Runner, fingerprint: dict[str, str]) -> None:
    """Put a run where the file says.

    Raises
    ------
    InputError
        When the file cannot be read, is no checkpoint, or belongs to another problem: the message names what differs.
    """
    try:
        with path.open("rb") as stream:
            content = torch.load(stream, map_location=runner.problem.inputs.device, weights_only=True)
        known = content["format"] == FORMAT and content["schema"] == SCHEMA
    except PermissionError:
        raise InputError(f"cannot read the checkpoint {path}: permission denied.") from None
    except Exception:  # the reader's own errors
        known = False
    if not known:
        raise InputError(
            f"{path} is not a checkpoint of this covopt, or it is damaged; give another path."
        ) from None
    differ = [name for name, value in fingerprint.items() if content["fingerprint"].get(name) != value]
    if differ:
        raise InputError(
            f"checkpoint {path} belongs to another problem: other {', '.join(differ)}; give what it was "
            "written with, or another path."
        )
    try:
        _restore(runner, content)
    except Exception:  # whatever is missing, or of another kind
        raise InputError(
            f"{path} is not a checkpoint of this covopt, or it is damaged; give another path."
        ) from None


def _restore(runner: Runner, content: dict[str, Any]) -> None:
    for name in _KEPT:
        setattr(runner, name, content[name])
    for name in _ARRAYS:
        getattr(runner, name)[:] = content[name].numpy(force=True)
    runner.weights[:] = [[layer.numpy(force=True) for layer in layers] for layers in content["weights"]]
    runner.history = [
        (step, phase, index.numpy(force=True), values.numpy(force=True))
        for step, phase, index, values in content["history"]
    ]
    runner.batches = [
        Batch(index := part["index"].numpy(force=True), runner.problem.networks(index), part["theta"],
              part["state"], last_good=part["last_good"])
        for part in content["batches"]
    ]  # fmt: skip
