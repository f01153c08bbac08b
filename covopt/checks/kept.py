"""The file of a checkpoint while a run has it: one process at a time, written when due, never a reason to end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from covopt.checks.checkpoints import REST, Checkpoint
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from covopt.files import read_json, write_json
from covopt.files.locked import lock
from covopt.limits import now


class KeptFile:
    """The file of a checkpoint while a run has it.

    Parameters
    ----------
    asked : Checkpoint

    Attributes
    ----------
    content : object
        What an earlier run has left, JSON types; None where it is not to be gone on with, or not there.
    """

    what = "the run"

    def __init__(self, asked: Checkpoint):
        self.path, self.every_s = asked.path, asked.every_s
        self.resume, self.keep = asked.resume, asked.keep
        self.content: Any = None
        self._release: Callable[[], None] | None = None
        self._due = now() + self.every_s

    def take(self) -> None:
        """Take the file for this run, and read it where it exists.

        Raises
        ------
        InputError
            Where the folder does not exist, cannot be written, or another process writes the file.
        SolutionFileError
            Where the file is something else, or damaged.
        """
        if not self.path.parent.is_dir():
            raise InputError(
                f"cannot write the checkpoint {self.path}: there is no folder {self.path.parent}."
            )
        if self.path.exists() and not self.path.is_file():
            raise InputError(
                f"the checkpoint {self.path} is a folder, a pipe or a device; choose another file."
            )
        self._release = lock(self.path, "the checkpoint")
        if self.resume and self.path.exists():
            try:
                with self.named():
                    self.content = self.read()
            except BaseException:
                self.close()
                raise

    def read(self) -> Any:
        """Return what is in the file."""
        return read_json(self.path)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let what is wrong with the file say which file it is.

        Raises
        ------
        SolutionFileError
        """
        try:
            yield
        except SolutionFileError as error:
            reason = str(error).removeprefix(f"{self.path} ").rstrip(".")
            raise SolutionFileError(
                f"the checkpoint {self.path} cannot be gone on with: {reason}. Remove it, or leave out --resume "
                "(resume=False): then the run begins anew and writes over it."
            ) from None

    @property
    def is_due(self) -> bool:
        """Whether so much time has passed since the last one."""
        return now() >= self._due

    def offer(self, content: Callable[[], Any]) -> None:
        """Write what ``content`` returns where that is due."""
        if not self.is_due:
            return
        began = now()
        self.write(content())
        ended = now()
        self._due = max(began + self.every_s, ended + (REST * (ended - began) if self.every_s else 0.0))

    def wait(self) -> None:
        """Begin to count the time anew."""
        self._due = now() + self.every_s

    def write(self, content: Any) -> bool:
        """Write the file; where that fails, say so and go on."""
        return self.attempt(lambda: write_json(self.path, content))

    def attempt(self, write: Callable[[], None]) -> bool:
        """Call what writes the file; a full disk or a folder that cannot be written ends no run."""
        try:
            write()
        except OSError as error:
            warnings.warn(
                f"the checkpoint {self.path} could not be written: {error.strerror or error}; {self.what} goes on.",
                CheckpointWarning,
                stacklevel=2,
            )
            return False
        return True

    def remove(self) -> None:
        """Remove the file, unless it is to be kept."""
        if not self.keep:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                warnings.warn(
                    f"the checkpoint {self.path} could not be removed: {error.strerror or error}.",
                    CheckpointWarning,
                    stacklevel=2,
                )

    def close(self) -> None:
        """Give the file back."""
        release, self._release = self._release, None
        if release is not None:
            release()


@contextmanager
def kept_file(asked: Checkpoint | None) -> Iterator[KeptFile | None]:
    """Hold a checkpoint's file in the block; None where none is asked for.

    Parameters
    ----------
    asked : Checkpoint or None
    """
    if asked is None:
        yield None
        return
    file = KeptFile(asked)
    file.take()
    try:
        yield file
    finally:
        file.close()
