"""One cover of all directions by boxes, for duals that move: its bound, and relaxed neurons where that is largest.

A box bounds h by the activations of a relaxed neuron, one number between the smallest and the largest σ that its
moments allow for every row (:mod:`covopt.oracles.cones.quadratic`).
"""

from __future__ import annotations

import numpy as np

from covopt.oracles.cones.boxes import ROOT_ROUNDS, Box, bound_all, roots
from covopt.oracles.cones.gauge import Scalar

ROUNDS, FIRST = 20, 8.0  # of multipliers: for each dual, and how many those of the last dual count for
COLUMNS = 150  # the worst boxes of a turn
MOST_COLUMNS = 1500
TIGHT = 0.75  # of the bound: boxes below it give no column


class Cover:
    """Boxes that cover all directions in fixed coordinates, for duals that move.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        In these coordinates.
    dual : ndarray of shape (N,)
        Of the size of the duals to come.
    n_threads : int

    Attributes
    ----------
    boxes : list of Box
    gauge : float
        What the boxes show of the last dual.
    columns : ndarray of shape (m, N)
        Relaxed neurons.
    """

    def __init__(self, rows: np.ndarray, dual: np.ndarray, n_threads: int = 1):
        self.rows, self.n_threads = rows, n_threads
        self._unit = 2.0 ** np.frexp(np.abs(dual).max())[1]
        self.boxes = list(roots(*rows.shape))
        self._fresh = True
        self.gauge = np.inf
        self.columns, self._owners = np.zeros((0, len(rows))), np.zeros(0, dtype=np.int64)

    def bound(self, dual: np.ndarray) -> float:
        """Bound the gauge of a dual of shape (N,), box by box, and keep the multipliers."""
        for box in self.boxes:
            box.bound = np.inf
        self._look(self.boxes, dual)
        self._fresh = False
        self.gauge = self._unit * max(box.bound for box in self.boxes)
        return self.gauge

    def _look(self, boxes: list[Box], dual: np.ndarray) -> None:
        level = TIGHT * self.gauge / self._unit if np.isfinite(self.gauge) else 0.0
        bound_all(
            Scalar.in_coordinates(self.rows, dual / self._unit),
            boxes,
            rounds=ROOT_ROUNDS if self._fresh else ROUNDS,
            first=2.0 if self._fresh else FIRST,
            level=level,
            n_threads=self.n_threads,
        )

    def price(self, dual: np.ndarray) -> None:
        """Add the relaxed neurons of the worst boxes to the columns."""
        bounds = np.array([box.bound for box in self.boxes])
        worst = np.argsort(-bounds, kind="stable")[:COLUMNS]
        worst = worst[bounds[worst] > TIGHT * bounds.max()]
        found = [relaxed_activations(self.rows, dual, self.boxes[place]) for place in worst]
        self.columns = np.concatenate([self.columns, found])
        self._owners = np.concatenate([self._owners, worst])

    def drop(self, heights: np.ndarray) -> None:
        """Keep the columns that are tightest."""
        if len(heights) > MOST_COLUMNS:
            kept = np.argsort(-heights, kind="stable")[: MOST_COLUMNS // 2]
            self.columns, self._owners = self.columns[kept], self._owners[kept]

    def refine(self, dual: np.ndarray, count: int) -> None:
        """Cut the worst boxes until there are ``count``, a quarter of them at a time."""
        while len(self.boxes) < count:
            bounds = np.array([box.bound for box in self.boxes])
            worst = np.argsort(-bounds, kind="stable")[: max(1, min(len(bounds) // 4, count - len(bounds)))]
            worst = np.array([place for place in worst if self.boxes[place].cut >= 0], dtype=np.int64)
            if not len(worst):
                return
            halves = [tuple(self.boxes[place].halves()) for place in worst]
            for place, (left, _) in zip(worst, halves, strict=True):
                self.boxes[place] = left
            self.boxes += [right for _, right in halves]
            kept = ~np.isin(self._owners, worst)
            self.columns, self._owners = self.columns[kept], self._owners[kept]
            self._look([box for pair in halves for box in pair], dual)


def relaxed_activations(rows: np.ndarray, dual: np.ndarray, box: Box) -> np.ndarray:
    """Return what a box takes for σ(z_i·w): most where ``box.sign``·λ_i > 0, least elsewhere.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        In the coordinates of the box.
    dual : ndarray of shape (N,)
    box : Box

    Returns
    -------
    ndarray of shape (N,)
    """
    a, side = box.chart, box.side
    middle, reach = rows @ box.centre, np.abs(rows) @ box.width
    low, high = middle - reach, middle + reach
    nearest = np.maximum(np.abs(box.centre) - box.width, 0.0)
    nearest[a] = 1.0
    longest = 1.0 / np.linalg.norm(nearest)
    products = rows @ box.X
    first, second = rows @ box.x, np.maximum((products * rows).sum(axis=1), 0.0)
    edge = products[:, a] * side
    with np.errstate(divide="ignore", invalid="ignore"):
        width = high - low
        largest = np.maximum(-low, high) * longest
        tau = np.minimum(np.sqrt(second), largest)
        curved = 0.5 * first + 0.25 * np.where(tau > 0.0, second / tau, 0.0) + 0.25 * tau
        bend = np.minimum(high, -low) / (width**2 * longest)
        chord = high / width * (first - low * box.x[a] * side)
        chord -= bend * ((low + high) * edge - second - low * high * box.X[a, a])
        length = np.linalg.norm(products, axis=1)
        inside = (np.abs(products @ box.centre) + np.abs(products) @ box.width) * longest
        pull = np.nan_to_num(length**2 / np.minimum(length, inside))
        most = np.fmin(curved, chord)
        least = np.fmax.reduce(
            [
                0.0 * first, first, (second - low * edge) / (width * longest),
                0.5 * (first + second / largest), 0.5 * (first + pull),
            ]
        )  # fmt: skip
    found = np.where(box.sign * dual > 0.0, most, least)
    return np.where(low >= 0.0, first, np.where(high <= 0.0, 0.0, found))
