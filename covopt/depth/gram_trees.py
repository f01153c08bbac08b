"""Trees of cells of 2 × 2 covariances, and what is left to pay at their vertices."""

from __future__ import annotations

import numpy as np

from covopt.depth.gram_cells import CELL, INFEASIBLE, WILD, cheapest, fill, refill

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
        self.cells = np.zeros(0, dtype=CELL)
        self._add(low[None], high[None], np.full(1, -1))

    def _add(self, low: np.ndarray, high: np.ndarray, parent: np.ndarray) -> None:
        """Add leaves."""
        known, more = len(self.cells), np.zeros(len(low), dtype=CELL)
        more["low"], more["high"], more["parent"], more["axis"] = low, high, parent, -1
        self.cells = np.concatenate([self.cells, more])
        fill(self.cells, known, self.beta2, self.flat)

    def open(self, which: np.ndarray) -> np.ndarray:
        """Say which of some cells have states, and vertices that bound them."""
        kinds = self.cells["kind"][which]
        return (kinds != INFEASIBLE) & (kinds != WILD)

    def halve(self, which: np.ndarray, axes: np.ndarray) -> np.ndarray:
        """Halve leaves, each along its axis, and return their parts."""
        n, cells, every = len(self.cells), self.cells, np.arange(len(which))
        cells["child"][which], cells["axis"][which] = n + 2 * every, axes
        low, high = cells["low"][which], cells["high"][which]
        a, b = low[every, axes], high[every, axes]
        middle = np.where(axes == 0, np.sqrt(np.abs(a * b)), 0.5 * (a + b))
        first, second = high.copy(), low.copy()
        first[every, axes], second[every, axes] = middle, middle
        self._add(
            np.stack([low, second], axis=1).reshape(-1, 3), np.stack([first, high], axis=1).reshape(-1, 3),
            np.repeat(which, 2),
        )  # fmt: skip
        return np.arange(n, len(self.cells))

    def pay(self, which: np.ndarray, beyond: Cells, asked: np.ndarray) -> None:
        """Raise what is left to pay at the vertices of some cells; see :func:`covopt.depth.gram_cells.refill`."""
        refill(which[self.open(which)], self.cells, beyond.cells, asked)

    def cheapest(self, at: np.ndarray, above: float) -> float:
        """Return the least that is to pay from B on; see :func:`covopt.depth.gram_cells.cheapest`."""
        return float(cheapest(at, self.cells, above))

    def written(self) -> str:
        """Return the tree in preorder."""
        out, stack = [], [0]
        while stack:
            i = stack.pop()
            child = int(self.cells["child"][i])
            if child:
                out.append(str(self.cells["axis"][i]))
                stack += [child + 1, child]
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
        if set(text) - set("012" + _LEAF):
            raise ValueError(f"a tree of cells holds {min(set(text) - set('012' + _LEAF))!r}")
        sizes, stack = [1] * len(text), list[int]()  # of the part of a tree that begins at a sign
        for place in range(len(text) - 1, -1, -1):
            if text[place] != _LEAF:
                if len(stack) < 2:
                    raise ValueError("a tree of cells ends too soon")
                sizes[place] += stack.pop() + stack.pop()
            stack.append(sizes[place])
        if stack != [len(text)]:
            raise ValueError("a tree of cells goes on after its end")
        here = [(0, 0)]  # the cells of a level, and where their trees begin
        for _ in range(MOST_HALVED + 1):
            here = [(cell, place) for cell, place in here if text[place] != _LEAF]
            if not here:
                return
            cells, places = map(list, zip(*here, strict=True))
            parts = self.halve(np.array(cells), np.array([int(text[place]) for place in places])).tolist()
            begins = [at for place in places for at in (place + 1, place + 1 + sizes[place + 1])]
            here = list(zip(parts, begins, strict=True))
        raise ValueError(f"a cell is halved more than {MOST_HALVED} times")
