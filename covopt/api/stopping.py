"""Time limits and interrupts: the best result so far, finished and certified in the remaining time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from covopt.errors import Status
from covopt.limits import HALF, HURRY_S, TimeUp, defer_interrupts, limited, now, unlimited
from covopt.oracles.base import SHOWN
from covopt.oracles.certified import WHOLE_CHECK_S

SOLVING = 0.75  # share of the time for the solver; the rest is for finishing and the certificate
PROVING = 0.9  # the same, where the certificate takes no search
GRACE_S = 0.7  # by which a result may exceed the limit

Answer = TypeVar("Answer")


class Clock:
    """The user's time limit and its shares; ``interrupted`` records signals that came while results were finished.

    Parameters
    ----------
    time_limit_s : float or None
    began : float
        Reading of ``covopt.limits.now()`` when the user asked.

    Examples
    --------
    >>> Clock(None, now()).for_solver() is None
    True
    >>> 7.0 < Clock(10.0, now()).for_solver() <= 7.5
    True
    """

    def __init__(self, time_limit_s: float | None, began: float):
        self.limit, self.began, self.interrupted, self.hurries = time_limit_s, began, False, 0
        self.grace = 0.0 if time_limit_s is None else GRACE_S

    def for_solver(self, *, proves: bool = False) -> float | None:
        """Return the seconds that the solver may take from now, leaving some to finish in.

        If it proves its bounds itself, the certificate reuses them and needs no time for a search.
        """
        share = PROVING if proves else SOLVING
        return None if self.limit is None else max(1e-6, share * self.limit - (now() - self.began))

    def until_late(self, share: float = 1.0) -> float:
        """Return the seconds from now until a result would be late."""
        if self.limit is None:
            return math.inf
        return max(0.05, self.limit + share * self.grace - (now() - self.began))

    @property
    def is_spent(self) -> bool:
        """Whether the solver's share of a limit is used up.

        Examples
        --------
        >>> Clock(None, now()).is_spent, Clock(10.0, now()).is_spent, Clock(10.0, now() - 9.0).is_spent
        (False, False, True)
        """
        return self.limit is not None and now() - self.began >= SOLVING * self.limit

    def half(self) -> float | None:
        """Return half of the remaining seconds, or a small minimum, for a step that another one follows."""
        return None if self.limit is None else 0.5 * self.until_late(0.0)

    def hurry(self, seconds: float = HURRY_S) -> Clock:
        """Shorten the limit after an interrupt, and end it after a second one; return this clock.

        Examples
        --------
        >>> 1.0 < Clock(None, now()).hurry().until_late() < 2.0
        True
        """
        end = now() - self.began + (0.0 if self.hurries else seconds)
        self.limit = end if self.limit is None else min(self.limit, end)
        self.grace, self.hurries = 0.0 if self.hurries else 0.5 * GRACE_S, self.hurries + 1
        return self


def in_time(
    clock: Clock,
    work: Callable[[], Answer],
    otherwise: Callable[[], Answer],
    share: float = 1.0,
    *,
    halved: bool = False,
    spare: float = 0.0,
) -> Answer:
    """Return ``work()``, or ``otherwise()`` if that would be late; one interrupt or two are noted on the clock.

    ``halved`` leaves half of the time, and ``spare`` so many seconds, to the steps that follow.

    Examples
    --------
    >>> clock = Clock(0.05, now() - 10.0)
    >>> in_time(clock, lambda: next(i for i in range(10**9) if i < 0), lambda: -1)
    -1
    """
    left = 0.5 * clock.until_late(0.0) if halved else clock.until_late(share)
    left = max(left - spare, 1e-6)
    before = clock.hurries
    with defer_interrupts(hurried=before > 0) as interrupted:
        try:
            with limited(left):
                return work()
        except (TimeUp, KeyboardInterrupt) as ended:
            if interrupted() or isinstance(ended, KeyboardInterrupt):
                clock.hurry(HALF * HURRY_S).interrupted = True
            with unlimited():
                return otherwise()
        finally:
            if interrupted() and clock.hurries == before:
                clock.hurry().interrupted = True


def noting(clock: Clock, work: Callable[[], Answer]) -> Answer:
    """Return ``work()``, which is short and needed in any case; interrupts are noted on the clock.

    Examples
    --------
    >>> noting(Clock(None, now()), lambda: 1)
    1
    """
    with defer_interrupts() as interrupted:
        found = work()
    if interrupted():
        clock.hurry().interrupted = True
    return found


def best_in_time(
    clock: Clock, work: Callable[[float], Answer], *, name: str = "", key: Callable[[Answer], float],
    enough: Callable[[Answer], bool] = lambda answer: True,
) -> Answer:  # fmt: skip
    """Return the best of ``work(effort)``: with effort 0 in any case, then with more effort while there is time.

    Without a limit, the whole effort is made at once.

    Parameters
    ----------
    clock : Clock
    work : callable
        Takes the effort, a share of a whole check.
    name : str
        As for :func:`effort_left`.
    key : callable
        The answer with the larger key is better.
    enough : callable
        Whether an answer needs no more effort: else it gets up to :data:`SHOWN` times the work of a whole check, as
        does a verification that is given the bound to prove.

    Examples
    --------
    >>> best_in_time(Clock(9.0, now()), lambda effort: effort, key=float)
    1.0
    >>> best_in_time(Clock(0.1, now()), lambda effort: next(i for i in iter(int, 1)) if effort else 1, key=float)
    1
    """
    if clock.limit is None:
        return in_time(clock, lambda: work(effort_left(name, clock)), lambda: work(0.0))
    began = now()
    best = noting(clock, lambda: work(0.0))
    took, effort = now() - began, effort_left(name, clock)
    while True:
        began, left = now(), clock.until_late(0.0)
        if HALF * left < took:  # proofs are remembered, but stating them takes as long again
            return best
        found = in_time(clock, lambda: work(effort), lambda: None, share=0.0, spare=took)  # noqa: B023
        if found is None:
            found = best if clock.hurries > 1 else in_time(clock, lambda: work(0.0), lambda: best)  # noqa: B023
        best = max(best, found, key=key)
        more = clock.until_late(0.0) / max(now() - began, 1e-6)
        if enough(best) or effort >= SHOWN or HALF * more < 1.0 or clock.interrupted:
            return best
        effort = min(SHOWN, effort * more)


def pass_on(status: Status) -> None:
    """Raise KeyboardInterrupt if an interrupt ended a solve within a larger search, so that the search ends too.

    Raises
    ------
    KeyboardInterrupt

    Examples
    --------
    >>> pass_on(Status.CERTIFIED)
    """
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def effort_left(name: str, clock: Clock) -> float:
    """Return how many whole checks there is time for, at most :data:`SHOWN`; one where checks are short.

    Parameters
    ----------
    name : str
        Of the solver: "column-generation with ..." where the faces are too many to be enumerated. After an interrupt
        any name counts as such.
    clock : Clock
    """
    if clock.limit is None or (" with " not in name and not clock.hurries):
        return 1.0
    return min(SHOWN, clock.until_late(0.0) / WHOLE_CHECK_S)
