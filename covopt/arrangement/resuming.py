"""Cells that are written for hours: what is on disk is kept when a run ends early, and the next one goes on from it.

The patterns go to ``FILE.part``. From time to time they are brought to the disk, and ``FILE.checkpoint`` says how
many parts of the sweep are in them, to which byte. What comes behind that byte was written later, and is cut off.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from covopt.arrangement.enumeration import Run, packed_parts, settled_seed
from covopt.arrangement.reduction import Reduced, lift, reduce
from covopt.errors import CheckpointWarning, InputError
from covopt.files import read_json, write_json
from covopt.files.locked import locked
from covopt.limits import patiently

FORMAT = "covopt-cells-checkpoint"
VERSION = 1
KEYS = ("digest", "seed", "parts", "cells", "offset", "largest_zero", "smallest_nonzero")


class Resumable:
    """A file of cells that is being written.

    Parameters
    ----------
    path : Path
        Where the cells go in the end.
    checkpoint : Path
    every_s : float
        Seconds between two checkpoints.
    resume : bool
        Whether to go on from what an earlier run has left.
    """

    def __init__(self, path: Path, checkpoint: Path, *, every_s: float, resume: bool):
        self.path, self.checkpoint, self.every_s, self.resume = path, checkpoint, every_s, resume
        self.part = path.with_name(path.name + ".part")

    def write(
        self,
        X: Any,
        *,
        bias: float,
        size: int,
        n_jobs: int,
        header: Callable[[int], bytes],
        report: Callable[[int], Any],
    ) -> int:
        """Write the cells of a table; return their number.

        Parameters
        ----------
        X : array of shape (N, d)
        bias : float
        size : int
            Patterns at a time.
        n_jobs : int
        header : callable
            Of the number of cells; always as long.
        report : callable

        Raises
        ------
        InputError
            Where another process writes the file, or the checkpoint is of another table, damaged, or alone.
        """
        reduced = reduce(*lift(X, bias))
        digest = _digest(reduced, size)
        with ExitStack() as held:
            held.enter_context(locked(self.checkpoint))
            state = self._read(digest) if self.resume and self.checkpoint.exists() else None
            if state is None:
                seed = settled_seed(reduced, size, n_jobs)
                state = {"digest": digest, "seed": seed, "parts": 0, "cells": 0, "offset": len(header(0))}
                self.part.write_bytes(header(0))
            stream = held.enter_context(self.part.open("r+b", buffering=0))
            stream.truncate(state["offset"])
            stream.seek(state["offset"])
            try:
                for _ in self._go_on(stream, state, reduced, size, n_jobs, report):
                    pass
                stream.seek(0)
                _write_all(stream, header(state["cells"]))
                os.fsync(stream.fileno())
                os.replace(self.part, self.path)
            except BaseException as error:
                with patiently():
                    with suppress(
                        OSError
                    ):  # on a full disk, room for the checkpoint; nothing on one that is read-only
                        os.ftruncate(stream.fileno(), state["offset"])
                    self._keep(stream, state)
                if isinstance(error, OSError):
                    raise InputError(
                        f"cannot write {self.path}: {error.strerror or error}; {self.part} keeps what is done, and "
                        "--resume goes on from it."
                    ) from None
                raise
            self.checkpoint.unlink(missing_ok=True)
        return int(state["cells"])

    def _go_on(
        self, stream: IO[bytes], state: dict[str, Any], reduced: Reduced, size: int, n_jobs: int, report: Any
    ) -> Iterator[None]:
        """Write part after part; ``state`` is about whole parts only."""
        run = None if state["seed"] is None else Run(reduced, state["seed"])
        if run is not None and "largest_zero" in state:
            run.largest_zero, run.smallest_nonzero = (
                state["largest_zero"],
                state["smallest_nonzero"] or np.inf,
            )
        due = time.monotonic() + self.every_s
        for blocks in packed_parts(reduced, run, size, n_jobs, first=state["parts"]):
            cells = 0
            for block in blocks:
                _write_all(stream, np.ascontiguousarray(block).data)
                cells += len(block)
            after: dict[str, Any] = {
                "parts": state["parts"] + 1,
                "cells": state["cells"] + cells,
                "offset": state["offset"] + cells * -(-reduced.n_samples // 8),
            }
            if run is not None:
                least = run.smallest_nonzero
                after["largest_zero"] = run.largest_zero
                after["smallest_nonzero"] = least if np.isfinite(least) else None
            state.update(after)  # at once: an interrupt comes before or after it
            report(state["cells"])
            if time.monotonic() >= due:
                self._keep(stream, state)
                due = time.monotonic() + self.every_s
            yield
        if run is not None:
            run.warn()

    def _keep(self, stream: IO[bytes], state: dict[str, Any]) -> None:
        try:
            os.fsync(stream.fileno())
            write_json(self.checkpoint, {"format": FORMAT, "version": VERSION, **state})
        except OSError as error:
            warnings.warn(
                f"the checkpoint {self.checkpoint} could not be written: {error.strerror or error}.",
                CheckpointWarning,
                stacklevel=2,
            )

    def _read(self, digest: str) -> dict[str, Any]:
        content = read_json(self.checkpoint)
        damaged = f"the checkpoint {self.checkpoint} is damaged; begin anew."
        if (
            not isinstance(content, dict)
            or content.get("format") != FORMAT
            or content.get("version") != VERSION
        ):
            raise InputError(f"{self.checkpoint} is no checkpoint of cells that this covopt reads.")
        if content.get("digest") != digest:
            raise InputError(
                f"the checkpoint {self.checkpoint} is of another table or bias; give the same ones, or begin anew."
            )
        state: dict[str, Any] = {name: content.get(name) for name in KEYS}
        counts = [state[name] for name in ("parts", "cells", "offset")]
        if any(type(count) is not int or count < 0 for count in counts):
            raise InputError(damaged)
        if not self.part.exists() or self.part.stat().st_size < state["offset"]:
            raise InputError(f"{self.part} has not what {self.checkpoint} says it has; begin anew.")
        if state["largest_zero"] is None:
            del state["largest_zero"]
        return state


def _write_all(stream: IO[bytes], content: Any) -> None:
    """Write to a stream without a buffer, which takes what there is room for."""
    left = memoryview(content).cast("B")
    while left:
        left = left[stream.write(left) :]


def _digest(reduced: Reduced, size: int) -> str:
    """Return a hash of everything that says which part of the sweep has which cells."""
    found = hashlib.sha256(f"{VERSION} {size} {reduced.n_samples} {reduced.rank}".encode())
    for array in (reduced.rows, reduced.masks, reduced.base):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
