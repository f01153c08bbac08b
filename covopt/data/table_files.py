"""Tables from files: CSV, Parquet and NPZ, with the columns that are asked for."""

from __future__ import annotations

import csv
import logging
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.validation import suggest
from covopt.checks.wording import one_line
from covopt.errors import InputError, TableWarning
from covopt.files import check_archive

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("covopt")

_DELIMITERS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;"}
_PARQUET = (".parquet", ".pq")
_UNNAMED = "Unnamed: "
_FEATURE = "Convert it to numbers, or leave it out with --features (features=...)."
_TARGET = "Convert it to numbers; for classes train with a loss, as in covopt fit --loss logistic."


def load_table(
    path: str | Path,
    *,
    target: str | Sequence[str] | None,
    features: str | Sequence[str] | None = None,
    labels: bool = False,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], tuple[str, ...]]:
    r"""Read inputs and targets from a CSV, Parquet or NPZ file, chosen by its extension.

    Parameters
    ----------
    path : str or Path
        ``.csv`` (comma, semicolon or tab; the first line names the columns), ``.tsv``, ``.txt``,
        ``.parquet``, ``.pq`` or ``.npz`` (one-dimensional arrays are columns of their name; an (N, d) array
        ``X`` holds the columns ``x0, x1, …``, any other (N, d) array ``a`` the columns ``a0, a1, …``).
    target : str, sequence of str or None
        Target columns; ``"y1,y2"`` names two. In NPZ files the name of a two-dimensional array stands for all
        of its columns, and ``y`` also finds ``Y``. None: no targets, Y has no columns.
    features : str or sequence of str, optional
        Input columns, by default every other numeric column in the order of the file. Columns of text are
        left out; a column that mixes numbers with text is an error, not left out. So are, with a warning, columns
        whose header is empty and that hold nothing, or different whole numbers: the index that pandas writes.
    labels : bool
        Whether the target is one column of classes, which may be text; then Y is (N,), as it stands there.

    Returns
    -------
    X : (N, d) array
    Y : (N, k) array
    feature_names, target_names : tuple of str

    Raises
    ------
    InputError
        For a file that is missing or cannot be read, columns that are unknown, repeated or not numeric, and
        empty tables; the message names the column and the row.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> table = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = table.write_text("a,b,y\n0,1,2\n3,4,5\n")
    >>> X, Y, features, targets = load_table(table, target="y")
    >>> X.tolist(), Y.tolist(), features, targets
    ([[0.0, 1.0], [3.0, 4.0]], [[2.0], [5.0]], ('a', 'b'), ('y',))
    """
    path = Path(path)
    frame, groups = _read(path)
    columns = list(frame.columns)
    if not columns or len(frame) == 0:
        raise InputError(f"{path} has no {'rows' if columns else 'columns'}; at least one sample is needed.")
    targets = _resolve("target", target, columns, groups, path)
    chosen = _resolve("features", features, columns, groups, path)
    both = [c for c in chosen if c in targets]
    if both:
        raise InputError(f"column {both[0]!r} is both a feature and the target; name it once.")
    if features is None:
        chosen = [c for c in columns if c not in targets and not _is_text(frame[c])]
        chosen = _without_index(frame, chosen)
        skipped = [c for c in columns if c not in targets and c not in chosen]
        if skipped:
            logger.info("columns left out because they hold no numbers: %s", ", ".join(skipped))
        if not chosen and targets:
            raise InputError(
                f"{path} has no numeric column besides the target {', '.join(map(repr, targets))}."
            )
        if not chosen:
            raise InputError(f"{path} has no numeric column; its columns: {_listed(columns)}.")
    X = np.column_stack([_numbers(frame[c], c, path, _FEATURE) for c in chosen])
    if labels:
        if len(targets) != 1:
            raise InputError(f"classes stand in one column; target names {len(targets)}.")
        column = frame[targets[0]]
        Y = np.asarray(column if _is_text(column) else _numbers(column, targets[0], path, _TARGET))
        return X, Y, tuple(chosen), tuple(targets)
    Y = (
        np.column_stack([_numbers(frame[c], c, path, _TARGET) for c in targets])
        if targets
        else np.empty((len(frame), 0))
    )
    return X, Y, tuple(chosen), tuple(targets)


def load_column(path: str | Path, name: str, *, argument: str = "column") -> tuple[str, np.ndarray]:
    """Read one column of numbers from a file of :func:`load_table`.

    Parameters
    ----------
    path : str or Path
    name : str
    argument : str
        What messages call ``name``.

    Returns
    -------
    name : str
        As the table has it.
    values : (N,) array

    Raises
    ------
    InputError
        For a file that cannot be read, a column that is unknown or not numeric, and several of them.
    """
    path = Path(path)
    frame, groups = _read(path)
    found = _resolve(argument, name, list(frame.columns), groups, path)
    if len(found) > 1:
        raise InputError(f"{argument} takes one column; received {name!r}.")
    return found[0], _numbers(frame[found[0]], found[0], path, "Convert it to numbers.")


def _read(path: Path) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    suffix = path.suffix.lower()
    if suffix not in {*_DELIMITERS, *_PARQUET, ".npz"}:
        raise InputError(
            f"{path}: unknown file type {suffix or '(no extension)'!r}; use .csv, .tsv, .parquet or .npz."
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a table (.csv, .parquet or .npz).")
    if not path.exists():
        near = suggest(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise InputError(f"{path} does not exist{near or '.'}")
    try:
        if suffix == ".npz":
            return _read_npz(path)
        return (_read_parquet(path) if suffix in _PARQUET else _read_csv(path)), {}
    except InputError:
        raise
    except Exception as error:  # every reader has its own exceptions; all of them mean the same to the user
        raise InputError(f"{path} cannot be read as {suffix[1:].upper()}: {one_line(error)}") from None


def _read_csv(path: Path) -> pd.DataFrame:
    import pandas as pd

    with path.open(newline="", encoding="utf-8-sig") as stream:
        head = next((line for line in stream if line.strip()), "")
    if not head:
        raise InputError(f"{path} is empty; the first line must name the columns.")
    if _holds_zero(path):
        raise InputError(f"{path} holds zero bytes, which no text does; is it a table of another kind?")
    candidates = _DELIMITERS[path.suffix.lower()]
    delimiter = max(candidates, key=lambda c: (head.count(c), -candidates.index(c)))
    names = [n.strip() for n in next(csv.reader([head], delimiter=delimiter))]
    if all(_is_number(n) for n in names):
        raise InputError(
            f"{path}: the first line must name the columns; it holds numbers ({head.strip()[:60]})."
        )
    _check_unique(names, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases of pandas round correctly without being asked
        warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header would be lost
        frame = pd.read_csv(
            path,
            sep=delimiter,
            encoding="utf-8-sig",
            skipinitialspace=True,
            index_col=False,
            float_precision="round_trip",
        )
    frame.columns = [str(c).strip() for c in frame.columns]
    return frame


def _holds_zero(path: Path) -> bool:
    with path.open("rb") as stream:
        return any(b"\x00" in part for part in iter(lambda: stream.read(2**20), b""))


def _without_index(frame: pd.DataFrame, columns: list[str]) -> list[str]:
    """Leave out row numbers and trailing commas: columns without a name, which pandas calls ``Unnamed: 0``."""
    dropped = [c for c in columns if c.startswith(_UNNAMED) and _is_index(frame[c].to_numpy())]
    kept = [c for c in columns if c not in dropped]
    if not dropped or not kept:
        return columns
    position = list(frame.columns).index(dropped[0])
    warnings.warn(
        f"column {position} (counting from 0) has no name and holds row numbers or nothing, so it is no feature; "
        f"--features (features=...) with {dropped[0]!r} keeps it."
        + (f" {len(dropped)} columns are like this." if len(dropped) > 1 else ""),
        TableWarning,
        stacklevel=3,
    )
    return kept


def _is_index(values: np.ndarray) -> bool:
    if values.dtype.kind in "iu":
        return len(np.unique(values)) == len(values)
    return values.dtype.kind == "f" and bool(np.isnan(values).all())


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow.parquet as pq

    _check_unique(list(pq.read_schema(path).names), path)
    frame = pd.read_parquet(path)
    frame.columns = [str(c) for c in frame.columns]
    return frame


def _read_npz(path: Path) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    import pandas as pd

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
        _check_unique([*columns, *groups[name]], path)
        columns.update(zip(groups[name], table.T, strict=True))
    if "Y" in groups:
        groups.setdefault("y", groups["Y"])
    return pd.DataFrame(columns), groups


def _check_unique(names: Sequence[str], path: Path) -> None:
    repeated = sorted({n for n in names if list(names).count(n) > 1})
    if repeated:
        raise InputError(
            f"{path} has more than one column called {', '.join(map(repr, repeated))}; rename or drop them."
        )


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, 60) for name in columns[:20])
    return f"{shown}, … ({len(columns)} in all)" if len(columns) > 20 else shown


def _resolve(
    argument: str,
    wanted: str | Sequence[str] | None,
    columns: Sequence[str],
    groups: dict[str, list[str]],
    path: Path,
) -> list[str]:
    if wanted is None:
        return []
    if isinstance(wanted, str):
        wanted = [wanted] if wanted in columns or wanted in groups else [w.strip() for w in wanted.split(",")]
    names: list[str] = []
    for name in wanted:
        if name not in columns and name not in groups:
            raise InputError(
                f"{argument}: {path} has no column {name!r}{suggest(name, columns) or '.'} "
                f"Available: {_listed(columns)}."
            )
        names.extend([name] if name in columns else groups[name])
    repeated = [n for n in names if names.count(n) > 1]
    if repeated:
        raise InputError(f"{argument} names the column {repeated[0]!r} twice.")
    if not names:
        raise InputError(f"{argument} names no column. Available: {_listed(columns)}.")
    return names


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError, OverflowError):
        return False
    # Python reads 1_000 and digits of every script, tables do not
    return not isinstance(text, str) or (text.isascii() and "_" not in text)


def _is_text(series: pd.Series) -> bool:
    """Whether a column holds no number at all (nor one with a decimal comma): nothing is lost without it."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(series.dtype):
        return False
    return not any(_is_number(v) or _is_number(str(v).replace(",", ".")) for v in series.dropna().head(1000))


def _numbers(series: pd.Series, name: str, path: Path, remedy: str) -> np.ndarray:
    import pandas as pd

    if pd.api.types.is_complex_dtype(series.dtype):
        raise InputError(
            f"{path}: column {name!r} is complex; store its real and imaginary parts as two columns."
        )
    if pd.api.types.is_numeric_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    for row, value in enumerate(series):
        if not pd.isna(value) and not _is_number(value):
            if _is_number(str(value).replace(",", ".")):
                remedy = "Write decimals with a point (pandas: read_csv(..., decimal=',') and to_csv)."
            raise InputError(
                f"{path}: column {name!r} is not numeric: row {row} (counting from 0) holds "
                f"{one_line(value, 60)!r}. {remedy}"
            )
    return np.array([np.nan if pd.isna(value) else float(value) for value in series])
