"""One process at a time for a file that is written for long."""

from __future__ import annotations

import glob
from collections.abc import Iterator
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
    from filelock import FileLock, Timeout

    held = FileLock(f"{path}.lock", timeout=0)
    try:
        held.acquire()
    except Timeout:
        raise InputError(f"another process writes {path}; wait for it, or choose another file.") from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from None
    for half in path.parent.glob(f".{glob.escape(path.name)}.*.part"):  # of a run that was killed
        with suppress(OSError):
            half.unlink()
    try:
        yield
    finally:
        held.release()
        # where the folder can no longer be written the file stays: it holds nobody
        with suppress(OSError):
            Path(held.lock_file).unlink(missing_ok=True)
