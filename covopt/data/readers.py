"""Files to frames: CSV and its kin, compressed or from standard input, Parquet, Feather, Excel, NPZ."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import sys
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.checks.validation import suggest
from covopt.checks.wording import one_line
from covopt.data.rows import RowNames
from covopt.errors import InputError
from covopt.files import check_archive
from covopt.files.archive import MOST_INFLATED

if TYPE_CHECKING:
    import pandas as pd

STDIN = "-"
UNNAMED = "Unnamed: "
_DELIMITERS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;"}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow")
_EXCEL = (".xlsx", ".xls", ".ods")
KINDS = "CSV (.csv, .tsv, .txt; also .gz, .bz2, .xz or .zip of it), Parquet, Feather, Excel or NPZ"


@dataclass(frozen=True)
class Text:
    """How to read a table of text.

    Attributes
    ----------
    sep : str, optional
        What separates columns; by default comma, semicolon or tab, whichever the first line has most of.
    encoding : str
    decimal : str
        The decimal point.
    """

    sep: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."


@dataclass(frozen=True)
class Raw:
    """A file as a frame.

    Attributes
    ----------
    frame : pandas.DataFrame
    groups : dict
        Names of arrays of an NPZ file to their columns.
    rows : RowNames
        What messages call the rows.
    kind : str or None
        The name of an index that makes messages do so, None where rows count from 0.
    labels : ndarray
    """

    frame: pd.DataFrame
    groups: dict[str, list[str]] = field(default_factory=dict)
    kind: str | None = None
    labels: np.ndarray | None = None

    @property
    def rows(self) -> RowNames:
        """What messages call the rows."""
        return RowNames() if self.kind is None else RowNames(self.labels, self.kind)


def read_raw(path: Path, text: Text = Text()) -> Raw:
    """Read a table of any kind.

    Parameters
    ----------
    path : Path
        ``-`` reads CSV from standard input.
    text : Text

    Raises
    ------
    InputError
        For a file that is missing or cannot be read.
    """
    check_text(text)
    if str(path) == STDIN:
        return _guarded(path, "CSV", lambda: _read_text(path, ".csv", sys.stdin.buffer.read(), text))
    inner = Path(path.stem) if path.suffix.lower() in _COMPRESSED else path
    suffix = inner.suffix.lower()
    text_only = suffix in _DELIMITERS
    if not text_only and (inner != path or suffix not in {*_PARQUET, *_FEATHER, *_EXCEL, ".npz"}):
        known = path.suffix.lower() or "(no extension)"
        raise InputError(f"{path}: unknown file type {known!r}; use {KINDS}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a table ({KINDS}).")
    if not path.exists():
        near = suggest(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise InputError(f"{path} does not exist{near or '.'}")
    if text_only:
        return _guarded(path, suffix[1:].upper(), lambda: _read_text(path, suffix, _inflated(path), text))
    if text != Text():
        raise InputError(f"{path} is no text: sep, encoding and decimal (--sep, …) are for CSV files alone.")
    if suffix == ".npz":
        return _guarded(path, "NPZ", lambda: _read_npz(path))
    if suffix in _EXCEL:
        return _guarded(path, "Excel", lambda: _read_excel(path))
    return _guarded(path, suffix[1:].upper(), lambda: _read_arrow(path, suffix))


def _guarded(path: Path, kind: str, read: Any) -> Raw:
    try:
        return read()
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} cannot be read as {kind}: byte {error.start} is no {error.encoding}; "
            "name its encoding with --encoding (encoding=...), for instance latin-1, cp1252 or utf-16."
        ) from None
    except Exception as error:  # every reader has its own exceptions; all of them mean the same to the user
        raise InputError(f"{path} cannot be read as {kind}: {one_line(error)}") from None


def check_text(text: Text) -> None:
    """Refuse separators, decimal points and encodings that are none.

    Parameters
    ----------
    text : Text

    Raises
    ------
    InputError
        Naming the option.
    """
    if text.sep is not None and len(text.sep) != 1:
        raise InputError(f"sep must be one character (\\t for a tab); received {text.sep!r}.")
    if text.decimal not in (".", ","):
        raise InputError(f"decimal must be '.' or ','; received {text.decimal!r}.")
    if text.sep == text.decimal:
        raise InputError(f"sep and decimal are both {text.sep!r}; columns could not be told from decimals.")
    try:
        "".encode(text.encoding)
    except LookupError:
        raise InputError(
            f"encoding {text.encoding!r} is unknown; try utf-8, latin-1, cp1252 or utf-16."
        ) from None


def _inflated(path: Path) -> bytes:
    suffix = path.suffix.lower()
    if suffix not in _COMPRESSED:
        return path.read_bytes()
    if suffix == ".zip":
        check_archive(path)
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX/")]
            if len(names) != 1:
                raise InputError(f"{path} holds {len(names)} files; a table is one file.")
            return archive.read(names[0])
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}[suffix]
    with opener(path) as stream:
        content = stream.read(MOST_INFLATED + 1)
    if len(content) > MOST_INFLATED:
        raise InputError(f"{path} inflates to more than {MOST_INFLATED >> 20} MiB; unpack it first.")
    return content


def _read_text(path: Path, suffix: str, raw: bytes, text: Text) -> Raw:
    pd = required("pandas", "reading a table", "tables")
    wide = text.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    if b"\x00" in raw and not wide:
        raise InputError(
            f"{path} holds zero bytes, which no text does; is it a table of another kind? For UTF-16 give "
            "--encoding utf-16 (encoding=...)."
        )
    content = raw.decode("utf-8-sig" if text.encoding.lower() in ("utf-8", "utf8") else text.encoding)
    head = next((line for line in io.StringIO(content, newline=None) if line.strip()), "")
    if not head:
        raise InputError(f"{path} is empty; the first line must name the columns.")
    candidates = [c for c in _DELIMITERS[suffix] if c != text.decimal]
    delimiter = text.sep or max(candidates, key=lambda c: (head.count(c), -candidates.index(c)))
    names = [n.strip() for n in next(csv.reader([head], delimiter=delimiter))]
    if pd.to_numeric(pd.Series(names, dtype=object), errors="coerce").notna().all():
        raise InputError(
            f"{path}: the first line must name the columns; it holds numbers ({head.strip()[:60]})."
        )
    check_unique(names, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases of pandas round correctly without being asked
        warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header would be lost
        try:
            frame = pd.read_csv(
                io.StringIO(content),
                sep=delimiter,
                decimal=text.decimal,
                skipinitialspace=True,
                index_col=False,
                float_precision="round_trip",
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            raise InputError(_too_wide(content, delimiter, len(names), path) or f"{path}: {error}") from None
    frame.columns = [str(c).strip() for c in frame.columns]
    if text.decimal == ",":
        _check_points(frame, path)
    return Raw(frame, kind="line", labels=_lines(content, delimiter, len(frame)))


def _too_wide(content: str, delimiter: str, width: int, path: Path) -> str:
    """Say which line has more fields than the header; nothing where none has."""
    reader = csv.reader(io.StringIO(content, newline=None), delimiter=delimiter)
    before = 0
    for record in reader:
        if len(record) > width and any(field.strip() for field in record[width:]):
            return (
                f"{path}: line {before + 1} has {len(record)} fields, but the first line names {width} column"
                f"{'' if width == 1 else 's'}. Titles and comments above the names have to go; --sep (sep=...) names "
                "another separator."
            )
        before = reader.line_num
    return ""


def _check_points(frame: pd.DataFrame, path: Path) -> None:
    """Refuse 1.000 where the decimal is a comma: it would be one thousand in one country and one in another."""
    for name in frame.columns[[not _is_numeric(kind) for kind in frame.dtypes]]:
        pointed = frame[name].dropna().astype(str)
        pointed = pointed[pointed.str.fullmatch(r"\s*[+-]?\d*\.\d*(?:[eE][+-]?\d+)?\s*")]
        if len(pointed):
            raise InputError(
                f"{path}: column {name!r} holds '{one_line(pointed.iloc[0], 40)}', a point although the decimal is a "
                "comma; take points between thousands out, or leave --decimal (decimal=...) away."
            )


def _is_numeric(kind: Any) -> bool:
    """Return whether pandas calls a type of column numeric."""
    pd = required("pandas", "reading a table", "tables")
    return pd.api.types.is_numeric_dtype(kind)


def _lines(content: str, delimiter: str, n_rows: int) -> np.ndarray:
    """Return the line on which each row begins, counted from 1 as editors do."""
    content = content.replace("\r\n", "\n").replace("\r", "\n")
    if content.rstrip("\n").count("\n") == n_rows:  # neither blank lines nor line ends within quotes
        return np.arange(2, n_rows + 2)
    reader, found, before = csv.reader(io.StringIO(content), delimiter=delimiter), [], 0
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            found.append(before + 1)
        before = reader.line_num
    return np.array(found[1 : n_rows + 1])


def _read_arrow(path: Path, suffix: str) -> Raw:
    pq = required("pyarrow.parquet", str(path), "parquet")
    pd = required("pandas", "reading a table", "parquet")
    if suffix in _PARQUET:
        check_unique(list(pq.read_schema(path).names), path)
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_feather(path)
        check_unique([str(c) for c in frame.columns], path)
    frame.columns = [str(c) for c in frame.columns]
    return Raw(frame)


def _read_excel(path: Path) -> Raw:
    pd = required("pandas", "reading a table", "excel")
    try:
        frame = pd.read_excel(path)
    except ImportError as error:
        raise InputError(
            f"{path} needs another package: {one_line(error)}; for .xlsx pip install 'covopt-nn[excel]'"
        ) from None
    frame.columns = [str(c).strip() for c in frame.columns]
    check_unique(list(frame.columns), path)
    return Raw(frame, kind="sheet row", labels=np.arange(2, len(frame) + 2))


def _read_npz(path: Path) -> Raw:
    pd = required("pandas", "reading a table", "tables")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an NPZ archive; write it with numpy.savez(path, X=X, y=y).")
    check_archive(path)
    columns: dict[str, Any] = {}
    groups: dict[str, list[str]] = {}
    with np.load(path, allow_pickle=False) as archive:
        arrays = {
            name: archive[name] for name in archive.files if name not in ("feature_names", "target_names")
        }
        given = {"X": archive.get("feature_names"), "Y": archive.get("target_names")}
        given["y"] = given["Y"]
    lengths = {name: array.shape for name, array in arrays.items()}
    if any(a.ndim not in (1, 2) for a in arrays.values()) or len({s[0] for s in lengths.values()}) > 1:
        shapes = ", ".join(f"{name} {shape}" for name, shape in lengths.items())
        raise InputError(
            f"{path}: its arrays must be 1-D or 2-D and have the same number of rows; found {shapes}."
        )
    for name, array in arrays.items():
        label = name.lower() if name in ("X", "Y") else name
        table = array[:, None] if array.ndim == 1 else array
        names = given.get(name)
        if names is not None and len(np.atleast_1d(names)) == table.shape[1]:
            groups[name] = [str(n) for n in np.atleast_1d(names)]
        elif table.shape[1] == 1 and name != "X":
            groups[name] = [label]
        else:
            groups[name] = [f"{label}{j}" for j in range(table.shape[1])]
        check_unique([*columns, *groups[name]], path)
        columns.update(zip(groups[name], table.T, strict=True))
    if "Y" in groups:
        groups.setdefault("y", groups["Y"])
    return Raw(pd.DataFrame(columns), groups)


def check_unique(names: Sequence[str], path: Path) -> None:
    """Refuse two columns of one name.

    Parameters
    ----------
    names : sequence of str
    path : Path

    Raises
    ------
    InputError
        Naming them.
    """
    repeated = sorted({n for n in names if list(names).count(n) > 1})
    if repeated:
        raise InputError(
            f"{path} has more than one column called {', '.join(map(repr, repeated))}; rename or drop them."
        )
