"""Cells by a tree of linear programs (HiGHS): the method the sweep replaces, as a check and a baseline."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from covopt.arrangement.highs import linear_program
from covopt.arrangement.reduction import lift
from covopt.errors import InputError, SolverError

_INSIDE = 1e-7


class _Margins:
    """One warm linear program: max t, t ≤ s_i x_i·w over the rows on the path, |w| ≤ 1, t ≤ 1."""

    def __init__(self, rows: np.ndarray):
        import highspy

        n, d = rows.shape
        self.n, self.infinity = n, highspy.kHighsInf
        # each sample is two rows, x_i·w − t ≥ 0 and −x_i·w − t ≥ 0; the path switches them on and off
        self.model = linear_program(
            np.r_[np.zeros(d), -1.0],
            np.hstack([np.vstack([rows, -rows]), -np.ones((2 * n, 1))]),
            (np.full(2 * n, -self.infinity), np.full(2 * n, self.infinity)),
            (np.r_[-np.ones(d), 0.0], np.ones(d + 1)),
            presolve="off", threads=1,
        )  # fmt: skip
        self.optimal = highspy.HighsModelStatus.kOptimal

    def switch(self, row: int, positive: bool, on: bool) -> None:
        """Ask for a sign of a row, or stop asking."""
        self.model.changeRowBounds(
            row + (0 if positive else self.n), 0.0 if on else -self.infinity, self.infinity
        )

    def point(self) -> np.ndarray | None:
        """Return a point strictly inside the cone that is switched on, or None where it has no inside."""
        self.model.run()
        status = self.model.getModelStatus()
        if status != self.optimal:
            raise SolverError(f"HiGHS stopped with {status} on a cell's linear program; rescale the data")
        w = np.array(self.model.getSolution().col_value)
        return w[:-1] if w[-1] > _INSIDE else None


def enumerate_by_lp(
    X: Any, *, bias: float = 0.0, time_limit_s: float | None = None, half: bool = False
) -> np.ndarray:
    """Enumerate activation patterns by linear programs, one row at a time, depth first.

    A node is a choice of signs for the first rows, with a point inside it. The next row's sign at that point
    is one child for free; one linear program, warm from the last basis, decides the other.

    Parameters
    ----------
    X : array of shape (N, d)
    bias : float
        β, appended to every row when it is not 0.
    time_limit_s : float, optional
        Stop after this many seconds with the patterns found so far.
    half : bool
        Only the cells with a positive first nonzero row (the others are their mirror images).

    Returns
    -------
    ndarray of shape (S, N), bool

    Raises
    ------
    InputError
        If X is not a finite table with at least one row.
    SolverError
        If HiGHS fails.

    Examples
    --------
    >>> len(enumerate_by_lp([[1, 0], [0, 1], [1, 1]]))
    6
    """
    floats, _ = lift(X, bias)
    scale = np.abs(floats).max(axis=1)
    live = np.flatnonzero(scale)
    rows = floats[live] / scale[live, None]
    found: list[np.ndarray] = []
    signs = np.zeros(len(floats), dtype=bool)
    if not len(live):
        return signs[None]
    margins = _Margins(rows)
    deadline = np.inf if time_limit_s is None else time.perf_counter() + time_limit_s

    def descend(depth: int, w: np.ndarray) -> bool:
        if depth == len(live):
            found.append(signs.copy())
            return time.perf_counter() < deadline
        here = bool(rows[depth] @ w > 0)
        on_plane = abs(rows[depth] @ w) <= 1e-12
        for positive in (here, not here):
            if half and depth == 0 and not positive:
                continue
            margins.switch(depth, positive, True)
            inside = w if positive == here and not on_plane else margins.point()
            signs[live[depth]] = positive
            proceed = inside is None or descend(depth + 1, inside)
            margins.switch(depth, positive, False)
            if not proceed:
                return False
        return True

    descend(0, rows[0] / np.abs(rows[0]).max())
    return np.array(found)


def interior_point(X_lifted: Any, pattern: Any) -> np.ndarray:
    r"""Return a point strictly inside a cell, as deep as a linear program can put it.

    .. math:: \max_{t, w} t \quad \text{s.t.} \quad \pm x_i \cdot w \ge t \|x_i\|,\; |w_j| \le 1

    Parameters
    ----------
    X_lifted : array of shape (N, D)
        Rows with their bias coordinate, if any.
    pattern : array of shape (N,), bool
        Activation pattern; zero rows must be False.

    Returns
    -------
    ndarray of shape (D,)

    Raises
    ------
    InputError
        If the pattern has the wrong length or is not a cell of the rows.

    Examples
    --------
    >>> interior_point([[1.0, 0.0], [0.0, 1.0]], [True, False])
    array([ 1., -1.])
    """
    rows, _ = lift(X_lifted, 0.0)
    signs = np.asarray(pattern, dtype=bool)
    if signs.shape != (len(rows),):
        raise InputError(f"pattern must have one entry per row, {len(rows)}; got shape {signs.shape}")
    norms = np.linalg.norm(rows, axis=1)
    live = norms > 0
    if signs[~live].any():
        raise InputError(f"row {np.flatnonzero(~live & signs)[0]} is zero: no point activates it")
    if not live.any():
        return np.zeros(rows.shape[1])
    margins = _Margins(rows[live] / norms[live, None])
    for i, positive in enumerate(signs[live]):
        margins.switch(i, bool(positive), True)
    point = margins.point()
    if point is None:
        raise InputError("pattern is not a cell of these rows: no point has these signs")
    return point
