r"""A certified upper bound on h(λ) by quadratics on boxes of directions: the worst box first.

:mod:`.quadratic` bounds one box. In nine or more dimensions, and for duals of many small rows in any dimension, it
closes boxes that are many orders of magnitude larger than those that :mod:`.kernel` closes; near neurons that attain
h it is slower. The bound B falls with every box, like B − h ~ n⁻ᵖ with n boxes, p between 0.2 and 0.5 on tables of
noise, and the search can be stopped at any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from covopt.exact.rank import ROUGH
from covopt.exact.rounding import EPS
from covopt.oracles.base import MOST_DIMENSIONS, affords
from covopt.oracles.best_first import BestFirst, search_dual_norm
from covopt.oracles.boxes.quadratic import OPTIONS, UNSET, bound_box
from covopt.oracles.boxes.scalar import DualNormBound, Scalar
from covopt.oracles.boxes.sphere_form import Sign

ROOT_ROUNDS = 60  # of roots, and of boxes near the end
ROUNDS = 12  # rounds of a box, and the weight in rounds of its parent's moments
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


class MomentSearch(BestFirst):
    """Best-first search over boxes.

    Parameters
    ----------
    scalar, goal
        As in :class:`~covopt.oracles.best_first.BestFirst`. Once the bound is near the value each box gets
        ``ROOT_ROUNDS``, and counts for as many boxes of ``ROUNDS``: breast cancer at .1 λ_max is certified in 7
        processor seconds for 33 (docs/limits.md).
    n_threads : int
        Does not change the answer.
    by_signs : bool
        Cut along signs of rows, too, from the beginning. This is better where the bound comes near the value, and
        far worse where it does not. Otherwise such cuts begin once the bound is near.
    """

    def __init__(self, scalar: Scalar, goal: float = 0.0, *, n_threads: int = 1, by_signs: bool = False):
        super().__init__(scalar, goal)
        self.batch = 2 * scalar.y.shape[1]  # whose halves are as many as the roots
        self.n_threads, self.by_signs = n_threads, by_signs or 0.0 < goal <= (1.0 + ROUGH) * scalar.best

    @property
    def _is_near(self) -> bool:
        """Whether the bound is near the value: more rounds for each box pay, and cuts along rows."""
        return 0.0 < self.bound <= (1.0 + ROUGH) * self.scalar.best

    def roots(self) -> Iterator[Box]:
        """See the base class."""
        return roots(*self.scalar.y.shape)

    def measure(self, parts: list[Box], level: float) -> None:
        """See the base class."""
        near = self._is_near
        share = 1.0 if (near or self.by_signs) and self.scalar.y.shape[1] > MOST_DIMENSIONS else math.inf
        rounds = ROOT_ROUNDS if self.is_new or near else ROUNDS
        first = 2.0 if self.is_new else float(rounds)
        if near:
            self.nodes += (ROOT_ROUNDS // ROUNDS - 1) * len(parts)
        bound_all(
            self.scalar, parts, rounds=rounds, first=first, level=level, by_signs=share,
            narrows=math.isfinite(share), n_threads=self.n_threads,
        )  # fmt: skip
        if math.isfinite(share):
            self.closed = max(self.closed, level)  # the parts left out do not exceed it
        self.scalar.offer(np.array([box.x for box in parts]))


def quadratic_dual_norm(
    rows: np.ndarray, dual: np.ndarray, *, by_signs: bool = False, n_threads: int = 1, **options: Any
) -> DualNormBound:
    """Bound h(λ) from above by quadratics on boxes; each box costs about 30 N D² operations.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
    dual : ndarray of shape (N,)
    by_signs : bool
        Whether boxes are cut along signs of rows from the beginning.
    n_threads : int
        Does not change the answer.
    **options
        Of :func:`~covopt.oracles.best_first.search_dual_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> answer = quadratic_dual_norm(np.eye(12), np.full(12, 2.0))
    >>> answer.closed, round(answer.upper_bound**2, 3)
    (True, 48.0)
    """
    search = partial(MomentSearch, n_threads=n_threads, by_signs=by_signs)
    return search_dual_norm(search, rows, dual, **options)
