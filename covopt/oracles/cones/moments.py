r"""A certified upper bound on h(λ) by quadratics on boxes of directions: the worst box first.

:mod:`.quadratic` bounds one box. In nine dimensions and more, and for duals of many small rows in any, it closes
boxes that are many orders of magnitude larger than what :mod:`.kernel` closes; near neurons that attain h it is
slower. The bound falls with every box, and the search can be stopped at any time.
"""

from __future__ import annotations

import contextlib
import heapq
import math

import numpy as np

from covopt.checks.memory import room
from covopt.exact.rounding import EPS
from covopt.oracles.cones.boxes import ROOT_ROUNDS, Box, bound_all, roots
from covopt.oracles.cones.gauge import GaugeBound, Scalar, evaluate, validated
from covopt.oracles.cones.quadratic import OPTIONS
from covopt.oracles.coordinates import Transfer, transfer
from covopt.oracles.remembered import remember

BATCH = 16  # boxes that are cut at a time, whatever the number of threads
ROUNDS = 12
ROUNDS_TO_GOAL = 24  # near the goal: they end early for most boxes
INHERITED = 8.0  # rounds that the moments of the box around a box count for,
INHERITED_NEAR = 24.0  # and near the end, when small steps matter, or on the way to a goal that is near
NEAR = 1.02  # times the best value
NEAR_GOAL = 1.03  # the same for more rounds
MEMORY = 2**29  # bytes of open boxes
OBJECTS = 1024  # bytes of a box beside its numbers
COSTLY = 0.2  # share of what is missing that a row's sign has to cost
CLAIMED_NEAR = 1.01  # largest share of the value met that a claim may be to be shown along signs
NEAR_SIGNS = 1.05  # bound over value from which boxes are cut along signs in any case
LOW = 8  # dimensions up to which axes alone are better: thin boxes need them


class MomentSearch:
    """Best-first search over boxes for G(u) = linear·u + Σ signs_i σ(y_i·u), both signs.

    Parameters
    ----------
    scalar : Scalar
    n_threads : int
        Changes nothing in the answer.
    goal : float
        Boxes with a bound up to it are closed, and few rounds are spent on them.
    by_signs : bool
        Cut along signs of rows too, from the beginning: that is better where the bound comes near the value, and
        far worse where it does not. Without it the search begins once the bound is near.

    Attributes
    ----------
    best : float
        Largest |G(u)|/‖u‖ met.
    point : ndarray of shape (r,)
        Where.
    nodes : int
        Boxes looked at.
    proved : float
        Upper bound on |G(u)|/‖u‖, whenever the search is cut.
    """

    def __init__(
        self,
        scalar: Scalar,
        *,
        n_threads: int = 1,
        goal: float = 0.0,
        by_signs: bool = False,
    ):
        self.by_signs = by_signs
        self.scalar, self.n_threads = scalar, n_threads
        self.goal = goal
        self.best, self.point = 0.0, np.zeros(scalar.y.shape[1])
        self.nodes, self.proved = 0, math.inf
        self._open: list[tuple[float, int, Box]] = []
        self._closed, self._made = 0.0, 0
        self._room = room(MEMORY)

    @property
    def _share(self) -> float:
        """Share of what is missing that the sign of a row has to cost."""
        near = self.by_signs or 0.0 < self.bound <= NEAR_SIGNS * self.best
        return COSTLY if near and self.scalar.y.shape[1] > LOW else math.inf

    def offer(self, points: np.ndarray) -> None:
        """Keep the best of some points."""
        lengths = np.linalg.norm(points, axis=1)
        points = points[lengths > 0.0] / lengths[lengths > 0.0, None]
        if len(points):
            values = np.abs(self.scalar(points))
            top = int(values.argmax())
            if values[top] > self.best:
                self.best, self.point = float(values[top]), points[top]

    @property
    def bound(self) -> float:
        """Upper bound on |G(u)|/‖u‖ so far."""
        return max(self._closed, -self._open[0][0] if self._open else 0.0)

    @property
    def is_full(self) -> bool:
        """Whether the open boxes take the memory that is meant for them."""
        n, r = self.scalar.y.shape
        return len(self._open) * (8 * (r * r + 6 * r + 32) + (OPTIONS + 1) * n + OBJECTS) >= self._room

    def _level(self, rtol: float) -> float:
        """Bound up to which boxes are closed."""
        return max(self.best * (1.0 + rtol), self.goal)

    def run(self, rtol: float, max_nodes: int) -> float:
        """Cut boxes until the bound is within ``rtol`` of the best point, or ``max_nodes`` is reached."""
        if not self._made:
            self._look(list(roots(*self.scalar.y.shape)), ROOT_ROUNDS, 2.0, rtol)
            self.proved = self.bound
        while self._open and self.nodes < max_nodes and not self.is_full:
            if self.bound <= self._level(rtol):
                break
            boxes = [heapq.heappop(self._open)[2] for _ in range(min(BATCH, len(self._open)))]
            highest = max(box.bound for box in boxes)
            first = INHERITED_NEAR if self.by_signs or highest <= NEAR * self.best else INHERITED
            far = self.goal <= 0.0 or (self.by_signs and highest > NEAR_GOAL * self.best)
            rounds = ROUNDS if far else ROUNDS_TO_GOAL
            self._look([half for box in boxes for half in box.halves()], rounds, first, rtol)
            self.proved = min(self.proved, self.bound)
        return self.bound

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
        self.offer(np.array([box.x for box in boxes]))
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
    rtol: float = 1e-6,
    max_nodes: int = 10_000,
    goal: float = 0.0,
    n_threads: int = 1,
) -> GaugeBound:
    r"""Bound h(λ) = max over ‖w‖₂ ≤ 1 of |Σ_i λ_i σ(x_i·w)| from above by quadratics on boxes.

    Valid in exact arithmetic for the rows and the dual as given, whatever the number of boxes.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        x_i, of any scale.
    dual : ndarray of shape (N,)
        λ.
    rtol : float
        Wanted distance of the bound to the largest |F| met, relative.
    max_nodes : int
        Boxes; each costs about 30 N D² operations.
    goal : float
        A bound that is good enough: what a search has shown before takes no more boxes to show again.
    n_threads : int
        Changes nothing in the answer.

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
    rows, dual = validated(rows, dual, rtol, max_nodes)
    made = transfer(rows, dual)
    d, r = made.V.shape
    if r == 0:
        return GaugeBound(0.0, np.zeros(d), 0.0, 0, True)
    scalar = Scalar(made)
    search = MomentSearch(scalar, n_threads=n_threads)
    starts = scalar.starts(np.random.default_rng(0))
    search.offer(scalar.ascend(np.concatenate([starts, -starts])))
    if goal > 0.0:
        with contextlib.suppress(OverflowError):
            search.goal = max((goal * (1.0 - 4 * EPS) / made.norm) * 2.0**-made.exponent - made.residual, 0.0)
        search.by_signs = search.goal <= CLAIMED_NEAR * search.best
    bound = scalar.norms()
    try:
        if bound > search.best * (1.0 + rtol):
            bound = min(bound, search.run(rtol, max_nodes))
    finally:  # a deadline or an interrupt cuts the search, and leaves what is proved
        remember(rows, dual, made.lift(min(bound, search.proved)))
    return _answer(made, rows, dual, search, bound, rtol)


def _answer(
    made: Transfer, rows: np.ndarray, dual: np.ndarray, search: MomentSearch, bound: float, rtol: float
) -> GaugeBound:
    upper = made.lift(bound)
    neuron = made.V @ search.point
    length = float(np.linalg.norm(neuron))
    neuron = neuron / length if length > 0.0 else neuron
    value = evaluate(rows, dual, neuron)
    if not np.isfinite(value):
        value = 0.0
    return GaugeBound(upper, neuron, value, search.nodes, upper <= (1.0 + 2.0 * rtol) * abs(value))
