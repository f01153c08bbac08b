"""What a solve had on its way: network and dual of some of its rounds, for pictures; nothing is proved by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from covopt.limits import patiently

MOST = 10  # rounds that are kept
MOST_NUMBERS = 20_000  # in all of them, where two rounds have fewer


class Seen(NamedTuple):
    """The best points of one round, in the units of the problem that is solved.

    Attributes
    ----------
    round : int
        Its place in the history.
    neurons, weights, offset, dual : ndarray
    """

    round: int
    neurons: np.ndarray
    weights: np.ndarray
    offset: Any
    dual: np.ndarray


class Trail:
    """Rounds of one problem whose bounds are better than before; few of them, evenly chosen, the last among them.

    Parameters
    ----------
    problem : object
        Rounds on other problems, on the way to this one, are not kept.
    history : list
        Of the rounds that have been told; a round is named by its place there.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> history = []
    >>> trail = Trail("problem", history)
    >>> for number in range(100):
    ...     history.append({})
    ...     trail.offer(SimpleNamespace(
    ...         upper_bound=np.inf, lower_bound=number, neurons=np.zeros((0, 2)), weights=np.zeros(0), offset=0.0,
    ...         dual=np.ones(3),
    ...     ))
    >>> [seen.round for seen in trail.seen][:3], trail.seen[-1].round, len(trail.seen) <= MOST
    ([0, 16, 32], 99, True)
    """

    def __init__(self, problem: Any, history: list[Any]):
        self.problem, self.seen = problem, list[Seen]()
        self._history, self._bounds, self._stride = history, (np.inf, -np.inf), 1

    def offer(self, point: Any) -> None:
        """Keep the points of the round that the history ends with, where they are better than those before."""
        place, bounds = len(self._history) - 1, (point.upper_bound, point.lower_bound)
        if place < 0 or bounds == self._bounds or (self.seen and self.seen[-1].round == place):
            return
        self._bounds = bounds
        if len(self.seen) > 1 and self.seen[-1].round - self.seen[-2].round < self._stride:
            self.seen.pop()
        arrays = (point.neurons.copy(), point.weights.copy(), np.array(point.offset)[()], point.dual.copy())
        self.seen.append(Seen(place, *arrays))
        while len(self.seen) > 2 and (len(self.seen) > MOST or self._numbers() > MOST_NUMBERS):
            self._stride *= 2
            kept = self.seen[:1]
            for each in self.seen[1:-1]:
                if each.round - kept[-1].round >= self._stride:
                    kept.append(each)
            self.seen = [*kept, self.seen[-1]]

    def _numbers(self) -> int:
        return sum(each.neurons.size + each.weights.size + each.dual.size for each in self.seen)

    def snapshots(self, restored: Callable[[Seen], Any]) -> list[Any]:
        """Return the rounds in the user's units, and free what they took.

        Parameters
        ----------
        restored : callable
            Returns one of them in the user's units.
        """
        seen, self.seen = self.seen, []
        with patiently():  # an interrupt would lose the solution for its pictures
            return [restored(each) for each in seen]


_current: ContextVar[Trail | None] = ContextVar("trail", default=None)


@contextmanager
def following(trail: Any) -> Iterator[Any]:
    """Let the rounds in the block be kept in a trail; in None none are."""
    token = _current.set(trail)
    try:
        yield trail
    finally:
        _current.reset(token)


def trail_of(problem: Any) -> Trail | None:
    """Return where the rounds on a problem are kept; None where they are not.

    Parameters
    ----------
    problem : object
    """
    trail = _current.get()
    return trail if trail is not None and trail.problem is problem and problem is not None else None
