"""Read files of anybody, write them whole or not at all, and know the formats and their versions.

JSON and archives that would fill the memory are refused.

``covopt.load`` and ``covopt verify`` ask it what a file is; every reader asks it whether the content is its own. So a
file of another kind, or of a later version, gets the same sentence wherever it is met.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
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
        What is no zip archive passes; so does one that cannot be read, for its reader to say why.

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
        or holds NaN or an infinity. Python itself refuses whole numbers of more than 4300 digits.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as stream:
            large = os.fstat(stream.fileno()).st_size > MOST_BYTES
            raw = b"" if large else stream.read(MOST_BYTES + 1)  # of a pipe, or a file that grows
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


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes
    ----------
    name : str
        Its ``format`` field.
    what : str
        In words, for messages.
    versions : tuple of int
        Those that are read, in order.
    reader : str
        ``module:attribute`` of the function that turns parsed JSON into the object; imported when such a file comes.
    field : str
        Where the version stands.
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
    """Return the version of parsed JSON that must be of one format.

    Parameters
    ----------
    content : object
    name : str
        A key of :data:`FORMATS`.

    Raises
    ------
    SolutionFileError
        Where it is of another format, or of a version that this covopt does not read.

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
    """Say in one sentence that content is damaged, whatever reading it raises.

    Parameters
    ----------
    what : str

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
    """Return the function that reads parsed JSON, by its format and version.

    Parameters
    ----------
    content : object

    Raises
    ------
    SolutionFileError
        Where it is of no format, or of a version that this covopt does not read.
    """
    claimed = content.get("format") if isinstance(content, dict) else None
    entry = FORMATS.get(claimed) if isinstance(claimed, str) else None
    if entry is None:
        stated = "it has no format field" if claimed is None else f"its format field is {shown(claimed)}"
        raise SolutionFileError(f"this is not a covopt file: {stated}; covopt reads {', '.join(FORMATS)}")
    check_format(content, entry.name)
    module, _, names = entry.reader.partition(":")
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def read_any(path: str | os.PathLike[str], name: str | None = None) -> Any:
    """Read a file of any format in the registry, or of one.

    Parameters
    ----------
    path : path-like
    name : str, optional
        A key of :data:`FORMATS`.

    Raises
    ------
    SolutionFileError
        When it is missing, not JSON, of another format, of a newer version, or damaged.
    """
    content = read_json(path)
    try:
        if name is not None:
            check_format(content, name)
        return find_reader(content)(content)
    except SolutionFileError as error:
        raise SolutionFileError(f"{os.fspath(path)}: {error}") from error


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


class Saved:
    """What stands in one JSON file, which :func:`covopt.load` reads back."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, atomically: a reader sees the old file or the whole new one.

        Parameters
        ----------
        path : path-like
        """
        write_json(path, self.to_dict())
