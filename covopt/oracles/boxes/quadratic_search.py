r"""A certified upper bound on h(λ) by quadratics on boxes of directions: the worst box first.

:mod:`.quadratic` bounds one box. In nine or more dimensions, and for duals of many small rows in any dimension, it
closes boxes that are many orders of magnitude larger than those that :mod:`.kernel` closes; near neurons that attain
h it is slower. The bound B falls with every box, like B − h ~ n⁻ᵖ with n boxes, p between 0.2 and 0.5 on tables of
noise, and the search can be stopped at any time.
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
from covopt.oracles.boxes.narrowing import SURE, Sign
from covopt.oracles.boxes.quadratic import OPTIONS, UNSET, bound_box
from covopt.oracles.boxes.scalar import DualNormBound, Scalar

ROOT_ROUNDS = 60
BATCH = 16  # boxes cut at a time, for any number of threads
ROUNDS = 12  # rounds of a box, and the weight in rounds of its parent's moments
ROUNDS_TO_GOAL = 24  # near the goal: most boxes need fewer
MEMORY = 2**29  # bytes of open boxes
MOST_QUADRATIC_DIMENSIONS = 64  # in more, norms prove as much


def quadratic_limit(n_rows: int, rank: int, effort: float = 1.0) -> int:
    """Return the limit on boxes with quadratic bounds for an effort.

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
    """An open box: its bound, chart, place, assumed signs of rows, and the moments at which its halves start."""

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
        """Yield both halves along the cut, of an axis or of the sign of a row, with copies of the multipliers.

        If the box has just become smaller, yield only the box itself.
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
    """Bound boxes, starting from their multipliers; lower ``bound``, update multipliers and cut of each box.

    Parameters
    ----------
    scalar : Scalar
        G.
    boxes : list of Box
    rounds : int
        ``ROOT_ROUNDS`` where the boxes have no multipliers yet.
    first : float
        Weight of the given moments, in rounds.
    level : float
        Stop the rounds once a bound is at most this.
    by_signs : float
        Cut a box along a row, not an axis, where the unknown sign of the row costs more than this share of the
        distance to ``level``.
    narrows : bool
        Leave out of the boxes the part that does not exceed ``level``, but not twice in a row for one box.
    n_threads : int
        Does not change the answer.
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
    """Yield all directions, with both signs of G: the root boxes of a search."""
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
        It stores the best point found.
    n_threads : int
        Does not change the answer.
    goal : float
        Boxes with a bound of at most this are closed, and few rounds are spent on them.
    by_signs : bool
        Cut along signs of rows, too, from the beginning. This is better where the bound comes near the value, and
        far worse where it does not. Otherwise such cuts begin once the bound is near.

    Attributes
    ----------
    nodes : int
        Boxes visited.
    proved : float
        Upper bound on |G(u)|/‖u‖, valid whenever the search stops.
    """

    def __init__(self, scalar: Scalar, *, n_threads: int = 1, goal: float = 0.0, by_signs: bool = False):
        self.scalar, self.n_threads, self.goal, self.by_signs = scalar, n_threads, goal, by_signs
        self.nodes, self.proved = 0, scalar.norms()
        self._open: list[tuple[float, int, Box]] = []
        self._closed, self._made = 0.0, 0
        self._room = room(MEMORY)

    @property
    def _share(self) -> float:
        """Share of the distance to the level that the sign of a row must cost before a cut along it."""
        near = self.by_signs or 0.0 < self.bound <= SURE * self.scalar.best
        return 1.0 if near and self.scalar.y.shape[1] > MOST_DIMENSIONS else math.inf

    @property
    def bound(self) -> float:
        """Upper bound on |G(u)|/‖u‖ so far."""
        return max(self._closed, -self._open[0][0] if self._open else 0.0)

    @property
    def is_full(self) -> bool:
        """Whether the open boxes use up the memory reserved for them."""
        n, r = self.scalar.y.shape
        return len(self._open) * (8 * (r * r + 6 * r + 32) + (OPTIONS + 1) * n + OBJECT_BYTES) >= self._room

    def _level(self, rtol: float) -> float:
        """Bound up to which boxes are closed."""
        return max(self.scalar.best * (1.0 + rtol), self.goal)

    def run(
        self, rtol: float, max_nodes: int, goes_on: Callable[[MomentSearch], bool] = lambda _: True
    ) -> float:
        """Cut boxes until the bound is within ``rtol`` of the best point, or ``max_nodes`` is reached.

        ``goes_on`` is called between two batches of boxes. After an interrupt ``proved`` is still valid.
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
        """Bound boxes; keep those that remain open."""
        level, share = self._level(rtol), self._share
        bound_all(
            self.scalar, boxes, rounds=rounds, first=first, level=level, by_signs=share,
            narrows=math.isfinite(share), n_threads=self.n_threads,
        )  # fmt: skip
        if math.isfinite(share):
            self._closed = max(self._closed, level)  # the parts left out do not exceed it
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


def quadratic_dual_norm(
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
) -> DualNormBound:
    r"""Bound h(λ) = max over ‖w‖₂ ≤ 1 of |Σ_i λ_i σ(x_i·w)| from above by quadratics on boxes.

    The bound is valid in exact arithmetic for the rows and the dual as given, for any number of boxes.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        x_i, of any scale.
    dual : ndarray of shape (N,)
        λ.
    neurons : ndarray of shape (m, D), optional
        Starting directions in addition to those of a local search.
    rtol : float
        Relative tolerance between the bound and the largest |F| found.
    max_nodes : int
        Most boxes; each costs about 30 N D² operations.
    goal : float
        A bound at most this is good enough: reaching a goal that a search has proved takes no more boxes than then.
    by_signs : bool
        Whether boxes are cut along signs of rows from the beginning.
    n_threads : int
        Does not change the answer.
    goes_on : callable
        Called with the search after every few boxes; a false result ends it.

    Raises
    ------
    InputError
        For arrays of the wrong shape, infinite or missing numbers.

    Examples
    --------
    >>> import numpy as np
    >>> answer = quadratic_dual_norm(np.eye(12), np.full(12, 2.0))
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
