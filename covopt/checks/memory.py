"""Memory limits, and the messages about work that would exceed them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from covopt.checks.validation import check_number
from covopt.errors import BudgetError, InputError, MemoryLimitWarning
from covopt.limits import PIECE, TimeUp

SHARE = 0.8  # default limit, as a share of the free memory
GIB = 1 << 30
SMALL = 16 * PIECE  # bytes that are never checked


def free_bytes() -> int:
    """Return how many bytes this process may still take; without limit where the system does not say.

    Examples
    --------
    >>> free_bytes() > 0
    True
    """
    free = sys.maxsize
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    for limit, used in (  # of a container, if there is one
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            left = int(Path(limit).read_text(encoding="ascii")) - int(Path(used).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        free = min(free, max(left, 0))
    return free


def limit_bytes(memory_limit_gib: float | None) -> int:
    """Return the given limit in bytes, by default four fifths of the free memory.

    Raises
    ------
    InputError
        If the limit is not a positive number.

    Examples
    --------
    >>> limit_bytes(2.0)
    2147483648
    """
    if memory_limit_gib is None:
        return int(SHARE * free_bytes())
    rule = "a positive number of GiB"
    return int(GIB * check_number("memory_limit", memory_limit_gib, rule, lambda v: 0 < v < 1e9))


def plan(
    needed: float,
    advice: str,
    *,
    what: str = "this",
    error: type[InputError] | type[BudgetError] = InputError,
    limit: int | None = None,
) -> None:
    """Refuse work that needs more bytes than the limit, before it begins.

    Parameters
    ----------
    needed : float
    advice, what : str
        What to do instead, and the subject of the message.
    error : type
        The error to raise: a :class:`~covopt.errors.BudgetError` for work that callers can replace.
    limit : int, optional
        By default :func:`memory_left`.

    Raises
    ------
    InputError or BudgetError

    Examples
    --------
    >>> plan(3e9, "Use fewer rows.", limit=1 << 30)
    Traceback (most recent call last):
    covopt.errors.InputError: this needs about 2.8 GiB of memory; the limit is 1 GiB. Use fewer rows.
    """
    limit = memory_left(needed) if limit is None else limit
    if needed > limit:
        raise error(f"{what} needs about {_gib(needed)} of memory; the limit is {_gib(limit)}. {advice}")


def _gib(size: float) -> str:
    return f"{size / GIB:,.0f} GiB" if size > 10 * GIB else f"{size / GIB:.2g} GiB"


_limit: ContextVar[int | None] = ContextVar("memory limit", default=None)


@contextmanager
def memory_limited(memory_limit_gib: float | None) -> Iterator[None]:
    """Limit the memory planned in the block; None for four fifths of the free memory at each plan.

    Parameters
    ----------
    memory_limit_gib : float, optional

    Raises
    ------
    InputError
        If the limit is not a positive number.

    Examples
    --------
    >>> with memory_limited(2.0):
    ...     memory_left()
    2147483648
    """
    token = _limit.set(None if memory_limit_gib is None else limit_bytes(memory_limit_gib))
    try:
        yield
    finally:
        _limit.reset(token)


def memory_left(needed: float = float("inf")) -> int:
    """Return the memory limit in bytes: that of the block around the caller, else four fifths of the free memory.

    Parameters
    ----------
    needed : float
        Bytes that the caller needs. If they are few and no limit was given, the free memory is not read, which takes
        as long as ten thousand cells.

    Examples
    --------
    >>> memory_left() > 0, memory_left(1000) == SMALL
    (True, True)
    """
    limit = _limit.get()
    if limit is not None:
        return limit
    return SMALL if needed <= SMALL else limit_bytes(None)


class NoRoom(TimeUp):
    """Growing data would exceed the memory limit; as when the time is up, solvers return the best result so far."""


def gives_way(needed: float, what: str, instead: str) -> bool:
    """Return whether work would exceed the memory limit; a warning then names what is done instead.

    Parameters
    ----------
    needed : float
    what, instead : str
        The work, and what is done instead.

    Warns
    -----
    MemoryLimitWarning

    Examples
    --------
    >>> gives_way(1e3, "this", "that takes its place")
    False
    """
    if needed <= (limit := memory_left(needed)):
        return False
    warnings.warn(
        f"{what} needs about {_gib(needed)} of memory; the limit is {_gib(limit)}: {instead}.",
        MemoryLimitWarning,
        stacklevel=4,
    )
    return True


def room(most: float, share: float = 0.25) -> int:
    """Return how many bytes a search may use that gets better with more: ``most``, or a share of the limit.

    Examples
    --------
    >>> with memory_limited(1.0):
    ...     room(1e6), room(1e12) == 1 << 28
    (1000000, True)
    """
    return int(most) if most <= SMALL else int(min(most, share * memory_left()))


def check_room(held: float, more: float, what: str) -> None:
    """Raise :class:`NoRoom`, with a warning, if growing data would exceed the memory limit.

    Parameters
    ----------
    held, more : float
        Bytes in use, and additional bytes to be allocated.
    what : str
        Name of the data, for the warning.

    Warns
    -----
    MemoryLimitWarning

    Examples
    --------
    >>> check_room(0.0, 1e3, "this")
    """
    given = _limit.get()
    if given is None and more <= SMALL:
        return
    # a limit of the user counts all bytes, that of the machine only additional ones
    needed, limit = (more, limit_bytes(None)) if given is None else (held + more, given)
    if needed > limit:
        warnings.warn(
            f"{what} would take {_gib(needed)} of memory; the limit is {_gib(limit)}: it ends with "
            "the best bracket so far.",
            MemoryLimitWarning,
            stacklevel=4,
        )
        raise NoRoom
