"""Files to frames: CSV and its kin, compressed or from standard input, Parquet, Feather, Excel, NPZ."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from covopt.checks.optional import required
from covopt.checks.validation import suggest
from covopt.checks.wording import one_line
from covopt.data.text_tables import (
    COMPRESSED,
    DELIMITERS,
    STDIN,
    Raw,
    Text,
    check_size,
    check_text,
    check_unique,
    read_text,
    text_blocks,
    zipped_name,
)
from covopt.errors import InputError
from covopt.files import check_archive

Found = TypeVar("Found")

UNNAMED = "Unnamed: "
_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow")
_EXCEL = (".xlsx", ".xls", ".ods")
OF_A_NUMBER, OF_NPZ, OF_EXCEL = 40, 3, 10  # bytes taken for a number, or for a byte of the file
KINDS = "CSV (.csv, .tsv, .txt; also .gz, .bz2, .xz or .zip of it), Parquet, Feather, Excel or NPZ"


def read_raw(path: Path, text: Text) -> Raw:
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
    suffix = _suffix(path, text)
    if suffix in DELIMITERS:
        return _guarded(path, suffix[1:].upper(), lambda: read_text(path, suffix, text))
    if suffix == ".npz":
        return _guarded(path, "NPZ", lambda: _read_npz(path))
    if suffix in _EXCEL:
        return _guarded(path, "Excel", lambda: _read_excel(path))
    return _guarded(path, suffix[1:].upper(), lambda: _read_arrow(path, suffix))


def raw_blocks(path: Path, text: Text) -> Iterator[Raw]:
    """Read a table a block of rows after the other; what is no text comes as one.

    Parameters
    ----------
    path : Path
    text : Text

    Raises
    ------
    InputError
        As :func:`read_raw`.
    """
    suffix = _suffix(path, text)
    if suffix not in DELIMITERS:
        yield read_raw(path, text)
        return
    blocks = text_blocks(path, suffix, text)
    while (raw := _guarded(path, suffix[1:].upper(), lambda: next(blocks, None))) is not None:
        yield raw


def _suffix(path: Path, text: Text) -> str:
    """Return what kind of table it is, the extension under that of its compression; refuse what is none."""
    check_text(text)
    if str(path) == STDIN:
        return ".csv"
    inner = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    if path.suffix.lower() == ".zip" and inner.suffix.lower() not in DELIMITERS and zipfile.is_zipfile(path):
        inner = Path(zipped_name(path))
    suffix = inner.suffix.lower()
    text_only = suffix in DELIMITERS
    if not text_only and (inner != path or suffix not in {*_PARQUET, *_FEATHER, *_EXCEL, ".npz"}):
        known = inner.suffix.lower() or path.suffix.lower() or "(no extension)"
        within = "" if inner.suffix == path.suffix else f" in {path.suffix.lower()}"
        raise InputError(f"{path}: unknown file type {known!r}{within}; use {KINDS}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a table ({KINDS}).")
    if not path.exists():
        near = suggest(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise InputError(f"{path} does not exist{near or '.'}")
    if not text_only and text != Text():
        raise InputError(f"{path} is no text: sep, encoding and decimal (--sep, …) are for CSV files alone.")
    return suffix


def _guarded(path: Path, kind: str, read: Callable[[], Found]) -> Found:
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


def _read_arrow(path: Path, suffix: str) -> Raw:
    pq = required("pyarrow.parquet", str(path), "parquet")
    pd = required("pandas", "reading a table", "parquet")
    if suffix in _PARQUET:
        found = pq.read_metadata(path)
        check_size(path, OF_A_NUMBER * found.num_rows * found.num_columns)
        check_unique(list(pq.read_schema(path).names), path)
        frame = pd.read_parquet(path)
    else:
        check_size(path, OF_A_NUMBER * _feather_numbers(path))
        frame = pd.read_feather(path)
        check_unique([str(c) for c in frame.columns], path)
    frame.columns = [str(c) for c in frame.columns]
    return Raw(frame)


def _feather_numbers(path: Path) -> int:
    dataset = required("pyarrow.dataset", str(path), "parquet")
    try:
        found = dataset.dataset(path, format="feather")
        return int(found.count_rows() * len(found.schema))
    except (OSError, ValueError):  # of the first version, which is not compressed
        return path.stat().st_size // 4


def _read_excel(path: Path) -> Raw:
    pd = required("pandas", "reading a table", "excel")
    check_size(path, OF_EXCEL * path.stat().st_size)
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
    with zipfile.ZipFile(path) as packed:
        check_size(path, OF_NPZ * sum(entry.file_size for entry in packed.infolist()))
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
