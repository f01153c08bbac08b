"""A bracket in the making: what the search for interpolating networks and that for trained ones have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from covopt.checks.speaking import tell_bound, tell_found, tell_timings
from covopt.depth.bounds import Bound
from covopt.depth.solution import DeepSolution
from covopt.depth.upper import Found
from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp, limited, now
from covopt.status import Status

Solved = TypeVar("Solved", bound=DeepSolution)


class Stop(Exception):
    """The callback said so, or the bracket is closed."""


class Bracket:
    """The best network and the bounds so far, with a clock, a history and a status.

    Parameters
    ----------
    depth : int
    tol : float
        Relative gap at which nothing is left to search for.
    limit : float or None
        Seconds.
    callback : callable or None
        Called with each entry of the history; a true answer stops.
    began : float
    """

    def __init__(
        self,
        depth: int,
        tol: float,
        limit: float | None,
        callback: Callable[[dict[str, Any]], Any] | None,
        began: float,
    ) -> None:
        self.depth, self.tol, self.limit, self.callback, self.began = depth, tol, limit, callback, began
        self.best: Found | None = None
        self.bounds: list[Bound] = []
        self.history: list[dict[str, Any]] = []
        self.status = Status.HEURISTIC

    @property
    def closed(self) -> bool:
        """Whether the bounds meet."""
        lower = max((bound.value for bound in self.bounds), default=0.0)
        return self.best is not None and relative_gap(self.best[0], lower) <= self.tol

    def offer(self, found: Found, source: str) -> None:
        """Keep a network where it is the best of the depth asked for."""
        if found[1].depth != self.depth or (self.best is not None and found[0] >= self.best[0]):
            return
        self.best = found
        self.note("upper", found[0], source)
        if self.closed:
            raise Stop

    def add(self, found: list[Bound]) -> None:
        """Keep bounds, best first."""
        self.bounds = sorted([*self.bounds, *found], key=lambda bound: -bound.value)
        if found:
            best = max(found, key=lambda bound: bound.value)
            self.note("lower", best.value, best.title)

    def left(self, share: float | None) -> float | None:
        """Return the seconds until a share of the limit is over; None where there is no limit, or no share."""
        return (
            None
            if self.limit is None or share is None
            else max(0.05, share * self.limit - (now() - self.began))
        )

    def note(self, side: str, value: float, source: str) -> None:
        """Write down a bound; end where the callback says so."""
        entry = {"side": side, "value": value, "source": source, "time_s": now() - self.began}
        self.history.append(entry)
        tell_bound(self.depth, entry)
        if self.callback is not None and self.callback(entry):
            self.status = Status.CALLBACK
            raise Stop

    def work(self, share: float | None, part: Callable[[], Any]) -> None:
        """Do one part of the work up to a share of the time, unless somebody stopped or the bracket is closed."""
        if self.status in (Status.INTERRUPTED, Status.CALLBACK) or self.closed:
            return
        try:
            with limited(self.left(share)):
                part()
        except TimeUp:
            self.status = Status.TIME_LIMIT
        except Stop:
            pass
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED

    @staticmethod
    def said(found: Solved) -> Solved:
        """Return what was found: certified where the bracket is closed, and told to whoever listens."""
        if found.gap <= found.tol:
            found.status = Status.CERTIFIED
        tell_timings(found)
        tell_found(
            found, repr(found), objective=found.objective, lower_bound=found.lower_bound, gap=found.gap
        )
        return found
