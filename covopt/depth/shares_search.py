"""Branch and bound over shares: the box with the least bound is cut where its relaxed optimum lies.

First one group for each sign: few boxes, and on most tables that is all. Where what is left is not the boxes' size,
one group for each class instead.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from covopt.depth.shares import (
    MOST_TUPLES,
    Box,
    Multipliers,
    Shares,
    Split,
    classes_of,
    shares_bound,
)
from covopt.depth.shares_program import Answer, Program
from covopt.limits import TimeUp, checkpoint, limited, seconds_left, unlimited

MOST_BOXES = 1500
FEW_CLASSES = (
    8  # four rows; with more a box takes longer, and more boxes would be needed than there is time for
)
MOST_GAUGES = 4000  # what a certificate asks of the oracle: one for each box and tuple, a millisecond or less
SEARCHED = 0.7  # of the time: the rest is for the certificate
STUCK = 0.15  # of what is missing: where the boxes' size loses less, smaller boxes do not help
UNREACHED = 0.5  # with a group for each class: then no network is as small as the bound is asked to be
FEW = 30  # boxes before that is believed
EDGE = 0.15  # of a side: no cut is nearer to its ends


class SharesSearch:
    """Three layers on a few rows.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    rows : tuple of int
    direction : tuple of float or None
    bias : float
    output_bias : {"none", "penalized"}
    positive : tuple of bool
        The rows on which λ is positive.
    cutoff : float
        The squared norm of some network.
    """

    def __init__(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        rows: tuple[int, ...],
        direction: tuple[float, ...] | None,
        bias: float,
        output_bias: str,
        positive: tuple[bool, ...],
        cutoff: float,
    ) -> None:
        self.X, self.Y, self.rows, self.direction = X, Y, rows, direction
        self.bias, self.output_bias, self.positive, self.cutoff = bias, output_bias, positive, cutoff

    def run(
        self, *, goal: float, level: float = 0.0, max_boxes: int = MOST_BOXES
    ) -> tuple[float, Shares] | None:
        """Return the best bound and its certificate; None where nothing above ``level`` was found.

        Parameters
        ----------
        goal : float
            Relative distance to the cutoff at which the search ends.
        level : float
            Of the other bounds.
        max_boxes : int
            Whose multipliers are sought, for each of the two ways to group.
        """
        best: tuple[float, Shares] | None = None
        for groups in (self._signs(), self._classes()):
            tuples = math.prod(map(len, groups))
            if tuples > MOST_TUPLES:
                continue
            shares, ended = self._grow(groups, goal, min(max_boxes, self._affordable(tuples)))
            if shares is not None:
                try:
                    value = shares_bound(
                        shares, self.X, self.Y, self.bias, self.output_bias, cutoff=self.cutoff
                    )
                except TimeUp:
                    break
                if value > level:
                    best, level = (value, shares), value
            if ended or level >= self.cutoff * (1.0 - goal):
                break
        return best

    def _affordable(self, tuples: int) -> int:
        """Return how many boxes there may be."""
        larger = max(1.0, len(classes_of(self.positive)) / FEW_CLASSES) ** 6
        return int(min(MOST_BOXES, MOST_GAUGES // tuples) / larger)

    def _signs(self) -> tuple[tuple[int, ...], ...]:
        kinds = classes_of(self.positive)
        both = [tuple(k for k, (own, _) in enumerate(kinds) if own == sign) for sign in (1, -1)]
        return tuple(group for group in both if group)

    def _classes(self) -> tuple[tuple[int, ...], ...]:
        return tuple((k,) for k in range(len(classes_of(self.positive))))

    def _grow(
        self, groups: tuple[tuple[int, ...], ...], goal: float, most: int
    ) -> tuple[Shares | None, bool]:
        """Return a tree of boxes, and whether the time is up."""
        tree = _Tree(self, groups)
        try:
            with limited(SEARCHED * seconds_left()):
                tree.grow(self.cutoff * (1.0 - goal), most)
        except TimeUp:
            return (tree.shares() if tree.points else None), True
        return tree.shares(), False


class _Tree:
    """Boxes, the ones without parts in a heap."""

    def __init__(self, search: SharesSearch, groups: tuple[tuple[int, ...], ...]) -> None:
        self.search, self.groups = search, groups
        self.coarse = len(groups) < len(classes_of(search.positive))  # else c need not be cut
        rows = list(search.rows)
        lifted = search.X[rows]
        if search.bias > 0:
            lifted = np.column_stack([lifted, np.full(len(rows), search.bias)])
        u = np.ones(1) if search.direction is None else np.array(search.direction)
        self.program = Program(
            lifted, search.Y[rows] @ u / np.linalg.norm(u), search.bias, search.output_bias == "penalized",
            search.positive, groups, search.cutoff,
        )  # fmt: skip
        self.nodes: list[Split | int] = [-1]
        self.points: list[Multipliers] = []
        self.heap: list[tuple[float, int, Box, Answer]] = []

    def grow(self, target: float, most: int) -> None:
        """Cut boxes until the least bound is ``target``, or there are too many."""
        root = Box.root(len(self.groups), self.search.cutoff).clipped(self.search.cutoff)
        assert root is not None
        self._keep(0, root, self.program.solve(root, self.program.start))
        while self.heap and len(self.points) < most:
            checkpoint()
            value, index, box, answer = self.heap[0]
            if value >= target:
                return
            share = STUCK if self.coarse else UNREACHED
            if len(self.points) > FEW and float(answer.loss.sum()) < share * (target - value):
                return
            cut = self._cut(box, answer)
            if cut is None:
                return
            axis, at = cut
            parts = []
            for part in box.halves(axis, at):
                inner = part.clipped(self.search.cutoff)
                parts.append((inner, None if inner is None else self.program.solve(inner, answer.cuts)))
            with unlimited():  # half of this would be no tree
                heapq.heappop(self.heap)
                first = len(self.nodes)
                self.nodes[index] = Split(axis, at, first, first + 1)
                self.nodes += [-1, -1]
                for k, (inner, found) in enumerate(parts):
                    if inner is not None and found is not None:
                        self._keep(first + k, inner, found)

    def _keep(self, index: int, box: Box, answer: Answer) -> None:
        self.nodes[index] = len(self.points)
        self.points.append(Multipliers(answer.weights, answer.bends))
        value = max(answer.value, float(box.trivial()))
        heapq.heappush(self.heap, (value, index, box, answer))

    def _cut(self, box: Box, answer: Answer) -> tuple[int, float] | None:
        """Return where to cut: the axis that loses most, near the relaxed optimum."""
        low, high = np.array([*box.low, box.least]), np.array([*box.high, box.most])
        width = high - low
        loss = answer.loss
        if not loss.max() > 1e-7 * self.search.cutoff:
            loss = width**2 / np.maximum(high + low, 1e-300)
            loss[-1] *= self.coarse and self.search.bias > 0
        axis = int(np.argmax(loss))
        if not width[axis] > 1e-9 * self.search.cutoff:
            return None
        at = np.append(answer.shares, answer.cost)[axis]
        if axis < len(self.groups):
            at = 0.5 * at + 0.25 * (low[axis] + high[axis])
        edge = EDGE * width[axis]
        return axis, float(np.clip(at, low[axis] + edge, high[axis] - edge))

    def shares(self) -> Shares:
        """Return the certificate: the points of boxes that were cut are left out."""
        used = [node for node in self.nodes if not isinstance(node, Split) and node >= 0]
        place = {point: k for k, point in enumerate(used)}
        nodes = [node if isinstance(node, Split) else place.get(node, -1) for node in self.nodes]
        search = self.search
        return Shares(
            search.rows, search.direction, search.positive, self.groups, [self.points[k] for k in used], nodes
        )
