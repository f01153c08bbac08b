"""What every solver that works in rounds shares: the clock, the callback, Ctrl-C, the history, when to stop.

A solve is: start, rounds of a step whose points are offered as bounds, each of which may be the last, and a finish
that comes whatever has ended the rounds. Column generation (:mod:`covopt.solvers.driver`), the exact steps along a
path and Frank–Wolfe's variants are such rounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from covopt.checks.memory import NoRoom
from covopt.limits import TimeUp, limited, now
from covopt.status import Status


@dataclass(frozen=True)
class RoundState:
    """What a callback sees after every round, in the reduced problem's units scaled to the user's by the caller."""

    round: int
    lower_bound: float
    upper_bound: float
    gap: float
    n_columns: int
    time_s: float
    note: str = ""  # what the solver changed since the round before, and why
    best: Callable[[], Any] | None = (
        None  # the solution so far, as Ctrl-C would leave it; None without a network
    )

    def scaled(self, scale: float, time_s: float) -> Self:
        """Return the round with bounds in other units, and another time."""
        lower, upper = self.lower_bound * scale, self.upper_bound * scale
        return replace(self, lower_bound=lower, upper_bound=upper, time_s=time_s)


class GenerationLoop(ABC):
    """Rounds of a restricted master and an oracle, until the gap is small or somebody says stop.

    Parameters
    ----------
    tol : float
        Relative gap at which to stop.
    time_limit_s : float, optional
    max_rounds : int
    random_state : int, optional
        Seeds the starting vertices; without one the seed is fixed.
    callback : callable, optional
        Receives a :class:`RoundState`, or what a subclass notes instead, and the best points so far; a true answer
        stops.
    """

    point: Any  # the best points so far, with lower_bound, upper_bound, gap, status and history

    neurons: np.ndarray
    _note = ""

    @property
    def n_columns(self) -> int:
        """Number of columns at present."""
        return len(self.neurons)

    def __init__(
        self,
        *,
        tol: float,
        time_limit_s: float | None = None,
        max_rounds: int = 300,
        random_state: int | None = None,
        callback: Callable[[Any, Any], Any] | None = None,
    ):
        self.tol, self.time_limit_s, self.max_rounds, self.callback = tol, time_limit_s, max_rounds, callback
        self.rng = np.random.default_rng(0 if random_state is None else random_state)

    def solve(self) -> Any:
        """Run until the gap is small, the time is up, the callback or the user says stop."""
        self._began = now()
        self._deadline = None if self.time_limit_s is None else self._began + self.time_limit_s
        try:
            with limited(self.time_limit_s):
                if self._start():
                    self._iterate()
        except KeyboardInterrupt:
            self.point.status = Status.INTERRUPTED
        except TimeUp as error:
            self.point.status = Status.GAP if isinstance(error, NoRoom) else Status.TIME_LIMIT
        self._finish()
        if self.point.gap <= self.tol and self.point.status is not Status.INTERRUPTED:
            self.point.status = Status.CERTIFIED
        return self.point

    @abstractmethod
    def _start(self) -> bool:
        """First dual, first columns; False when nothing is left to do."""

    @abstractmethod
    def _iterate(self) -> None:
        """Run the rounds; each ends with :meth:`should_stop`."""

    def _finish(self) -> None:  # noqa: B027  (most have nothing left to do)
        """Make of the last round what is still missing; nothing, where every round offers its points."""

    def known(self) -> Any:
        """Return the best points as far as they are proved."""
        return self.point

    def is_closed(self) -> bool:
        """Whether the gap is small."""
        return bool(self.point.gap <= self.tol)

    def should_stop(self) -> bool:
        """Note the round, tell the callback, and set the status where the loop must end."""
        self.is_closed()  # what this proves, the round tells
        state = self._state()
        self.point.history.append(state)
        return self.ends(state)

    def _state(self) -> RoundState:
        """Return what is known after a round."""
        point, note, self._note = self.known(), self._note, ""
        return RoundState(
            len(point.history), point.lower_bound, point.upper_bound, point.gap, self.n_columns,
            now() - self._began, note,
        )  # fmt: skip

    def ends(self, state: Any) -> bool:
        """Tell the callback about a round, and set the status where the loop must end."""
        point = self.point
        asked = self.callback is not None and self.callback(state, self.known())
        if self.is_closed():
            point.status = Status.CERTIFIED
            return True
        if asked:
            point.status = Status.CALLBACK
            return True
        if self.time_limit_s is not None and state.time_s >= self.time_limit_s:
            point.status = Status.TIME_LIMIT
            return True
        return False

    def _is_late(self) -> bool:
        """Whether the time is up."""
        return self._deadline is not None and now() > self._deadline
