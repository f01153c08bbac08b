"""Checkpoints: one safetensors file, written whole or not at all, that knows which problem it belongs to."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covopt.checks.wording import one_line
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from covopt.files import parse_json, write_atomically
from covopt.files.formats import check_format
from covopt.files.layouts import CHECKPOINT
from covopt.files.schema import check_content
from covopt.training.backend import torch
from covopt.training.batches import Batch
from covopt.training.loop import STATUSES, Runner

FORMAT = "covopt-checkpoint"
SCHEMA = 2  # 2: with a digest
_DERIVED = ("start", "reference")


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
            raise InputError(
                "resume=True needs the path of the checkpoint: give checkpoint='run.safetensors'."
            )
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


def write(path: Path, runner: Runner, fingerprint: dict[str, Any]) -> None:
    """Write where a run is; where that fails, say so and go on.

    Warns
    -----
    CheckpointWarning
    """
    from safetensors.torch import save

    tensors: dict[str, Any] = {
        "weights": torch.as_tensor(np.concatenate([w.ravel() for layers in runner.weights for w in layers])),
        "status": torch.tensor([STATUSES.index(status) for status in runner.status]),
        **{name: torch.as_tensor(getattr(runner, name)) for name in ("steps", "times", "objectives")},
    }
    for place, (_, _, index, values) in enumerate(runner.history):
        tensors[f"history.{place}.index"] = torch.as_tensor(index)
        tensors[f"history.{place}.values"] = torch.as_tensor(values)
    for place, batch in enumerate(runner.batches):
        tensors[f"batch.{place}.index"] = torch.as_tensor(batch.index)
        tensors[f"batch.{place}.theta"] = batch.theta
        tensors[f"batch.{place}.last_good"] = batch.last_good
        tensors |= {f"batch.{place}.state.{name}": value for name, value in batch.state.items()}
    # clones: the format refuses tensors that share memory
    tensors = {name: value.cpu().contiguous().clone() for name, value in tensors.items()}
    about = {
        "format": FORMAT,
        "schema": SCHEMA,
        "fingerprint": fingerprint,
        "phase": runner.phase,
        "step": runner.step,
        "elapsed_s": runner.elapsed_s,
        "history": [[step, phase] for step, phase, _, _ in runner.history],
        "n_batches": len(runner.batches),
    }
    about["digest"] = _digest_of(about, tensors)
    content = save(tensors, {"covopt": json.dumps(about)})
    try:
        write_atomically(path, lambda stream: stream.write(content))
    except OSError as error:
        warnings.warn(
            f"the checkpoint {path} could not be written: {error.strerror or error}; training goes on.",
            CheckpointWarning,
            stacklevel=2,
        )


def read(path: Path, runner: Runner, fingerprint: dict[str, Any]) -> None:
    """Put a run where the file says.

    Raises
    ------
    InputError
        When the file cannot be read, is no checkpoint, or belongs to another problem: the message names what differs.
    """
    about, tensors = _open(path)
    try:
        _restore(path, runner, fingerprint, about, tensors)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise InputError(
            f"checkpoint {path} is damaged ({one_line(error)}); give another path, or start anew."
        ) from None


def _restore(
    path: Path, runner: Runner, fingerprint: dict[str, Any], about: dict[str, Any], tensors: dict[str, Any]
) -> None:
    theirs = about["fingerprint"]
    differ = [name for name in fingerprint if json.loads(json.dumps(fingerprint[name])) != theirs.get(name)]
    # these follow from the others: named where nothing else is
    differ = [name for name in differ if name not in _DERIVED] or differ
    if differ:
        raise InputError(
            f"checkpoint {path} belongs to another problem: other {_listed(differ)}; give what it was written with, "
            "or another path."
        )
    flat, place = tensors["weights"].numpy(), 0
    wanted = sum(layer.size for layers in runner.weights for layer in layers)
    codes = tensors["status"].tolist()
    if flat.size != wanted or len(codes) != len(runner.status) or min(codes, default=0) < 0:
        raise ValueError("its tensors have other sizes than the problem")
    for layers in runner.weights:
        for k, layer in enumerate(layers):
            layers[k] = flat[place : place + layer.size].reshape(layer.shape).copy()
            place += layer.size
    runner.status = [STATUSES[code] for code in codes]
    for name in ("steps", "times", "objectives"):
        getattr(runner, name)[:] = tensors[name].numpy()
    runner.phase, runner.step, runner.elapsed_s = about["phase"], about["step"], about["elapsed_s"]
    runner.history = [
        (step, phase, tensors[f"history.{k}.index"].numpy(), tensors[f"history.{k}.values"].numpy())
        for k, (step, phase) in enumerate(about["history"])
    ]
    runner.batches = [_batch(runner, tensors, f"batch.{k}.") for k in range(about["n_batches"])]


def _digest_of(about: dict[str, Any], tensors: dict[str, Any]) -> str:
    """Return a hash of everything: what an optimiser remembers has no shape that could be checked otherwise."""
    rest = {name: value for name, value in about.items() if name != "digest"}
    words = np.array([json.dumps(rest, sort_keys=True), *sorted(tensors)])
    return digest(words, *(tensors[name].numpy() for name in sorted(tensors)))


def _batch(runner: Runner, tensors: dict[str, Any], prefix: str) -> Batch:
    device = runner.problem.inputs.device
    index = tensors[prefix + "index"].numpy()
    parts = {
        name.removeprefix(prefix): value.to(device)
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
    state = {n.removeprefix("state."): v for n, v in parts.items() if n.startswith("state.")}
    networks = runner.problem.networks(index)
    return Batch(index, networks, parts["theta"], state, last_good=parts["last_good"])


def _open(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import safe_open

    try:
        with safe_open(path, framework="pt") as archive:
            about = parse_json((archive.metadata() or {})["covopt"])
            tensors = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
    except OSError as error:
        raise InputError(f"cannot read the checkpoint {path}: {error.strerror or error}.") from None
    except Exception:  # the reader's own errors
        raise InputError(
            f"{path} is not a checkpoint of covopt, or it is damaged; give another path."
        ) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{path} is not a checkpoint of covopt, or it is damaged; give another path.")
    try:
        check_format(about, FORMAT)
    except SolutionFileError as error:
        raise InputError(f"checkpoint {path}: {error} Or start anew.") from None
    try:
        check_content(about, CHECKPOINT)
    except ValueError as error:
        raise InputError(
            f"checkpoint {path} is damaged: {error}; give another path, or start anew."
        ) from None
    if about["digest"] != _digest_of(about, tensors):
        raise InputError(
            f"checkpoint {path} is damaged: its content changed; give another path, or start anew."
        )
    return about, tensors


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
