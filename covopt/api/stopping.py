"""When the time is up or somebody interrupts: the best so far, finished and certified in what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from covopt.limits import TimeUp, limited, now, patiently, unlimited
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.support import WHOLE_CHECK_S
from covopt.status import Status

SOLVING = 0.75  # share of the time for the solver; the rest is for finishing and the certificate
GRACE, GRACE_S = 0.08, 0.7  # of the limit, and seconds, by which a result may be late
HURRY_S, HURRY = 10.0, 0.1  # seconds, and share of what has passed, for what follows an interrupt
MOST_DIMENSIONS, SOLVING_BEYOND = 4, 0.65  # certificates by boxes take longer
LEAST_CHECK_S = 0.5  # for a certificate

Answer = TypeVar("Answer")


class Clock:
    """The user's time limit, shared out; ``interrupted`` tells of signals that came while results were finished.

    Parameters
    ----------
    time_limit_s : float or None
    began : float
        Reading of ``covopt.limits.now()`` when the user asked.

    Examples
    --------
    >>> Clock(None, now()).for_solver(3) is None
    True
    >>> 7.0 < Clock(10.0, now()).for_solver(3) <= 7.5
    True
    """

    def __init__(self, time_limit_s: float | None, began: float):
        self.limit, self.began, self.interrupted = time_limit_s, began, False

    def for_solver(self, rank: int, finishing_s: float = 0.0) -> float | None:
        """Return the seconds that the solver may take from now, so that there are some to finish in."""
        if self.limit is None:
            return None
        share = SOLVING if rank <= MOST_DIMENSIONS else SOLVING_BEYOND
        end = min(share * self.limit, self.limit - finishing_s)
        return max(1e-6, end - (now() - self.began))

    def until_late(self, share: float = 1.0) -> float | None:
        """Return the seconds from now until a result would be late."""
        if self.limit is None:
            return None
        end = self.limit + share * (GRACE * self.limit + GRACE_S)
        return max(0.05, end - (now() - self.began))

    def hurried(self) -> Clock:
        """Return a clock by which what follows an interrupt ends soon, where less was not agreed.

        Examples
        --------
        >>> 9.0 < Clock(None, now()).hurried().until_late() < 12.0
        True
        """
        passed = now() - self.began
        end = passed + max(HURRY_S, HURRY * passed)
        return Clock(end if self.limit is None else min(self.limit, end), self.began)


class Allowance(Clock):
    """Seconds, from now, that something beside the solve may take: no grace, and no hurry; 0 is not to begin at all.

    Parameters
    ----------
    seconds : float or None
        None for no limit.

    Examples
    --------
    >>> Allowance(2.0).until_late(0.5) <= 1.0, Allowance(None).until_late() is None
    (True, True)
    """

    def __init__(self, seconds: float | None):
        super().__init__(seconds, now())

    def until_late(self, share: float = 1.0) -> float | None:
        """See the base class."""
        return None if self.limit is None else max(0.0, share * self.limit - (now() - self.began))

    def hurried(self) -> Clock:
        """See the base class."""
        return self


def in_time(
    clock: Clock, work: Callable[[], Answer], otherwise: Callable[[], Answer], share: float = 1.0
) -> Answer:
    """Return ``work()``, or ``otherwise()`` where that would be late; one interrupt or two are noted on the clock.

    Examples
    --------
    >>> clock = Clock(0.05, now() - 10.0)
    >>> in_time(clock, lambda: next(i for i in range(10**9) if i < 0), lambda: -1)
    -1
    """
    left = clock.until_late(share)
    if left == 0.0:
        return otherwise()
    with patiently() as interrupted:
        try:
            with limited(left):
                return work()
        except TimeUp:
            with unlimited():
                return otherwise()
        finally:
            clock.interrupted |= interrupted()


def best_in_time(
    clock: Clock, brief: Callable[[], Answer], long: Callable[[], Answer], *, key: Callable[[Answer], float]
) -> Answer:
    """Return the better of ``brief()``, which is made in any case, and of ``long()``, for which there may be time.

    Where what takes long comes to nothing on a large table, what was found before it is at hand.

    Examples
    --------
    >>> best_in_time(Clock(9.0, now()), lambda: 1, lambda: 2, key=float)
    2
    >>> best_in_time(Clock(0.1, now()), lambda: 1, lambda: next(i for i in iter(int, 1)), key=float)
    1
    """
    first = brief()
    return max(first, in_time(clock, long, lambda: first, share=0.0), key=key)


def pass_on(status: Status) -> None:
    """Raise the interrupt that ended a solve within a larger search, for which it was meant.

    Raises
    ------
    KeyboardInterrupt

    Examples
    --------
    >>> pass_on(Status.CERTIFIED)
    """
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt


def face_budget(name: str, clock: Clock) -> float:
    """Return as many faces as there is time for, where there are too many; a verification may take all.

    Parameters
    ----------
    name : str
        Of the solver: "column-generation with ..." where the faces are too many to be looked at one by one.
    clock : Clock
    """
    left = clock.until_late(0.0)
    if " with " not in name or left is None:
        return DEFAULT_FACE_BUDGET
    return DEFAULT_FACE_BUDGET * min(1.0, max(left, LEAST_CHECK_S) / WHOLE_CHECK_S)
