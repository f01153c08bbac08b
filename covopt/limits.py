"""Limits that hold: deadlines and interrupts that reach every loop, and work cut into pieces short enough for them.

A deadline raises :class:`TimeUp` where the main thread is (by a timer signal, so that loops and libraries in Python
need not ask), or at the next :func:`checkpoint` where there are no signals: other threads, other systems. Compiled
code hears neither; it is called in pieces by :func:`in_pieces`. Solvers catch both and return the best so far.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

from covopt.errors import CovoptError

logger = logging.getLogger("covopt")
COMPILING = "compiling, once per installation"
HALF = 0.5  # of the time that is left goes to a step that others follow
PIECE = 1 << 20  # numbers that are worked on between two looks at deadlines
# seconds that a piece of compiled work is made to take; what was swallowed meanwhile is raised again
PIECE_S = 0.1
LONGEST_S = 1e9  # that a timer of the system counts
PATIENCE = 2  # signals that are noted while results are being finished; the next one is raised
HURRY_S = 1.2  # seconds that are left after an interrupt; after another one none
WEAK = ("weakref.py", "_weakrefset.py")  # files whose callbacks are of weak references
_state = threading.local()


class TimeUp(BaseException):
    """The time is up; like KeyboardInterrupt no error, and caught where the best so far is returned."""


class Compiling:
    """Time that numba spends compiling: it comes once per installation, and no limit or timing counts it."""

    def __init__(self) -> None:
        self.spent, self.depth, self.since = 0.0, 0, 0.0
        self.spells: list[tuple[float, float]] = []  # what now() said during each one, and its seconds
        self.listening = self.announced = False
        self.announce: Callable[[str], None] = logger.info

    def listen(self) -> None:
        """Hear of every compilation from now on."""
        if self.listening:
            return
        self.listening = True
        from numba.core import event

        spent = self

        class Listener(event.Listener):
            def on_start(self, event: object) -> None:
                spent.start()

            def on_end(self, event: object) -> None:
                spent.end()

        event.register("numba:compile", Listener())

    def start(self) -> None:
        """Note that compiling begins; it may begin inside of itself."""
        self.depth += 1
        if self.depth == 1:
            self.since = time.perf_counter()
            if not self.announced:
                self.announced = True
                self.announce(COMPILING)

    def end(self) -> None:
        """Note that it ends."""
        self.depth -= 1
        if self.depth == 0:
            end = time.perf_counter()
            self.spent += end - self.since
            self.spells.append((end - self.spent, end - self.since))

    def after(self, reading: float) -> float:
        """Return the seconds spent since ``now()`` said ``reading``."""
        return sum(took for said, took in self.spells if said >= reading)


compiling = Compiling()


def announce_compilation(say: Callable[[str], None]) -> None:
    """Call ``say`` with a sentence when something is compiled, once."""
    compiling.announce = say


def now() -> float:
    """Return a clock in seconds that stands still while code is compiled.

    Examples
    --------
    >>> 0.0 <= now() - now() + 1e-3
    True
    """
    compiling.listen()
    spent = compiling.spent
    if compiling.depth:
        spent += time.perf_counter() - compiling.since
    return time.perf_counter() - spent


def _deadlines() -> list[float]:
    if not hasattr(_state, "deadlines"):
        _state.deadlines = []
    return _state.deadlines


def seconds_left() -> float:
    """Return the seconds to the nearest deadline of this thread; infinite without one.

    Examples
    --------
    >>> seconds_left()
    inf
    >>> with limited(10.0):
    ...     9.0 < seconds_left() <= 10.0
    True
    """
    deadlines = _deadlines()
    return min(deadlines) - now() if deadlines else float("inf")


def checkpoint() -> None:
    """Raise :class:`TimeUp` where a deadline of this thread is over."""
    if seconds_left() <= 0.0:
        raise TimeUp


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise :class:`TimeUp` in the block after so many seconds, or at an earlier deadline around it.

    Parameters
    ----------
    seconds : float or None
        None for no deadline of its own.

    Examples
    --------
    >>> try:
    ...     with limited(0.05):
    ...         while True:
    ...             pass
    ... except TimeUp:
    ...     print("time is up")
    time is up
    """
    if seconds is None or seconds == float("inf"):
        with _unmasked():
            yield
        return
    deadlines = _deadlines()
    outer = len(deadlines)
    deadlines.append(now() + max(seconds, 1e-6))
    timed = _has_timer()
    previous = signal.signal(signal.SIGALRM, on_alarm) if timed else None
    try:
        if timed:
            _set_timer()
        with _unmasked():
            yield
    finally:
        try:
            if timed:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
        finally:  # the alarm may have come just now, and raised
            del deadlines[outer:]
            if timed:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, previous)
            if deadlines:
                _set_timer()


@contextmanager
def _unmasked() -> Iterator[None]:
    """Raise what a signal has raised where compiled code has put an error of its own in its place, as NumPy may."""
    _state.raised = None
    try:
        yield
    except CovoptError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # of a handler that is not ours
            raise KeyboardInterrupt from error
        if _state.raised is None:
            raise
        raise _state.raised from error
    finally:
        _state.raised = None


def _has_timer() -> bool:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, on_alarm)  # else it is somebody else's


def _set_timer() -> None:
    signal.setitimer(signal.ITIMER_REAL, min(max(seconds_left(), 1e-6), LONGEST_S), PIECE_S)


def on_alarm(number: int, frame: FrameType | None) -> None:
    """Raise TimeUp where a deadline is over, but not within an import."""
    if seconds_left() <= 0.0 and not is_loading(frame):
        _state.raised = TimeUp
        raise TimeUp


def is_loading(frame: FrameType | None) -> bool:
    """Whether what is at work ends first: imports and numba, half of which is worse than none, or a weak reference.

    Of what is raised where a weak reference is dropped Python tells nobody but the standard error.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib") or f"{os.sep}numba{os.sep}" in name:
            return True
        if name.endswith(WEAK) and frame.f_code.co_name in ("remove", "_remove"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def unlimited() -> Iterator[None]:
    """Let no deadline around the block be raised in it."""
    kept = _deadlines()
    _state.deadlines = []
    try:
        yield
    finally:
        _state.deadlines = kept


def in_pieces(work: Callable[[int, int], None], count: int, *, first: int = 16, n_threads: int = 1) -> None:
    """Call ``work(start, stop)`` over 0 … count in pieces of about a tenth of a second.

    Parameters
    ----------
    work : callable
        Of a half-open range; releases the interpreter's lock where threads are to help.
    count : int
    first : int
        Length of the first piece; the others follow from what it took.
    n_threads : int
        Pieces at a time. What is running when an interrupt or a deadline comes is waited for, the rest is not begun.

    Examples
    --------
    >>> seen = []
    >>> in_pieces(lambda start, stop: seen.extend(range(start, stop)), 100)
    >>> seen == list(range(100))
    True
    """
    start, length = 0, max(1, first)
    pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
    try:
        while start < count:
            checkpoint()
            cuts = [min(start + part * length, count) for part in range(n_threads + 1)]
            began = time.perf_counter()
            if pool is None:
                work(start, cuts[-1])
            else:
                list(pool.map(work, cuts[:-1], cuts[1:]))
            took = time.perf_counter() - began
            start = cuts[-1]
            # no more than four times as long at once: the first pieces may have been cheap
            length = max(1, int(length * min(4.0, max(0.1, PIECE_S / max(took, 1e-9)))))
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def hasten(seconds: float) -> None:
    """Bring all deadlines around the caller so near.

    Examples
    --------
    >>> with limited(100.0):
    ...     hasten(1.0)
    ...     seconds_left() <= 1.0
    True
    """
    soon = now() + seconds
    _deadlines()[:] = [min(deadline, soon) for deadline in _deadlines()]
    if _deadlines() and _has_timer():
        _set_timer()


@contextmanager
def patiently(*, hurried: bool = False) -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C and the end that a batch system asks for instead of raising them, while results are finished.

    Deadlines within the block come near: the first signal leaves :data:`HURRY_S` seconds, the second none.

    Parameters
    ----------
    hurried : bool
        Whether an interrupt came before, so that the first signal is the second one.

    Yields
    ------
    callable
        Whether a signal has come. The third one is raised: somebody means it.

    Examples
    --------
    >>> with patiently() as interrupted:
    ...     before = interrupted()
    ...     signal.raise_signal(signal.SIGINT)
    ...     before, interrupted()
    (False, True)
    """
    seen = 0

    def note(number: int, frame: object) -> None:
        nonlocal seen
        seen += 1
        if seen > PATIENCE:
            raise KeyboardInterrupt
        hasten(HURRY_S if seen == 1 and not hurried else 0.0)

    ours: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) in INTERRUPTS:
                ours[number] = signal.signal(number, note)
    try:
        yield lambda: seen > 0
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; where an import or numba is at work, when that has ended."""
    if not is_loading(frame):
        _state.raised = KeyboardInterrupt
        signal.default_int_handler(number, frame)
    again = threading.Timer(PIECE_S, signal.raise_signal, (number,))
    again.daemon = True
    again.start()


INTERRUPTS = (signal.default_int_handler, interrupt)


@contextmanager
def ends_like_an_interrupt() -> Iterator[None]:
    """Treat SIGTERM, which batch systems send, as Ctrl-C in the block, and let neither break what numba loads."""
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is usual:
                before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
