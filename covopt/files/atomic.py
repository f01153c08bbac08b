"""Write files whole or not at all, one process at a time."""

from __future__ import annotations

import glob
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from covopt.errors import InputError


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it there: a reader sees the old file or the whole new one.

    Links are followed. What is no regular file (a pipe, ``/dev/null``) is written to, never replaced.

    Parameters
    ----------
    path : path-like
    write : callable
        Receives a binary stream; what it raises is raised again, and nothing is left behind.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            write(stream)
        return
    target = Path(os.path.realpath(target))
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(part, 0o666 & ~umask)
        os.replace(part, target)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Write JSON of one line, whole or not at all; floats are read back as they are.

    Parameters
    ----------
    path : path-like
    content : object
        Of JSON types, without NaN and infinities.

    Raises
    ------
    ValueError
        For a number that is not finite; then nothing is written.
    """
    text = json.dumps(content, allow_nan=False, check_circular=False)
    write_atomically(path, lambda stream: stream.write(f"{text}\n".encode()))


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
