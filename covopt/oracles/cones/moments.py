r"""A certified upper bound on h(λ) by quadratics on boxes of directions: the worst box first.

:mod:`.quadratic` bounds one box. In nine dimensions and more, and for duals of many small rows in any, it closes
boxes that are many orders of magnitude larger than what :mod:`.kernel` closes; near neurons that attain h it is
slower. The bound B falls with every box, like B − h ~ n⁻ᵖ with n boxes, p between 0.2 and 0.5 on tables of noise, and
the search can be stopped at any time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from covopt.checks.memory import room
from covopt.exact.rounding import EPS
from covopt.oracles.base import MOST_DIMENSIONS, OBJECT_BYTES, affords
from covopt.oracles.cones.narrowing import SURE, Sign
from covopt.oracles.cones.quadratic import OPTIONS, UNSET, bound_box
from covopt.oracles.cones.scalar import GaugeBound, Scalar

ROOT_ROUNDS = 60
BATCH = 16  # boxes that are cut at a time, whatever the number of threads
ROUNDS = 12  # and the moments of the box around a box count for as many
ROUNDS_TO_GOAL = 24  # near the goal: they end early for most boxes
MEMORY = 2**29  # bytes of open boxes
MOST_QUADRATIC_DIMENSIONS = 64  # beyond, norms prove as much


def quadratic_limit(n_rows: int, rank: int, effort: float = 1.0) -> int:
    """Return how many boxes with quadratic bounds an effort pays for.

    Examples
    --------
    >>> quadratic_limit(442, 11), quadratic_limit(60, 11), quadratic_limit(20, 80), quadratic_limit(12, 4, 0.02)
    (31294, 53877, 0, 1266)
    """
    if rank > MOST_QUADRATIC_DIMENSIONS:
        return 0
    return affords(n_rows * rank**2 + 10.0 * rank**3 + 40.0 * n_rows * rank, effort)


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
                fixed[row] = Sign.ON if way > 0.0 else Sign.OFF
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
    sides = {sign: (sign * scalar.signs, sign * scalar.linear) for sign in (1.0, -1.0)}

    def work(box: Box) -> None:
        bound, box.cut, smaller = bound_box(
            scalar.y, *sides[box.sign], sizes, box.chart, box.side, box.centre, box.width, box.x, box.X, box.d, box.e,
            box.shares, box.fixed, rounds, first, level, by_signs, narrows,
        )  # fmt: skip
        box.bound, box.is_narrower = min(box.bound, bound), smaller and not box.is_narrower

    if n_threads == 1:
        for box in boxes:
            work(box)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, boxes))


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


class MomentSearch:
    """Best-first search over boxes for G(u) = linear·u + Σ signs_i σ(y_i·u), both signs.

    Parameters
    ----------
    scalar : Scalar
        It keeps the best point met.
    n_threads : int
        Changes nothing in the answer.
    goal : float
        Boxes with a bound up to it are closed, and few rounds are spent on them.
    by_signs : bool
        Cut along signs of rows too, from the beginning: that is better where the bound comes near the value, and
        far worse where it does not. Without it the search begins once the bound is near.

    Attributes
    ----------
    nodes : int
        Boxes looked at.
    proved : float
        Upper bound on |G(u)|/‖u‖, whenever the search is cut.
    """

    def __init__(self, scalar: Scalar, *, n_threads: int = 1, goal: float = 0.0, by_signs: bool = False):
        self.scalar, self.n_threads, self.goal, self.by_signs = scalar, n_threads, goal, by_signs
        self.nodes, self.proved = 0, scalar.norms()
        self._open: list[tuple[float, int, Box]] = []
        self._closed, self._made = 0.0, 0
        self._room = room(MEMORY)

    @property
    def _share(self) -> float:
        """Share of what is missing that the sign of a row has to cost."""
        near = self.by_signs or 0.0 < self.bound <= SURE * self.scalar.best
        return 1.0 if near and self.scalar.y.shape[1] > MOST_DIMENSIONS else math.inf

    @property
    def bound(self) -> float:
        """Upper bound on |G(u)|/‖u‖ so far."""
        return max(self._closed, -self._open[0][0] if self._open else 0.0)

    @property
    def is_full(self) -> bool:
        """Whether the open boxes take the memory that is meant for them."""
        n, r = self.scalar.y.shape
        return len(self._open) * (8 * (r * r + 6 * r + 32) + (OPTIONS + 1) * n + OBJECT_BYTES) >= self._room

    def _level(self, rtol: float) -> float:
        """Bound up to which boxes are closed."""
        return max(self.scalar.best * (1.0 + rtol), self.goal)

    def run(
        self, rtol: float, max_nodes: int, goes_on: Callable[[MomentSearch], bool] = lambda _: True
    ) -> float:
        """Cut boxes until the bound is within ``rtol`` of the best point, or ``max_nodes`` is reached.

        Between two batches of boxes ``goes_on`` is asked. What cuts the search leaves what is proved.
        """
        try:
            if not self._made:
                self._look(list(roots(*self.scalar.y.shape)), ROOT_ROUNDS, 2.0, rtol)
                self.proved = min(self.proved, self.bound)
            while self._open and self.nodes < max_nodes and self.bound > self._level(rtol):
                if not goes_on(self) or self.is_full:
                    break
                boxes = [heapq.heappop(self._open)[2] for _ in range(min(BATCH, len(self._open)))]
                best, highest = self.scalar.best, max(box.bound for box in boxes)
                aims = self.goal > 0.0 or self.by_signs
                far = not aims or (self.by_signs and highest > SURE * best)
                rounds = ROUNDS if far else ROUNDS_TO_GOAL
                self._look([half for box in boxes for half in box.halves()], rounds, float(ROUNDS), rtol)
                self.proved = min(self.proved, self.bound)
        finally:
            self.scalar.lift(self.proved)
        return self.proved

    def _look(self, boxes: list[Box], rounds: int, first: float, rtol: float) -> None:
        """Bound boxes; keep those that stay open."""
        level, share = self._level(rtol), self._share
        bound_all(
            self.scalar, boxes, rounds=rounds, first=first, level=level, by_signs=share,
            narrows=math.isfinite(share), n_threads=self.n_threads,
        )  # fmt: skip
        if math.isfinite(share):
            self._closed = max(self._closed, level)  # what was left out does not exceed it
        self.nodes += len(boxes)
        self.scalar.offer(np.array([box.x for box in boxes]))
        level = self._level(rtol)
        for box in boxes:
            if box.bound <= level or box.cut < 0:
                self._closed = max(self._closed, box.bound)
            else:
                self._made += 1
                heapq.heappush(self._open, (-box.bound, self._made, box))
        self._made += 1


def quadratic_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    neurons: np.ndarray | None = None,
    rtol: float = 1e-6,
    max_nodes: int = 10_000,
    goal: float = 0.0,
    by_signs: bool = False,
    n_threads: int = 1,
    goes_on: Callable[[MomentSearch], bool] = lambda _: True,
) -> GaugeBound:
    r"""Bound h(λ) = max over ‖w‖₂ ≤ 1 of |Σ_i λ_i σ(x_i·w)| from above by quadratics on boxes.

    Valid in exact arithmetic for the rows and the dual as given, whatever the number of boxes.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        x_i, of any scale.
    dual : ndarray of shape (N,)
        λ.
    neurons : ndarray of shape (m, D), optional
        Directions to try beside those of a local search.
    rtol : float
        Wanted distance of the bound to the largest |F| met, relative.
    max_nodes : int
        Boxes; each costs about 30 N D² operations.
    goal : float
        A bound that is good enough: what a search has shown before takes no more boxes to show again.
    by_signs : bool
        Whether boxes are cut along signs of rows from the beginning.
    n_threads : int
        Changes nothing in the answer.
    goes_on : callable
        Sees the search after every few boxes; a false answer ends it.

    Raises
    ------
    InputError
        For arrays of the wrong shape, infinite or missing numbers.

    Examples
    --------
    >>> import numpy as np
    >>> answer = quadratic_gauge(np.eye(12), np.full(12, 2.0))
    >>> answer.closed, round(answer.upper_bound**2, 3)
    (True, 48.0)
    """
    scalar = Scalar(rows, dual)
    if scalar.V.shape[1] == 0:
        return scalar.answer(0.0, 0, rtol)
    scalar.search(neurons)
    search = MomentSearch(scalar, n_threads=n_threads, by_signs=by_signs)
    if goal > 0.0:
        search.goal = scalar.lower(goal)
        search.by_signs |= search.goal <= SURE * scalar.best
    if max_nodes > 0 and search.proved > scalar.best * (1.0 + rtol):
        search.run(rtol, max_nodes, goes_on)
    return scalar.answer(search.proved, search.nodes, 2.0 * rtol)
