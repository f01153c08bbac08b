"""Base class of solvers that work in rounds: start, time limit, interrupts, callback, history and finish.

A solve has a start, rounds that offer points as bounds and of which each may be the last, and a finish that runs
whatever has ended the rounds. Column generation (:mod:`covopt.solvers.driver`), the exact steps along a path and
Frank–Wolfe's variants are such rounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from covopt.checks.memory import NoRoom
from covopt.errors import Status
from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp, limited, now
from covopt.problems.problem import Problem


@dataclass(frozen=True)
class RoundState:
    """State of a round, as callbacks receive it; bounds are in the reduced units until the caller scales them."""

    round: int
    lower_bound: float
    upper_bound: float
    gap: float
    n_columns: int
    time_s: float
    note: str = ""  # what the solver changed since the previous round, and why
    best: Callable[[], Any] | None = (
        None  # returns the solution so far, as after an interrupt; None without a network
    )

    def scaled(self, scale: float, time_s: float) -> Self:
        """Return the round with bounds in other units, and another time."""
        lower, upper = self.lower_bound * scale, self.upper_bound * scale
        return replace(self, lower_bound=lower, upper_bound=upper, time_s=time_s)


class GenerationLoop(ABC):
    """Rounds of a restricted master and an oracle, until the gap is small or a limit, interrupt or callback stops.

    Parameters
    ----------
    tol : float
        Relative gap at which to stop.
    time_limit_s : float, optional
    max_rounds : int
    random_state : int, optional
        Seeds the starting vertices; without one the seed is fixed.
    callback : callable, optional
        Receives a :class:`RoundState`, or the state of a subclass, and the best points so far; a true return value
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
        max_rounds: int = 2000,
        random_state: int | None = None,
        callback: Callable[[Any, Any], Any] | None = None,
    ):
        self.tol, self.time_limit_s, self.max_rounds, self.callback = tol, time_limit_s, max_rounds, callback
        self.rng = np.random.default_rng(0 if random_state is None else random_state)

    def solve(self) -> Any:
        """Run until the gap is small, the time is up, or the callback or an interrupt stops the rounds."""
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
        """Set the first dual and columns; return False if nothing is left to do."""

    @abstractmethod
    def _iterate(self) -> None:
        """Run the rounds; each ends with :meth:`should_stop`."""

    def _finish(self) -> None:  # noqa: B027  (most have nothing left to do)
        """Complete the last round, in subclasses whose rounds do not offer all their points."""

    def known(self) -> Any:
        """Return the best points, with proved bounds."""
        return self.point

    def is_closed(self) -> bool:
        """Whether the gap is small."""
        return bool(self.point.gap <= self.tol)

    def should_stop(self) -> bool:
        """Record the round, call the callback, and set the status if the loop must end."""
        self.is_closed()  # before the state, which reports what this proves
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
        """Call the callback for a round, and set the status if the loop must end."""
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


NETWORK = "neurons", "weights", "offset", "upper_bound", "finished"
DUAL = "dual", "dual_low", "lower_bound", "claimed", "hoped"


@dataclass(frozen=True)
class WarmStart:
    """End point of a solve: columns, their weights and the dual; nothing in it depends on the units of λ.

    Attributes
    ----------
    neurons : ndarray of shape (M, r)
    weights : ndarray of shape (M, q)
    offset : ndarray of shape (q,)
    dual : ndarray of shape (N, q)
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    dual: np.ndarray


@dataclass
class Point:
    """Best points of a solver, in the units of its problem; every array of outputs has two axes, the offset one."""

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    upper_bound: float
    dual: np.ndarray
    lower_bound: float
    status: Status
    history: list[RoundState] = field(default_factory=list)
    warm: WarmStart | None = None  # where another solve with a loss may start
    finished: bool = False  # the network is merged, and as sparse as it gets
    claimed: bool = False  # quadratics on boxes have shown that no neuron exceeds one at the dual
    hoped: np.ndarray | None = None  # a dual for which a search may prove a better bound
    dual_low: np.ndarray | None = None  # low-order doubles of the multipliers, where they matter

    @classmethod
    def nothing(cls, problem: Problem, status: Status, **options: Any) -> Point:
        """Return a point without network or dual; its lower bound is 0 for interpolation, else −∞."""
        return cls(
            np.zeros((0, problem.rows.shape[1])), np.zeros((0, problem.n_outputs)), np.zeros(problem.n_outputs),
            np.inf, np.zeros(problem.dual_shape), 0.0 if problem.interpolates else -np.inf, status, **options,
        )  # fmt: skip

    @property
    def network(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Neurons, weights and offset."""
        return self.neurons, self.weights, self.offset

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return relative_gap(self.upper_bound, self.lower_bound)

    def merged(self, other: Point) -> Point:
        """Return this point with the network and the dual of another one, each if it is better."""
        best = self
        if other.upper_bound < self.upper_bound:
            best = replace(best, **{name: getattr(other, name) for name in NETWORK})
        if other.lower_bound > self.lower_bound or not self.dual.any():  # zeros bound nothing
            best = replace(best, **{name: getattr(other, name) for name in DUAL})
        return best
