"""Write files whole or not at all, one process at a time."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


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
