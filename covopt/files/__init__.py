"""Read untrusted files, write files atomically, and register all formats with their versions.

JSON files and archives that would exhaust the memory are refused.

``covopt.load`` and ``covopt verify`` find the reader of a file here, and every reader checks format and version here:
the message about a file of another kind, or of a later version, is always the same.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any

from covopt.errors import CovoptError, SolutionFileError
from covopt.files.schema import shown

__all__ = ["check_archive", "parse_json", "read_json", "write_atomically", "write_json"]

MOST_INFLATED = 2**30  # bytes by which a file may grow when it is unpacked


def check_archive(path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Refuse a zip archive whose directory says that it grows by more than 1 GiB when it is unpacked.

    Parameters
    ----------
    path : path-like or binary file
        Other files pass, and so do archives that cannot be read: their readers report why.

    Raises
    ------
    ValueError
        With both sizes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = [(entry.file_size, entry.compress_size) for entry in archive.infolist()]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return
    full, packed = sum(size for size, _ in sizes), sum(size for _, size in sizes)
    if full > packed + MOST_INFLATED:
        raise ValueError(f"it inflates from {packed >> 10} KiB to {full >> 20} MiB")


MOST_BYTES = 2**28
MOST_DEPTH = 24  # nested lists; files of covopt have seven
NESTING = frozenset((dict, list))  # the only nested types that the parser returns


class _Refused(ValueError):
    """The file is JSON, but covopt cannot have written it."""


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    SolutionFileError
        If it is missing, cannot be read, is not JSON, is above 256 MiB, nests deeper than 24 lists, repeats a name,
        or holds NaN or an infinity. Python itself refuses integers of more than 4300 digits.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as stream:
            large = os.fstat(stream.fileno()).st_size > MOST_BYTES
            raw = b"" if large else stream.read(MOST_BYTES + 1)  # the size of a pipe is not known before
    except OSError as error:
        raise SolutionFileError(f"cannot read {name}: {error.strerror or error}") from error
    except ValueError as error:  # a path with a zero byte
        raise SolutionFileError(f"cannot read {name!r}: {error}") from error
    if large or len(raw) > MOST_BYTES:
        raise SolutionFileError(f"{name} is larger than {MOST_BYTES >> 20} MiB, more than covopt reads.")
    try:
        return parse_json(raw)
    except _Refused as error:
        raise SolutionFileError(f"{name} cannot be used: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else error
        raise SolutionFileError(f"{name} is not a JSON file, as covopt saves them: {reason}") from None


def parse_json(raw: bytes | str) -> Any:
    """Parse JSON, and refuse what no file of covopt has: NaN, infinities, repeated names, deep nesting.

    Raises
    ------
    ValueError
        If it is not JSON, or has such content; RecursionError for very deep nesting.

    Examples
    --------
    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    covopt.files._Refused: the name 'a' stands twice in one object
    """
    content = json.loads(raw, parse_constant=_constant, object_pairs_hook=_object)
    _check_depth(content)
    return content


def _constant(name: str) -> Any:
    raise _Refused(f"it holds {name}, which is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
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


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes
    ----------
    name : str
        The value of the ``format`` field.
    what : str
        Its name in messages.
    versions : tuple of int
        The versions that can be read, in ascending order.
    reader : str
        ``module:attribute`` of the function that makes the object from parsed JSON; imported on first use.
    field : str
        The name of the field with the version.
    """

    name: str
    what: str
    versions: tuple[int, ...]
    reader: str
    field: str = "schema"


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("covopt-solution", "covopt solution", (1, 2, 3, 4), "covopt.solution:Solution.from_dict"),
        Format("covopt-path", "covopt path", (1,), "covopt.api.solution_path:path_from_dict"),
        Format("covopt-deep-solution", "covopt solution of several layers", (1,),
               "covopt.depth.solution:DeepSolution.from_dict"),
        Format("covopt-deep-fit", "covopt fit of several layers", (1,),
               "covopt.depth.fitting:DeepFit.from_dict"),
        Format("covopt-cp-rank", "CP-rank certificate", (1,),
               "covopt.completely_positive.certificate:CPRankCertificate.from_dict"),
        Format("covopt-proof", "covopt proof", (1, 2), "covopt.proofs:Proof.from_dict", field="version"),
        Format("covopt-gap", "covopt gap", (1,), "covopt.meter.report:Gap.from_dict"),
    )
}  # fmt: skip


def heading(name: str) -> dict[str, Any]:
    """Return the first fields of a file: its format, the latest version of that, and this covopt.

    Parameters
    ----------
    name : str
        A key of :data:`FORMATS`.
    """
    from covopt import __version__

    return {"format": name, "schema": FORMATS[name].versions[-1], "covopt": __version__}


def check_format(content: Any, name: str) -> int:
    """Return the version of parsed JSON, which must have the given format.

    Parameters
    ----------
    content : object
    name : str
        A key of :data:`FORMATS`.

    Raises
    ------
    SolutionFileError
        If it has another format, or a version that this covopt does not read.

    Examples
    --------
    >>> check_format({"format": "covopt-path", "schema": 1}, "covopt-path")
    1
    >>> check_format({"format": "covopt-path", "schema": 7}, "covopt-path")
    Traceback (most recent call last):
    covopt.errors.SolutionFileError: the file has schema 7; this covopt reads 1. Upgrade covopt.
    """
    wanted, claimed = FORMATS[name], content.get("format") if isinstance(content, dict) else None
    if claimed != name:
        known = FORMATS.get(claimed) if isinstance(claimed, str) else None
        more = "" if known is None else f"; it is a {known.what}"
        raise SolutionFileError(f"this is not a {wanted.what}: its format field is not {name!r}{more}")
    version = content.get(wanted.field)
    if type(version) is int and version in wanted.versions:
        return version
    said = "It is damaged."
    if type(version) is int and version > 0:
        said = "Upgrade covopt." if version > wanted.versions[-1] else "An older covopt wrote it."
    *most, last = map(str, wanted.versions)
    read = f"{', '.join(most)} and {last}" if most else last
    raise SolutionFileError(f"the file has {wanted.field} {shown(version)}; this covopt reads {read}. {said}")


@contextmanager
def damaged(what: str) -> Iterator[None]:
    """Report any error raised in the block by one sentence: the content is damaged.

    Parameters
    ----------
    what : str
        The subject of that sentence.

    Raises
    ------
    SolutionFileError
    """
    try:
        yield
    except SolutionFileError:
        raise
    except (CovoptError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SolutionFileError(f"{what} is damaged: {error}") from error


def find_reader(content: Any) -> Callable[[Any], Any]:
    """Return the function that makes the object from parsed JSON.

    Parameters
    ----------
    content : object

    Raises
    ------
    SolutionFileError
        If it has no known format; the reader refuses unknown versions.
    """
    claimed = content.get("format") if isinstance(content, dict) else None
    entry = FORMATS.get(claimed) if isinstance(claimed, str) else None
    if entry is None:
        stated = "it has no format field" if claimed is None else f"its format field is {shown(claimed)}"
        raise SolutionFileError(f"this is not a covopt file: {stated}; covopt reads {', '.join(FORMATS)}")
    module, _, names = entry.reader.partition(":")
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def read_any(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Read a file of any registered format, or of a given one.

    Parameters
    ----------
    path : path-like
    name : str, optional
        A key of :data:`FORMATS`.

    Raises
    ------
    SolutionFileError
        If it is missing, not JSON, of another format, of a newer version, or damaged.
    """
    content = read_json(path)
    try:
        if name is not None:
            check_format(content, name)
        return find_reader(content)(content)
    except SolutionFileError as error:
        raise SolutionFileError(f"{os.fspath(path)}: {error}") from error


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a temporary file, then rename it to ``path``: readers see the old file or the complete new one.

    Links are followed. Pipes and devices such as ``/dev/null`` are written to and not replaced.

    Parameters
    ----------
    path : path-like
    write : callable
        Called with a binary stream; if it raises, the temporary file is removed.
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
    """Write one line of JSON atomically; floats survive the round trip exactly.

    Parameters
    ----------
    path : path-like
    content : object
        JSON types, without NaN and infinities.

    Raises
    ------
    ValueError
        If a number is not finite; then nothing is written.
    """
    text = json.dumps(content, allow_nan=False, check_circular=False)
    write_atomically(path, lambda stream: stream.write(f"{text}\n".encode()))


class Saved:
    """Base class of objects that are saved as one JSON file, which :func:`covopt.load` reads."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file atomically: readers see the old file or the complete new one.

        Parameters
        ----------
        path : path-like
        """
        write_json(path, self.to_dict())
