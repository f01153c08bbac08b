"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from covopt.files.many_lists import many_lists

ENTRIES = 50_000  # numbers, at most, that are turned into text at once: some hundredths of a second
LOOKED_AT = 16  # entries of a list that tell how large the others are


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
        parts = [part.encode() for part in _parts_of(content)]  # all of them before the first is written
    write_atomically(path, lambda stream: stream.writelines([*parts, b"\n"]))


def _parts_of(content: Any) -> Iterator[str]:
    """Yield what ``json.dumps`` returns, in parts of so many entries that signals are heard in between."""
    if isinstance(content, dict) and all(isinstance(name, str) for name in content):
        start = "{"
        for name, value in content.items():
            yield f"{start}{json.dumps(name)}: "
            yield from _parts_of(value)
            start = ", "
        yield "{}" if start == "{" else "}"
    elif isinstance(content, list) and content and _entries(content) > ENTRIES:
        length = ENTRIES * len(content) // _entries(content)
        start = "["
        for first in range(0, len(content), max(length, 1)):
            yield start
            if length:
                yield _dumps(content[first : first + length])[1:-1]
            else:
                yield from _parts_of(content[first])
            start = ", "
        yield "]"
    else:
        yield _dumps(content)


def _entries(content: list[Any]) -> int:
    """Return about how many entries a list has, those of its lists counted."""
    some = content[:: max(1, len(content) // LOOKED_AT)]
    return len(content) * sum(_size(entry) for entry in some) // len(some)


def _size(entry: Any) -> int:
    inner = entry[0] if isinstance(entry, list) and entry else None
    return (
        len(entry) * (len(inner) if isinstance(inner, list) else 1) if isinstance(entry, list | dict) else 1
    )


def _dumps(content: Any) -> str:
    return json.dumps(content, allow_nan=False, check_circular=False)
