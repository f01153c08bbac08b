"""Cells by a tree of linear programs (HiGHS): the method that the sweep replaces, as a check."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.arrangement.highs import linear_program
from covopt.arrangement.reduction import lift
from covopt.errors import SolverError

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


def enumerate_by_lp(X: Any, *, bias: float = 0.0) -> np.ndarray:
    """Enumerate activation patterns, shape (S, N), one row at a time, depth first.

    A node is a choice of signs for the first rows, with a point inside it. The next row's sign at that point
    is one child for free; one linear program, warm from the last basis, decides the other.
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

    def descend(depth: int, w: np.ndarray) -> None:
        if depth == len(live):
            found.append(signs.copy())
            return
        here = bool(rows[depth] @ w > 0)
        on_plane = abs(rows[depth] @ w) <= 1e-12
        for positive in (here, not here):
            margins.switch(depth, positive, True)
            inside = w if positive == here and not on_plane else margins.point()
            signs[live[depth]] = positive
            if inside is not None:
                descend(depth + 1, inside)
            margins.switch(depth, positive, False)

    descend(0, rows[0] / np.abs(rows[0]).max())
    return np.array(found)
