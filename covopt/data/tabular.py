"""Convert arrays, lists, pandas and polars frames to columns of doubles, with names of columns and rows.

pandas and polars are recognised by the module of the object's class, so that neither is imported here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from covopt.checks import counted
from covopt.checks.validation import as_double
from covopt.errors import InputError, TableWarning

FILE_ROWS = ("line", "sheet row")  # names of an index that holds the places of the rows in their file


class RowNames:
    """Names of the rows of a table in messages: the lines of its file, else numbers from 0.

    Parameters
    ----------
    labels : array_like of int, optional
        The place of each row in its file.
    kind : str
        What the labels count: lines, rows of a sheet.

    Examples
    --------
    >>> RowNames().all(3), RowNames().all(1, 3)
    ('row 3 (counting from 0)', 'rows 1 and 3 (counting from 0)')
    >>> RowNames([2, 5], "line").all(0, 1)
    'lines 2 and 5'
    """

    def __init__(self, labels: Any = None, kind: str = "row") -> None:
        self._labels, self._kind = None if labels is None else np.asarray(labels), kind

    @property
    def of_a_file(self) -> bool:
        """Whether the names are places in a file."""
        return self._kind in FILE_ROWS

    @property
    def of_x(self) -> str:
        """Words after a name that could be a row of Y; empty for places in a file."""
        return "" if self.of_a_file else " of X"

    @classmethod
    def of(cls, *tables: Any) -> RowNames:
        """Return the names from the first pandas frame or series whose index is called ``line`` or ``sheet row``.

        Parameters
        ----------
        *tables : array, frame, ...
        """
        for table in tables:
            kind = getattr(getattr(table, "index", None), "name", None)
            if type(table).__module__.startswith("pandas") and kind in FILE_ROWS:
                return cls(table.index, kind)
        return cls()

    def take(self, rows: np.ndarray) -> RowNames:
        """Return the names of some of the rows.

        Parameters
        ----------
        rows : array of int
        """
        return RowNames(rows if self._labels is None else self._labels[rows], self._kind)

    def short(self, i: int) -> str:
        """Return ``row 3`` or ``line 5``.

        Parameters
        ----------
        i : int
        """
        return f"{self._kind} {self._label(i)}"

    def all(self, *rows: int) -> str:
        """Return ``row 3 (counting from 0)`` or ``lines 2 and 5``, in ascending order.

        Parameters
        ----------
        *rows : int
            One or two.
        """
        names = " and ".join(map(str, sorted(self._label(i) for i in rows)))
        counted_from = "" if self.of_a_file else " (counting from 0)"
        return f"{self._kind}{'s' * (len(rows) > 1)} {names}{counted_from}"

    def _label(self, i: int) -> Any:
        return i if self._labels is None else self._labels[i]


@dataclass(frozen=True, eq=False)
class Named:
    """Columns with names, without a library of frames.

    Attributes
    ----------
    values : (N, k) array
    names : tuple of str
    """

    values: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)


def to_matrix(name: str, values: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return ``values`` as a float64 array of the same dimension, and the column names if there are any.

    NaN and infinity are kept; :func:`check_finite` refuses them.

    Raises
    ------
    InputError
        If it is not a table of real numbers; the message has the first row and column at fault.
    """
    if isinstance(values, Named):
        return _to_float(name, _as_array(name, values.values)), values.names
    if type(values).__module__.partition(".")[0] in {"pandas", "polars"}:
        return _from_frame(name, values)
    if type(values).__module__.startswith("scipy.sparse"):
        raise InputError(
            f"{name} is a sparse matrix ({type(values).__name__}); pass a dense one, e.g. {name}.toarray()."
        )
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    return _to_float(name, _as_array(name, values)), None


def _as_array(name: str, values: Any) -> np.ndarray:
    if values is None or isinstance(values, str | bytes | dict | set):
        raise InputError(
            f"{name} must be a table of numbers (array, nested lists, pandas or polars frame); "
            f"received {type(values).__name__}."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            array = np.asarray(values)
            if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
                array = np.array(values, dtype=object)  # keeps numbers among strings
    except InputError:
        raise
    except Exception as error:
        sizes = (
            [len(row) if isinstance(row, Sequence) else 1 for row in values]
            if isinstance(values, list)
            else []
        )
        odd = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
        why = str(error)
        if odd is not None:
            here, first = (counted(sizes[i], "entry", "entries") for i in (odd, 0))
            why = f"row {odd} (counting from 0) has {here} but row 0 has {first}"
        raise InputError(
            f"{name} is not a rectangular table of numbers: {why}. Give every row the same number of entries."
        ) from None
    return array


def _from_frame(name: str, frame: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return the columns of a frame or a series, and their names; none for a series without a name."""
    series = type(frame).__name__ == "Series"
    named = not series or frame.name not in (None, "")
    frame = frame.to_frame() if series else frame
    if type(frame).__name__ != "DataFrame":
        kind, advice = type(frame), f" pass {name}.collect()." if type(frame).__name__ == "LazyFrame" else ""
        raise InputError(
            f"{name} must be a table of numbers; received {kind.__module__}.{kind.__name__}.{advice}"
        )
    names = tuple(str(c) for c in frame.columns)
    check_unique(names, name)
    columns = [
        _to_float(name, np.asarray(frame[c].to_numpy())[:, None], j, label if named else None)
        for j, (c, label) in enumerate(zip(frame.columns, names, strict=True))
    ]
    if not columns:
        return np.empty((len(frame), 0)), None
    return columns[0][:, 0] if series else np.column_stack(columns), names if named else None


def to_doubles(array: np.ndarray, what: str, place: Callable[[tuple[int, ...]], str]) -> np.ndarray:
    """Return numbers of any type as doubles, missing ones as NaN, and warn if an integer is rounded.

    Parameters
    ----------
    array : ndarray
    what : str
        The name of the array in messages.
    place : callable
        Returns the name of an entry in messages, given its index.

    Raises
    ------
    InputError
        With the first entry that is not a real number.
    """
    kind = array.dtype.kind
    if kind == "c":
        raise InputError(
            f"{what} is complex; the networks are real: pass its real and imaginary parts as columns."
        )
    if kind not in "buifOUS":
        raise InputError(
            f"{what} must hold real numbers; received values of type {array.dtype}: turn dates into numbers (for "
            "instance days since a start), or leave them out."
        )
    if kind in "buif":
        with np.errstate(over="ignore"):
            doubles = np.array(array, dtype=np.float64, order="C")
    else:
        doubles = np.empty(array.shape)
        for position, value in np.ndenumerate(array):
            missing = value is None or type(value).__name__ in {"NAType", "NaTType"}
            number = isinstance(value, Real | np.number | np.bool_) or type(value).__name__ == "Decimal"
            if not missing and (not number or isinstance(value, np.complexfloating)):
                raise InputError(
                    f"{place(position)} is {value!r} ({type(value).__name__}), not a number; "
                    "convert that column to numbers (encode categories, parse strings) or leave it out."
                )
            doubles[position] = np.nan if missing else as_double(value)
    if kind in "iuO":
        _say_rounding(array, doubles, place)
    return doubles


def _say_rounding(given: np.ndarray, doubles: np.ndarray, place: Callable[[tuple[int, ...]], str]) -> None:
    """Warn of the first integer that is not a double: rows that differ only in such integers may become one point."""
    with np.errstate(invalid="ignore"):
        large = np.argwhere((np.abs(doubles) >= 2.0**53) & np.isfinite(doubles))
    for index in map(tuple, large.tolist()):
        value, double = given[index], int(doubles[index])
        if isinstance(value, int | np.integer) and int(value) != double:
            warnings.warn(
                f"{place(index)} is {int(value)}, which no double holds: it is read as {double}, and integers this "
                "near to each other become one number. Subtract what they have in common.",
                TableWarning,
                stacklevel=4,
            )
            return


def _to_float(
    name: str, array: np.ndarray, column: int | None = None, label: str | None = None
) -> np.ndarray:
    """Return an array as doubles: a table, or a column of a frame with its place and name."""

    def place(position: tuple[int, ...]) -> str:
        row, other = (*position, None)[:2]
        return f"{name} {_where(row, other if column is None else column, label)}"

    what = name if column is None else f"{name} {_where(None, column, label)}"
    return to_doubles(array, what, place)


def _where(row: int | None, column: int | None, label: str | None, rows: RowNames | None = None) -> str:
    called = rows or RowNames()
    parts = [] if row is None else [called.all(row)]
    if column is not None and called.of_a_file and label is not None:
        parts.append(f"column {label!r}")
    elif column is not None:
        parts.append(f"column {column}" + (f" ({label!r})" if label is not None else ""))
    return ", ".join(parts)


def check_unique(names: Sequence[str], what: object) -> None:
    """Refuse columns with the same name.

    Parameters
    ----------
    names : sequence of str
    what : object
        The name of the table in messages.

    Raises
    ------
    InputError
        With these names.
    """
    repeated = sorted({n for n in names if list(names).count(n) > 1})
    if repeated:
        raise InputError(
            f"{what} has more than one column called {', '.join(map(repr, repeated))}; rename or drop them."
        )


def check_finite(
    name: str,
    matrix: np.ndarray,
    labels: Sequence[str] | None,
    rows: RowNames | None = None,
    remedy: str = "Drop or impute these rows",
) -> None:
    """Refuse NaN and infinity.

    Parameters
    ----------
    name : str
        The name of the table in messages.
    matrix : (N, d) array
    labels : sequence of str, optional
        Names of the columns.
    rows : RowNames, optional
        Names of the rows, by default counted from 0.
    remedy : str
        What to do.

    Raises
    ------
    InputError
        With the first such value, its row and column, and how many there are.
    """
    bad = ~np.isfinite(matrix)
    if not bad.any():
        return
    row, column = (int(i) for i in np.argwhere(bad)[0])
    value = matrix[row, column]
    what = "NaN (a missing value)" if np.isnan(value) else ("infinity" if value > 0 else "-infinity")
    count, n_rows = int(bad.sum()), int(bad.any(axis=1).sum())
    more = f"; {count} such entries in {n_rows} rows altogether" if count > 1 else ""
    label = labels[column] if labels else None
    raise InputError(f"{name} {_where(row, column, label, rows)} is {what}{more}. {remedy}.")


def to_symmetric(name: str, values: Any, rounding: float) -> np.ndarray:
    """Return the mean of a matrix and its transpose, which may differ by ``rounding`` times the largest entry.

    Raises
    ------
    InputError
        If it is not square, not symmetric, not finite, or empty.
    """
    matrix, _ = to_matrix(name, values)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise InputError(
            f"{name} must be a square matrix with a row per point; received shape {matrix.shape}."
        )
    check_finite(name, matrix, None)
    gap = np.abs(matrix - matrix.T)
    if (gap > rounding * np.abs(matrix).max()).any():
        i, j = (int(v) for v in np.unravel_index(int(gap.argmax()), gap.shape))
        raise InputError(
            f"{name} is not symmetric: entry ({i}, {j}) is {matrix[i, j]:.10g} but ({j}, {i}) is {matrix[j, i]:.10g} "
            f"(counting from 0); pass ({name} + {name}.T) / 2 if this is rounding."
        )
    return (matrix + matrix.T) / 2
