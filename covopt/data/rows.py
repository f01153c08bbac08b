"""How messages call the rows of a table: by the lines of its file where they are known, else counted from 0."""

from __future__ import annotations

from typing import Any

import numpy as np

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
