"""One process at a time for a file that is written for long."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from covopt.errors import InputError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock beside ``path`` in the block.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputError
        Where another process has it, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "cells.npy"
    >>> with locked(path):
    ...     with locked(path):
    ...         pass
    Traceback (most recent call last):
    covopt.errors.InputError: another process writes .../cells.npy; wait for it, or choose another file.
    """
    release = lock(path)
    try:
        yield
    finally:
        release()


def lock(path: Path, what: str = "") -> Callable[[], None]:
    """Take the lock beside ``path``; return what gives it back.

    Parameters
    ----------
    path : Path
    what : str
        What the file is, for messages.

    Raises
    ------
    InputError
        Where another process has it, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> release = lock(Path(tempfile.mkdtemp()) / "run.checkpoint")
    >>> release()
    """
    from filelock import FileLock, Timeout

    name = f"{what} {path}".strip()
    held = FileLock(f"{path}.lock", timeout=0)
    try:
        held.acquire()
    except Timeout:
        raise InputError(f"another process writes {name}; wait for it, or choose another file.") from None
    except OSError as error:
        raise InputError(f"cannot write {name}: {error.strerror or error}.") from None

    for half in path.parent.glob(
        f".{glob.escape(path.name)}.*.part"
    ):  # what a run that was killed had begun to write
        with suppress(OSError):
            half.unlink()

    def release() -> None:
        held.release()
        # where the folder can no longer be written the file stays: it holds nobody
        with suppress(OSError):
            Path(held.lock_file).unlink(missing_ok=True)

    return release
