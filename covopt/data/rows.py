"""A table as it is read, and how messages call its rows: by the lines of its file, else counted from 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FILE_ROWS = ("line", "sheet row")


class RowNames:
    """Names of rows, for people.

    Parameters
    ----------
    labels : array_like of int, optional
        Where each row stands in its file.
    kind : str
        What is counted there: a line, a row of a sheet.

    Examples
    --------
    >>> RowNames().one(3), RowNames().two(1, 3)
    ('row 3 (counting from 0)', 'rows 1 and 3 (counting from 0)')
    >>> RowNames([2, 5], "line").two(0, 1)
    'lines 2 and 5'
    """

    def __init__(self, labels: Any = None, kind: str = "line") -> None:
        self._labels, self._kind = None if labels is None else np.asarray(labels), kind

    @property
    def of_a_file(self) -> bool:
        """Whether they are places in a file."""
        return self._labels is not None and self._kind in FILE_ROWS

    @property
    def of_x(self) -> str:
        """What follows a name where it may be that of a row of Y: nothing for places in a file."""
        return "" if self.of_a_file else " of X"

    @classmethod
    def of(cls, *tables: Any) -> RowNames:
        """Take them from the first pandas frame or series whose index is called ``line`` or ``sheet row``.

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
        labels = np.arange(rows.max(initial=-1) + 1) if self._labels is None else self._labels
        kind = "row" if self._labels is None else self._kind
        return RowNames(labels[rows], kind)

    def short(self, i: int) -> str:
        """Return ``row 3`` or ``line 5``.

        Parameters
        ----------
        i : int
        """
        return f"row {i}" if self._labels is None else f"{self._kind} {self._labels[i]}"

    def one(self, i: int) -> str:
        """Return ``row 3 (counting from 0)`` or ``line 5``.

        Parameters
        ----------
        i : int
        """
        return self.short(i) + self._counted()

    def two(self, i: int, j: int) -> str:
        """Return ``rows 1 and 3 (counting from 0)`` or ``lines 2 and 5``, the first of them first.

        Parameters
        ----------
        i, j : int
        """
        first, second = sorted((i, j)) if self._labels is None else sorted((self._labels[i], self._labels[j]))
        kind = "row" if self._labels is None else self._kind
        return f"{kind}s {first} and {second}{self._counted()}"

    def _counted(self) -> str:
        return "" if self.of_a_file else " (counting from 0)"


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

    def check(self) -> None:
        """Refuse separators, decimal points and encodings that are none.

        Raises
        ------
        InputError
            Naming the option.
        """
        if self.sep is not None and len(self.sep) != 1:
            raise InputError(f"sep must be one character (\\t for a tab); received {self.sep!r}.")
        if self.decimal not in (".", ","):
            raise InputError(f"decimal must be '.' or ','; received {self.decimal!r}.")
        if self.sep == self.decimal:
            raise InputError(
                f"sep and decimal are both {self.sep!r}; columns could not be told from decimals."
            )
        try:
            "".encode(self.encoding)
        except LookupError:
            raise InputError(
                f"encoding {self.encoding!r} is unknown; try utf-8, latin-1, cp1252 or utf-16."
            ) from None


@dataclass(frozen=True)
class Raw:
    """A file as a frame.

    Attributes
    ----------
    frame : pandas.DataFrame
    groups : dict
        Names of arrays of an NPZ file to their columns.
    kind : str or None
        What an index that names the rows in messages is called; None where rows count from 0.
    labels : ndarray
        That index.
    """

    frame: pd.DataFrame
    groups: dict[str, list[str]] = field(default_factory=dict)
    kind: str | None = None
    labels: np.ndarray | None = None

    @property
    def rows(self) -> RowNames:
        """What messages call the rows."""
        return RowNames() if self.kind is None else RowNames(self.labels, self.kind)
