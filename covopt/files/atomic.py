"""Write files whole or not at all, and make their lists without Python's garbage collector, which slows down many."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def many_lists() -> Iterator[None]:
    """Let the block make many lists that hold no cycles: reading and writing a large solution takes half the time.

    Examples
    --------
    >>> with many_lists():
    ...     gc.isenabled()
    False
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
    with many_lists():
        text = json.dumps(content, allow_nan=False, check_circular=False)
    write_atomically(path, lambda stream: stream.write(f"{text}\n".encode()))
