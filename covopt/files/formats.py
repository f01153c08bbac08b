"""The registry of file formats: what each is called, which versions are read, and by what.

``covopt.load`` and ``covopt verify`` ask it what a file is; every reader asks it whether the content is its own. So a
file of another kind, or of a later version, gets the same sentence wherever it is met.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from covopt.errors import CovoptError, SolutionFileError
from covopt.files.reading import read_json
from covopt.files.schema import shown


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
               "covopt.depth.fit_solution:DeepFit.from_dict"),
        Format("covopt-cp-rank", "CP-rank certificate", (1,),
               "covopt.completely_positive.certificate:CPRankCertificate.from_dict"),
        Format("covopt-proof", "covopt proof", (1, 2), "covopt.proofs:Proof.from_dict", field="version"),
        Format("covopt-gap", "covopt gap", (1,), "covopt.meter.report:Gap.from_dict"),
    )
}  # fmt: skip


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


def read_any(path: str | os.PathLike[str]) -> Any:
    """Read a file of any format in the registry.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    SolutionFileError
        When it is missing, not JSON, of no known format, of a newer version, or damaged.
    """
    content = read_json(path)
    try:
        return find_reader(content)(content)
    except SolutionFileError as error:
        raise SolutionFileError(f"{os.fspath(path)}: {error}") from error


def read_one(path: str | os.PathLike[str], name: str) -> Any:
    """Read a file that must be of one format.

    Parameters
    ----------
    path : path-like
    name : str
        A key of :data:`FORMATS`.

    Raises
    ------
    SolutionFileError
        When it is missing, not JSON, of another format or a newer version, or damaged.
    """
    content = read_json(path)
    check_format(content, name)
    return find_reader(content)(content)
