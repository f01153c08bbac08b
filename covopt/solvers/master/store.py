"""Room for arrays of tens of megabytes that change in every round: getting fresh memory costs more than copying."""

from __future__ import annotations

import numpy as np
from numba import njit

SPARE = 1.5  # times as much room as is asked for
GROWTH = 4.0  # the same where rows are added: what is not written to takes no memory, a move takes twice


class Room:
    """One piece of memory that arrays of changing size are laid into; a new one overwrites the last.

    Examples
    --------
    >>> room = Room()
    >>> room.array(2, 3).shape, room.array(1, 4).shape
    ((2, 3), (1, 4))
    """

    def __init__(self) -> None:
        self._memory = np.empty(0)

    def array(self, *shape: int) -> np.ndarray:
        """Return an array of the shape, with anything in it."""
        size = int(np.prod(shape))
        if size > self._memory.size:
            self._memory = np.empty(int(SPARE * size))
        return self._memory[:size].reshape(shape)


class Store:
    """Rows that are added at the end or taken away, in one piece of memory.

    Parameters
    ----------
    width : int
        Entries of a row.

    Examples
    --------
    >>> store = Store(2)
    >>> rows = store.extended(np.zeros((0, 2)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> rows = store.taken(rows, np.array([False, True]))
    >>> store.extended(rows, np.array([[5.0, 6.0]])).tolist()
    [[3.0, 4.0], [5.0, 6.0]]
    """

    def __init__(self, width: int):
        self._memory = np.empty((0, width))

    def extended(self, rows: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """Return the rows with fresh ones behind; the rows' own memory is used where they are in the store."""
        total = len(rows) + len(fresh)
        if rows.base is not self._memory or total > len(self._memory):
            self._memory = np.empty((int(GROWTH * total), self._memory.shape[1]))
            self._memory[: len(rows)] = rows
        self._memory[len(rows) : total] = fresh
        return self._memory[:total]

    def taken(self, rows: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the rows that a mask names, moved up where they are in the store; the old array is given up."""
        chosen = np.flatnonzero(kept)
        if rows.base is not self._memory:
            return rows[chosen]
        _move_up(rows, chosen)
        return self._memory[: len(chosen)]


@njit(cache=True, nogil=True)
def _move_up(rows, chosen):
    """Write row chosen[i], ascending, to row i."""
    for i in range(len(chosen)):
        if chosen[i] != i:
            for a in range(rows.shape[1]):  # entry by entry: numba compiles much more for a slice
                rows[i, a] = rows[chosen[i], a]
