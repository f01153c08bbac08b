"""Branch and bound on |G(u)|/‖u‖ in the coordinates of :class:`~covopt.oracles.boxes.scalar.Scalar`, best first.

The part of the directions with the largest bound is divided first: a cone of signs
(:mod:`covopt.oracles.sign_tree`) or a box (:mod:`covopt.oracles.boxes.quadratic_search`). The bound is valid whenever
the search stops.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Any, Protocol

import numpy as np

from covopt.checks.memory import room
from covopt.oracles.boxes.scalar import DualNormBound, Scalar


class Part(Protocol):
    """A part of the directions, for one sign of G, with a bound on G there and where to cut it (−1: nowhere)."""

    bound: float
    cut: int

    def halves(self) -> Iterable[Part]:
        """Yield the parts into which the cut divides this one."""
        ...


class BestFirst:
    """Best-first search for the maximum of |G(u)|/‖u‖; a subclass says what the parts are.

    Parameters
    ----------
    scalar : Scalar
        G; it stores the best point found.
    goal : float
        Parts with a bound of at most this are closed.

    Attributes
    ----------
    nodes : int
        Parts bounded.
    proved : float
        Upper bound on |G(u)|/‖u‖, valid whenever the search stops.
    is_full : bool
        Whether the open parts use up the memory reserved for them.
    """

    batch = 1  # parts divided at a time

    def __init__(self, scalar: Scalar, goal: float = 0.0):
        self.scalar, self.goal = scalar, goal
        self.nodes, self.proved, self.is_full = 0, scalar.norms(), False
        self.closed, self._made = 0.0, 0
        self._open: list[tuple[float, int, Any]] = []

    def roots(self) -> Iterable[Any]:
        """Yield parts that make up all directions, for both signs of G."""
        raise NotImplementedError

    def measure(self, parts: list[Any], level: float) -> None:
        """Lower the bounds of parts to a level where that can be proved, set their cuts, and offer points."""
        raise NotImplementedError

    @property
    def is_new(self) -> bool:
        """Whether nothing has been bounded yet."""
        return self._made == 0

    @property
    def bound(self) -> float:
        """Upper bound on |G(u)|/‖u‖ so far."""
        return max(self.closed, -self._open[0][0] if self._open else 0.0)

    def level(self, rtol: float) -> float:
        """Return the bound up to which parts are closed."""
        return max(self.scalar.best * (1.0 + rtol), self.goal)

    def run(self, rtol: float, max_nodes: int, goes_on: Callable[[Any], bool] = lambda _: True) -> float:
        """Divide parts until the bound is within ``rtol`` of the best point, or ``max_nodes`` is reached.

        ``goes_on`` is called between two batches of parts. After an interrupt ``proved`` is still valid.
        """
        try:
            if self.is_new:
                self._look(list(self.roots()), rtol)
            size = sum(map(getsizeof, vars(self._open[0][2]).values())) if self._open else 0
            memory = room(size * max_nodes)
            while self._open and self.nodes < max_nodes and self.bound > self.level(rtol):
                self.is_full = size * len(self._open) >= memory
                if not goes_on(self) or self.is_full:
                    break
                parts = [heapq.heappop(self._open)[2] for _ in range(min(self.batch, len(self._open)))]
                self._look([half for part in parts for half in part.halves()], rtol)
        finally:
            self.scalar.lift(self.proved)
        return self.proved

    def _look(self, parts: list[Any], rtol: float) -> None:
        """Bound parts; keep those that remain open."""
        self.measure(parts, self.level(rtol))
        self.nodes += len(parts)
        level = self.level(rtol)
        for part in parts:
            self._made += 1
            if part.bound <= level or part.cut < 0:
                self.closed = max(self.closed, part.bound)
            else:
                heapq.heappush(self._open, (-part.bound, self._made, part))
        self.proved = min(self.proved, self.bound)


def search_dual_norm(
    search: Callable[[Scalar, float], BestFirst],
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    neurons: np.ndarray | None = None,
    rtol: float = 1e-6,
    max_nodes: int = 10_000,
    goal: float = 0.0,
    goes_on: Callable[[Any], bool] = lambda _: True,
) -> DualNormBound:
    """Bound h(λ) = max over ‖w‖₂ ≤ 1 of |Σ_i λ_i σ(x_i·w)| from above by a best-first search.

    The bound is valid in exact arithmetic for the rows and the dual as given, for any number of parts.

    Parameters
    ----------
    search : callable
        Makes the search from G and a goal in its units.
    rows : ndarray of shape (N, D)
        x_i, of any scale.
    dual : ndarray of shape (N,)
        λ.
    neurons : ndarray of shape (m, D), optional
        Starting directions in addition to those of a local search.
    rtol : float
        Relative tolerance between the bound and the largest |F| found.
    max_nodes : int
        Most parts.
    goal : float
        A bound at most this is good enough: reaching a goal that a search has proved takes no more parts than then.
    goes_on : callable
        Called with the search after every few parts; a false result ends it.

    Raises
    ------
    InputError
        For arrays of the wrong shape, infinite or missing numbers.
    """
    scalar = Scalar(rows, dual)
    if scalar.V.shape[1] == 0:
        return scalar.answer(0.0, 0, rtol)
    scalar.search(neurons)
    made = search(scalar, scalar.lower(goal) if goal > 0.0 else 0.0)
    if max_nodes > 0 and made.proved > scalar.best * (1.0 + rtol):
        made.run(rtol, max_nodes, goes_on)
    return scalar.answer(made.proved, made.nodes, 2.0 * rtol)
