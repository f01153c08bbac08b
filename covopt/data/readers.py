"""Read files as frames: text tables, also compressed or from standard input, Parquet, Feather, Excel, NPZ."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from covopt.checks import counted, one_line, required
from covopt.checks.memory import SMALL, plan
from covopt.checks.validation import suggest
from covopt.data.tabular import check_unique
from covopt.errors import InputError
from covopt.files import MOST_INFLATED, check_archive

if TYPE_CHECKING:
    import pandas as pd

STDIN = "-"
UNNAMED = "Unnamed: "  # beginning of the name that pandas gives to a column without one
DELIMITERS = ",;\t|"
TEXTS = (".csv", ".tsv", ".txt")
ARROW = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
BY_PANDAS = {**ARROW, ".xlsx": "excel"}
KINDS = "CSV (.csv, .tsv, .txt; also .gz, .bz2, .xz or .zip of it), Parquet, Feather, Excel or NPZ"
OF_A_NUMBER = 40  # bytes of memory for a number and its copies


@dataclass(frozen=True)
class Text:
    """How to read a text table.

    Attributes
    ----------
    sep : str, optional
        Separator of columns; by default comma, semicolon, tab or bar, whichever is most frequent in the first line.
    encoding : str
    decimal : str
        The decimal point.
    """

    sep: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."


def read_frame(path: Path, text: Text) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Read a table of any kind.

    Parameters
    ----------
    path : Path
        ``-`` for CSV from standard input.
    text : Text

    Returns
    -------
    frame : pandas.DataFrame
        The index of the rows of text files is called ``line``, of Excel files ``sheet row``.
    groups : dict of str to list of str
        The arrays of an NPZ file, each with the names of its columns.

    Raises
    ------
    InputError
        If the file is missing or cannot be read.
    """
    groups: dict[str, list[str]] = {}
    suffix = _suffix(path, text)
    kind = BY_PANDAS.get(suffix)
    if suffix in ARROW:
        required("pyarrow", str(path), "parquet")
    if kind == "excel":
        required("openpyxl", str(path), "excel")
    pd = required("pandas", "reading a table", "tables")
    if str(path) != STDIN:
        _check_size(path, 2 * path.stat().st_size)  # as bytes and as text
    try:
        if kind:
            frame = getattr(pd, f"read_{kind}")(path).reset_index(drop=True)
        elif suffix == ".npz":
            frame, groups = _read_npz(path)
        else:
            frame = _frame_of(path, _decoded(path, text.encoding), text)
        if kind == "excel":
            frame.index = pd.RangeIndex(2, len(frame) + 2, name="sheet row")
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} cannot be read as {suffix[1:].upper()}: byte {error.object[error.start]:#x} is no "
            f"{text.encoding}; name its encoding with --encoding (encoding=...), for instance latin-1, cp1252 or "
            "utf-16."
        ) from None
    except Exception as error:  # every reader has its own exceptions
        raise InputError(f"{path} cannot be read as {suffix[1:].upper()}: {one_line(error)}") from None
    frame.columns = [str(c).strip() for c in frame.columns]
    check_unique(list(frame.columns), path)
    _check_size(path, OF_A_NUMBER * frame.size)
    return frame, groups


def _suffix(path: Path, text: Text) -> str:
    """Return the extension without that of a compression; refuse other kinds of files."""
    if str(path) == STDIN:
        return ".csv"
    packed = path.suffix.lower() if path.suffix.lower() in COMPRESSED else ""
    suffix = ".csv" if packed == ".zip" else Path(path.stem if packed else path).suffix.lower()
    if suffix not in TEXTS and (packed or suffix not in {*BY_PANDAS, ".npz"}):
        within = f" in {packed}" if packed else ""
        raise InputError(f"{path}: unknown file type {suffix or '(no extension)'!r}{within}; use {KINDS}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a table ({KINDS}).")
    if not path.exists():
        near = suggest(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise InputError(f"{path} does not exist{near or '.'}")
    if suffix not in TEXTS and text != Text():
        raise InputError(f"{path} is no text: sep, encoding and decimal (--sep, …) are for CSV files alone.")
    return suffix


def _open_zip(path: Path, mode: str) -> IO[bytes]:
    """Open the only file in a zip archive."""
    check_archive(path)
    archive = zipfile.ZipFile(path)
    names = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX/")]
    if len(names) != 1:
        raise InputError(f"{path} holds {len(names)} files; a table is one file.")
    return archive.open(names[0])


COMPRESSED: dict[str, Callable[[Path, str], Any]] = {
    ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zip": _open_zip
}  # fmt: skip


def _check_size(path: Path, needed: float) -> None:
    """Refuse a table that needs more memory than the limit."""
    if needed > SMALL:
        plan(needed, "Leave out rows or columns.", what=f"the table {path}")


# ---------------------------------------------------------------------- text
def _decoded(path: Path, encoding: str) -> str:
    """Return the text of a file, decompressed."""
    opener = COMPRESSED.get(path.suffix.lower(), open)
    if str(path) == STDIN:
        raw = sys.stdin.buffer.read()
    elif opener is open:
        raw = path.read_bytes()
    else:
        with opener(path, "rb") as stream:
            raw = stream.read(MOST_INFLATED)
            if stream.read(1):
                raise InputError(f"{path} inflates to more than {MOST_INFLATED >> 20} MiB; unpack it first.")
    return raw.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)


def _frame_of(path: Path, content: str, text: Text) -> pd.DataFrame:
    """Return the frame of a text table; its index holds the line of each row."""
    pd = required("pandas", "reading a table", "tables")
    if "\x00" in content:
        raise InputError(
            f"{path} holds zero bytes, which no text does; is it a table of another kind? For UTF-16 give "
            "--encoding utf-16 (encoding=...)."
        )
    found = re.search(r"[^\r\n]*[^\s][^\r\n]*", content)
    if found is None:
        raise InputError(f"{path} is empty; the first line must name the columns.")
    candidates = "\t" if ".tsv" in path.name.lower() else DELIMITERS.replace(text.decimal, "")
    delimiter = text.sep or max(candidates, key=found[0].count)
    names = [n.strip() for n in next(csv.reader([found[0]], delimiter=delimiter))]
    if pd.to_numeric(pd.Series(names, dtype=object), errors="coerce").notna().all():
        raise InputError(
            f"{path}: the first line must name the columns; it holds numbers ({found[0].strip()[:60]})."
        )
    check_unique(names, path)
    lines = list(_lines(content, delimiter, path, len(names)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer pandas rounds correctly by default, and warns
        frame = pd.read_csv(
            io.StringIO(content), sep=delimiter, decimal=text.decimal, skipinitialspace=True, index_col=False,
            float_precision="round_trip",
        )  # fmt: skip
    if text.decimal == ",":
        _check_points(frame, path)
    frame.index = pd.Index(lines[1 : len(frame) + 1], name="line")
    return frame


def _lines(content: str, delimiter: str, path: Path, width: int) -> Iterator[int]:
    """Yield the first line of each row that is not empty; refuse rows with more or fewer fields than names."""
    before = 0
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, skipinitialspace=True)
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            if len(record) < width or any(field.strip() for field in record[width:]):
                raise InputError(
                    f"{path}: line {before + 1} has {counted(len(record), 'field')}, but the first line names "
                    f"{counted(width, 'column')}. Titles and comments above the names have to go, a missing value "
                    "keeps its separator; --sep (sep=...) names another one."
                )
            yield before + 1
        before = reader.line_num


def _check_points(frame: pd.DataFrame, path: Path) -> None:
    """Refuse numbers such as 1.000 if the decimal is a comma: one or one thousand, depending on the country."""
    cells = frame.select_dtypes(exclude="number").astype(str).stack().astype(str)
    for (_, name), cell in cells[cells.str.fullmatch(r"\s*[+-]?\d*\.\d*(?:[eE][+-]?\d+)?\s*")].items():
        raise InputError(
            f"{path}: column {name!r} holds '{one_line(cell, 40)}', a point although the decimal is a comma; "
            "take points between thousands out, or leave --decimal (decimal=...) away."
        )


# ---------------------------------------------------------------------- arrays
def _read_npz(path: Path) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    pd = required("pandas", "reading a table", "tables")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an NPZ archive; write it with numpy.savez(path, X=X, y=y).")
    check_archive(path)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: a.astype(str) if a.dtype.kind == "S" else a for name, a in archive.items()}
    if any(a.ndim not in (1, 2) for a in arrays.values()) or len({len(a) for a in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(
            f"{path}: its arrays must be 1-D or 2-D and have the same number of rows; found {shapes}."
        )
    groups: dict[str, list[str]] = {}
    for name, array in arrays.items():
        label = name.lower() if name in ("X", "Y") else name
        one = array.ndim == 1 or (array.shape[1] == 1 and name != "X")
        groups[name] = [label] if one else [f"{label}{j}" for j in range(array.shape[1])]
    if "Y" in groups:
        groups.setdefault("y", groups["Y"])
    frames = [pd.DataFrame(array, columns=groups[name]) for name, array in arrays.items()]
    return pd.concat(frames, axis=1), groups
