"""Trees of cells of 2 × 2 covariances, and what is left to pay at their vertices."""

from __future__ import annotations

import math

import numpy as np

from covopt.depth.gram_cells import INFEASIBLE, WILD, cheapest, refill, tables

MOST_CELLS = 60_000  # of a layer, beyond which no more are halved
MOST_READ = 2 * MOST_CELLS + 1  # the last round may have halved every leaf
MOST_HALVED = 120  # times, one in another
_LEAF = "."


class Cells:
    """A tree of cells of one layer, and what is left to pay at their vertices.

    Parameters
    ----------
    low, high : ndarray of shape (3,)
        Ends of the root.
    beta2 : float
        β².
    flat : bool
        Whether v = 1/β² alone, and M̄₁₂ may be negative.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, beta2: float, flat: bool = False) -> None:
        self.beta2, self.flat = beta2, flat
        self.low, self.high = low[None].copy(), high[None].copy()
        self.child, self.parent = np.zeros(1, dtype=np.int64), np.full(1, -1, dtype=np.int64)
        self.axis = np.full(1, -1, dtype=np.int64)
        self.points, self.slopes = np.empty((0, 8, 3)), np.empty((0, 8, 3))
        self.sizes, self.room = np.empty((0, 3)), np.empty((0, 8))
        self.kinds, self.left = np.empty(0, dtype=np.int64), np.empty((0, 8))
        self.fill()

    def fill(self) -> np.ndarray:
        """Compute the tables of cells that have none yet, and return which they are."""
        known, n = len(self.kinds), len(self.low)
        points, slopes = np.empty((n - known, 8, 3)), np.empty((n - known, 8, 3))
        sizes, room = np.empty((n - known, 3)), np.empty((n - known, 8))
        kinds = np.empty(n - known, dtype=np.int64)
        tables(self.low[known:], self.high[known:], self.beta2, self.flat, points, slopes, sizes, room, kinds)
        self.points, self.slopes = np.vstack([self.points, points]), np.vstack([self.slopes, slopes])
        self.sizes, self.room = np.vstack([self.sizes, sizes]), np.vstack([self.room, room])
        self.kinds, self.left = np.r_[self.kinds, kinds], np.vstack([self.left, np.zeros((n - known, 8))])
        return np.arange(known, n)

    def open(self, which: np.ndarray) -> np.ndarray:
        """Say which of some cells have states, and vertices that bound them."""
        return (self.kinds[which] != INFEASIBLE) & (self.kinds[which] != WILD)

    def halve(self, cells: np.ndarray, axes: np.ndarray) -> None:
        """Halve leaves, each along its axis; the tables of the parts are to be filled."""
        n = len(self.low)
        self.child[cells] = n + 2 * np.arange(len(cells))
        self.axis[cells] = axes
        ends_low, ends_high = self.low[cells], self.high[cells]
        every = np.arange(len(cells))
        a, b = ends_low[every, axes], ends_high[every, axes]
        middle = np.where(axes == 0, np.sqrt(np.abs(a * b)), 0.5 * (a + b))
        first, second = ends_high.copy(), ends_low.copy()
        first[every, axes], second[every, axes] = middle, middle
        self.low = np.vstack([self.low, np.stack([ends_low, second], axis=1).reshape(-1, 3)])
        self.high = np.vstack([self.high, np.stack([first, ends_high], axis=1).reshape(-1, 3)])
        self.child = np.r_[self.child, np.zeros(2 * len(cells), dtype=np.int64)]
        self.parent = np.r_[self.parent, np.repeat(cells, 2)]
        self.axis = np.r_[self.axis, np.full(2 * len(cells), -1, dtype=np.int64)]

    def pay(self, which: np.ndarray, beyond: Cells, asked: np.ndarray) -> None:
        """Raise what is left to pay at the vertices of some cells; see :func:`covopt.depth.gram_cells.refill`."""
        refill(
            which[self.open(which)], self.parent, self.points, self.left, beyond.child, beyond.slopes, beyond.sizes,
            beyond.room, beyond.kinds, beyond.left, asked,
        )  # fmt: skip

    def cheapest(self, at: np.ndarray, above: float) -> float:
        """Return the least that is to pay from B on; see :func:`covopt.depth.gram_cells.cheapest`."""
        return float(
            cheapest(
                at, self.child, self.slopes, self.sizes, self.room, self.kinds, self.left, above
            )
        )  # fmt: skip

    def written(self) -> str:
        """Return the tree in preorder."""
        out, stack = [], [0]
        while stack:
            i = stack.pop()
            if self.child[i]:
                out.append(str(self.axis[i]))
                stack += [int(self.child[i]) + 1, int(self.child[i])]
            else:
                out.append(_LEAF)
        return "".join(out)

    def read(self, text: str) -> None:
        """Halve the root as a tree in preorder says.

        Raises
        ------
        ValueError
            Where it is no tree, or too large a one.
        """
        if len(text) > MOST_READ:
            raise ValueError(f"a layer has more than {MOST_READ} cells")
        low, high, depth = [self.low[0].tolist()], [self.high[0].tolist()], [0]
        child, parent, axis, stack = [0], [-1], [-1], [0]
        for sign in text:
            if not stack:
                raise ValueError("a tree of cells goes on after its end")
            i = stack.pop()
            if sign == _LEAF:
                continue
            if sign not in "012" or depth[i] >= MOST_HALVED:
                raise ValueError(f"a tree of cells holds {sign!r} after {depth[i]} halvings")
            k = axis[i] = int(sign)
            child[i] = len(child)
            stack += [len(child) + 1, len(child)]
            a, b = low[i][k], high[i][k]
            middle = math.sqrt(a * b) if k == 0 else 0.5 * (a + b)
            low += [low[i], [*low[i][:k], middle, *low[i][k + 1 :]]]
            high += [[*high[i][:k], middle, *high[i][k + 1 :]], high[i]]
            depth += [depth[i] + 1] * 2
            child += [0, 0]
            parent += [i, i]
            axis += [-1, -1]
        if stack:
            raise ValueError("a tree of cells ends too soon")
        self.low, self.high = np.array(low), np.array(high)
        self.child, self.axis = np.array(child, dtype=np.int64), np.array(axis, dtype=np.int64)
        self.parent = np.array(parent, dtype=np.int64)
        self.fill()
