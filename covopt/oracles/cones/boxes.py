"""Boxes of directions with what their quadratic bounds begin with, and many of them bounded at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.exact.rounding import EPS
from covopt.oracles.cones.gauge import Scalar
from covopt.oracles.cones.narrowing import OFF, ON
from covopt.oracles.cones.quadratic import OPTIONS, UNSET, bound_boxes

ROOT_ROUNDS = 60
DELAY = 4.0
PIECE_WORK = 1e8
CHANGED = ("centre", "width", "x", "X", "d", "e", "shares", "fixed")  # of a box, by a bound


@dataclass
class Box:
    """An open box: its bound, chart, place, assumed signs of rows, and the moments that its halves begin with."""

    bound: float
    sign: float
    chart: int
    side: float
    centre: np.ndarray
    width: np.ndarray
    x: np.ndarray
    X: np.ndarray
    d: np.ndarray
    e: np.ndarray
    shares: np.ndarray
    fixed: np.ndarray
    cut: int
    is_narrower: bool = False

    def halves(self) -> Iterator[Box]:
        """Both halves along the cut, of an axis or of the sign of a row, with copies of the multipliers.

        A box that has just become smaller is one half, and there is no other.
        """
        if self.is_narrower:
            yield self
            return
        row = self.cut - len(self.width)
        for way in (1.0, -1.0):
            centre, width, fixed = self.centre.copy(), self.width.copy(), self.fixed.copy()
            if row < 0:
                width[self.cut] *= 0.5
                centre[self.cut] += way * width[self.cut]
            else:
                fixed[row] = ON if way > 0.0 else OFF
            yield Box(
                self.bound, self.sign, self.chart, self.side, centre, width, self.x.copy(), self.X.copy(),
                self.d.copy(), self.e.copy(), self.shares.copy(), fixed, -1,
            )  # fmt: skip


def bound_all(
    scalar: Scalar,
    boxes: list[Box],
    *,
    rounds: int,
    first: float,
    level: float,
    by_signs: float = np.inf,
    narrows: bool = False,
    n_threads: int = 1,
) -> None:
    """Bound boxes, each from the multipliers that it has: its ``bound`` only falls, its multipliers and cut are new.

    Parameters
    ----------
    scalar : Scalar
        G.
    boxes : list of Box
    rounds : int
        ``ROOT_ROUNDS`` where the boxes have no multipliers yet.
    first : float
        Rounds that the moments count for.
    level : float
        Rounds end once a bound is at most this.
    by_signs : float
        A box is cut along a row, not an axis, where what is not known of its sign costs more than this share of the
        distance to ``level``.
    narrows : bool
        Leave out of the boxes what does not exceed ``level``; twice in a row only where nothing was left out before.
    n_threads : int
        Changes nothing in the answer.
    """
    sizes = scalar.sizes * (1.0 + (len(scalar.y) + 4) * EPS)
    # deadlines and interrupts are heard between pieces of about a tenth of a second
    piece = max(1, int(PIECE_WORK / (rounds * scalar.y.size * len(scalar.linear) + 1)))

    def work(part: list[Box]) -> None:
        bounds, cuts = np.empty(len(part)), np.empty(len(part), dtype=np.int64)
        narrower = np.zeros(len(part), dtype=np.bool_)
        signs = np.array([box.sign for box in part])
        packed = [np.array([getattr(box, name) for box in part]) for name in CHANGED]
        arguments: list[Any] = [
            scalar.y, signs[:, None] * scalar.signs, signs[:, None] * scalar.linear,
            sizes, np.array([box.chart for box in part]), np.array([box.side for box in part]),
            *packed, rounds, first, 1.5 if rounds == ROOT_ROUNDS else DELAY, level, by_signs, narrows,
            bounds, cuts, narrower,
        ]  # fmt: skip
        bound_boxes(*arguments)
        for place, box in enumerate(part):
            for name, array in zip(CHANGED, packed, strict=True):
                setattr(box, name, array[place].copy())
            box.bound, box.cut = min(box.bound, float(bounds[place])), int(cuts[place])
            box.is_narrower = bool(narrower[place]) and not box.is_narrower

    parts = [boxes[k : k + piece] for k in range(0, len(boxes), piece)]
    if piece * n_threads > len(boxes):
        parts = [boxes[k::n_threads] for k in range(min(n_threads, len(boxes)))]
    if n_threads > 1:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, parts))
    else:
        for part in parts:
            work(part)


def roots(n_rows: int, rank: int) -> Iterator[Box]:
    """All directions, with both signs of G: what a search begins with."""
    for sign in (1.0, -1.0):
        for chart in range(rank):
            for side in (1.0, -1.0):
                centre, width = np.zeros(rank), np.ones(rank)
                centre[chart], width[chart] = side, 0.0
                yield Box(
                    np.inf, sign, chart, side, centre, width, np.zeros(rank), np.eye(rank) / rank, np.zeros(rank),
                    np.zeros(1), np.full((n_rows, OPTIONS), UNSET, np.uint8),
                    np.zeros(n_rows, np.uint8), -1,
                )  # fmt: skip
