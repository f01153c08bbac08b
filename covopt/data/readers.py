"""Files to frames: CSV and its kin, compressed or from standard input, Parquet, Feather, Excel, NPZ.

And what a column of a frame holds: numbers, or text.
"""

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
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from covopt.checks.memory import SMALL, memory_left, plan
from covopt.checks.optional import required
from covopt.checks.validation import as_double, as_doubles, suggest
from covopt.checks.wording import counted, one_line
from covopt.data.tabular import RowNames, check_unique, to_doubles
from covopt.errors import InputError
from covopt.files import check_archive
from covopt.files.formats import MOST_INFLATED
from covopt.files.schema import SHOWN

if TYPE_CHECKING:
    import pandas as pd

STDIN = "-"
UNNAMED = "Unnamed: "  # how pandas calls a column without a name
DELIMITERS = ",;\t|"
TEXTS = (".csv", ".tsv", ".txt")
ARROW = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
BY_PANDAS = {**ARROW, ".xlsx": "excel"}
KINDS = "CSV (.csv, .tsv, .txt; also .gz, .bz2, .xz or .zip of it), Parquet, Feather, Excel or NPZ"
OF_A_BYTE, OF_A_NUMBER = 2, 40  # bytes of memory, for one of a file and for a number
_FIGURES = re.compile(r"\W*\d")  # text that begins as a number does, whatever stands before it
# what pandas calls values that are numbers, where they need no look at each
_NUMBERS = frozenset({"integer", "floating", "mixed-integer-float", "decimal", "complex", "boolean", "empty"})
ROWS_OF_A_CLASS = 10  # on average, for whole numbers from 0 or 1 on to be classes


@dataclass(frozen=True)
class Text:
    """How to read a table of text.

    Attributes
    ----------
    sep : str, optional
        What separates columns; by default comma, semicolon, tab or bar, whichever the first line has most of.
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
        ``-`` reads CSV from standard input.
    text : Text

    Returns
    -------
    frame : pandas.DataFrame
        Its index is called ``line`` or ``sheet row`` where the rows have places in the file.
    groups : dict of str to list of str
        Names of arrays of an NPZ file, each with its columns.

    Raises
    ------
    InputError
        For a file that is missing or cannot be read.
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
        _check_size(path, OF_A_BYTE * path.stat().st_size)
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
    except Exception as error:  # every reader has its own exceptions; all of them mean the same to the user
        raise InputError(f"{path} cannot be read as {suffix[1:].upper()}: {one_line(error)}") from None
    frame.columns = [str(c).strip() for c in frame.columns]
    check_unique(list(frame.columns), path)
    _check_size(path, OF_A_NUMBER * frame.size)
    return frame, groups


def _suffix(path: Path, text: Text) -> str:
    """Return what kind of table it is, the extension under that of its compression; refuse what is none."""
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
    """Open the one file in a zip archive."""
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
    """Refuse a table that memory has no room for."""
    if needed > SMALL:
        plan(needed, memory_left(needed), "Leave out rows or columns.", what=f"the table {path}")


# ---------------------------------------------------------------------- text
def _decoded(path: Path, encoding: str) -> str:
    """Return what is in a file of text, unpacked."""
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
    """Return the frame of a text, whose rows are called by their lines."""
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
        warnings.simplefilter("ignore")  # newer releases of pandas round correctly without being asked
        frame = pd.read_csv(
            io.StringIO(content), sep=delimiter, decimal=text.decimal, skipinitialspace=True, index_col=False,
            float_precision="round_trip",
        )  # fmt: skip
    if text.decimal == ",":
        _check_points(frame, path)
    frame.index = pd.Index(lines[1 : len(frame) + 1], name="line")
    return frame


def _lines(content: str, delimiter: str, path: Path, width: int) -> Iterator[int]:
    """Yield the line on which each row begins that is not empty; refuse rows with more or fewer fields than names."""
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
    """Refuse 1.000 where the decimal is a comma: it would be one thousand in one country and one in another."""
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


# ---------------------------------------------------------------------- columns
class Content(NamedTuple):
    """What a column holds.

    Attributes
    ----------
    kind : {"numbers", "mixed", "odd", "text"}
        Odd: text that begins with figures, as dates and numbers in another writing do. Mixed: numbers and something
        else.
    example : str
        A value that is no number.
    row : int
        Where it stands first.
    """

    kind: str
    example: str = ""
    row: int = 0


def content_of(series: pd.Series) -> Content:
    """Look at every value of a column.

    Parameters
    ----------
    series : pandas.Series

    Returns
    -------
    Content

    Examples
    --------
    >>> import pandas as pd
    >>> [content_of(pd.Series(values)).kind for values in (["$1", "$2"], ["2020-01-01"], ["no", "yes"], ["no", 1])]
    ['odd', 'odd', 'text', 'mixed']
    """
    pd = required("pandas", "reading a table", "tables")
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    if inferred in _NUMBERS:
        return Content("numbers")
    texts = series.astype(object).map(str, na_action="ignore")
    distinct = texts.dropna().drop_duplicates()
    numbers = pd.to_numeric(distinct, errors="coerce").notna()
    words = distinct[~numbers].tolist()
    if not words:
        return Content("numbers")
    odd = inferred != "mixed" and all(map(_FIGURES.match, words))
    kind = "mixed" if numbers.any() else "odd" if odd else "text"
    return Content(kind, _shown(words[0]), int((texts == words[0]).to_numpy().argmax()))


def _shown(text: str) -> str:
    """Quote a text with every letter visible, blanks that are not spaces too."""
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")


def to_numbers(series: pd.Series, name: str, where: str, remedy: str = "") -> np.ndarray:
    """Return a column as floats, missing values as NaN.

    Parameters
    ----------
    series : pandas.Series
        Its index says where rows stand in their file.
    name, where : str
        The column and its file, for messages.
    remedy : str
        What to do about text other than to convert it, beginning with a comma.

    Raises
    ------
    InputError
        Where it holds anything else, with the first of that.

    Examples
    --------
    >>> import pandas as pd
    >>> to_numbers(pd.Series([1, "2"]), "a", "t.csv").tolist()
    [1.0, 2.0]
    """
    found, at, called = content_of(series), RowNames.of(series).all, f"{where}: column {name!r}"
    if found.kind != "numbers":
        why = "Convert it to numbers (a date to days, '1 kg' to 1)"
        if "," in found.example:
            why = "Read decimal commas with --decimal , (decimal=','), or take them out"
        raise InputError(f"{called} is not numeric: {at(found.row)} holds {found.example}. {why}{remedy}.")
    values = series.to_numpy()
    if values.dtype.kind == "O":
        values = np.array([as_double(v) if isinstance(v, str) else v for v in values], dtype=object)
    return to_doubles(values, called, lambda position: f"{called}, {at(position[0])}")


def holds_classes(series: pd.Series) -> bool:
    """Return whether a target looks like classes: words, booleans, −1 and 1, or 0 … k − 1 ten times each on average.

    Parameters
    ----------
    series : pandas.Series

    Examples
    --------
    >>> import pandas as pd
    >>> [holds_classes(pd.Series(values)) for values in (["a", "b"], [0, 1, 1], [0.0, 1.5], [0, 1, 10**400])]
    [True, True, False, False]
    """
    content = content_of(series)
    if content.kind != "numbers":
        return content.kind == "text"
    try:
        values = np.unique(as_doubles(series.dropna()))
    except (TypeError, ValueError):
        return False
    if values.tolist() in ([-1.0, 1.0], [0.0, 1.0]):
        return True
    counts = len(values) > 2 and np.array_equal(values - values[0], np.arange(len(values)))
    return bool(counts and values[0] in (0.0, 1.0) and len(series) >= ROWS_OF_A_CLASS * len(values))
