"""Read JSON files and archives of anybody: the answer is their content, or one sentence; none fills the memory."""

from __future__ import annotations

import json
import os
import zipfile
from itertools import chain
from pathlib import Path
from typing import IO, Any

from covopt.errors import SolutionFileError

MOST_INFLATED = 2**30
MOST_RATIO = 200  # tables of zeros reach 1000, small ones


def check_archive(path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Refuse a zip archive that says of itself that it is large and almost empty.

    Parameters
    ----------
    path : path-like or binary file
        What is no zip archive passes; so does one that cannot be read, for its reader to say why.

    Raises
    ------
    ValueError
        Where more than 1 GiB comes out of less than a 200th of it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = [(entry.file_size, entry.compress_size) for entry in archive.infolist()]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return
    full, packed = sum(size for size, _ in sizes), sum(size for _, size in sizes)
    if full > MOST_INFLATED and full > MOST_RATIO * max(packed, 1):
        raise ValueError(f"it inflates from {packed >> 10} KiB to {full >> 20} MiB")


MOST_BYTES = 2**28
MOST_DIGITS = 400  # of a whole number; floats have their range
MOST_DEPTH = 24  # lists in lists; what covopt writes has seven
NESTING = frozenset((dict, list))  # what the parser makes, exactly


class _Refused(ValueError):
    """The file is JSON and yet nothing that covopt would write."""


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    SolutionFileError
        When it is missing, cannot be read, is not JSON, is above 256 MiB, nests deeper than 24 lists, repeats a name,
        or holds NaN, an infinity or a whole number of more than 400 digits.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            raw = b"" if size > MOST_BYTES else stream.read(size + 1)
            if size < len(raw):  # a pipe, or a file that grows
                raw += stream.read(MOST_BYTES + 1 - len(raw))
    except OSError as error:
        raise SolutionFileError(f"cannot read {name}: {error.strerror or error}") from error
    except ValueError as error:  # a path with a zero byte
        raise SolutionFileError(f"cannot read {name!r}: {error}") from error
    if max(size, len(raw)) > MOST_BYTES:
        raise SolutionFileError(f"{name} is larger than {MOST_BYTES >> 20} MiB, more than covopt reads.")
    try:
        return parse_json(raw)
    except _Refused as error:
        raise SolutionFileError(f"{name} cannot be used: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else error
        raise SolutionFileError(f"{name} is not a JSON file, as covopt saves them: {reason}") from None


def parse_json(raw: bytes | str) -> Any:
    """Parse JSON without what no file of covopt holds: NaN, repeated names, bombs.

    Raises
    ------
    ValueError
        Where it is no JSON, or holds such a thing; RecursionError for the deepest nesting.

    Examples
    --------
    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    covopt.files.reading._Refused: the name 'a' stands twice in one object
    """
    content = json.loads(raw, parse_int=_whole, parse_constant=_constant, object_pairs_hook=_object)
    _check_depth(content)
    return content


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise _Refused(f"a whole number has {len(digits)} digits, and {MOST_DIGITS} are the most")
    return int(digits)


def _constant(name: str) -> Any:
    raise _Refused(f"it holds {name}, which is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Refused(f"the name {twice[:60]!r} stands twice in one object")
    return found


def _check_depth(content: Any) -> None:
    level = [content] if type(content) in NESTING else []
    for _ in range(MOST_DEPTH):
        parts = [outer.values() if type(outer) is dict else outer for outer in level]
        if NESTING.isdisjoint(map(type, chain.from_iterable(parts))):
            return
        level = [inner for part in parts for inner in part if type(inner) in NESTING]
    raise _Refused(f"it nests deeper than {MOST_DEPTH} lists")
