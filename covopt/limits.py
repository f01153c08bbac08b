"""Time limits: deadlines and interrupts that reach every loop, and work cut into pieces that are short enough.

In the main thread a timer signal raises :class:`TimeUp` at a deadline, so that loops and libraries in Python need no
checks. In other threads, and on systems without signals, the next :func:`checkpoint` raises it. Compiled code sees
neither and is called in pieces by :func:`in_pieces`. Solvers catch both and return the best result so far.
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
HALF = 0.5  # share of the time left for a step that others follow
PIECE = 1 << 20  # numbers processed between two checks of deadlines
# things of which all subsets are listed: as many as together hold a piece
MOST_LISTED = max(n for n in range(PIECE.bit_length()) if n << n <= PIECE)
# target duration of a piece of compiled work; also the interval at which the timer raises TimeUp again
PIECE_S = 0.1
HURRY_S = 1.2  # seconds left after a first interrupt; after the second there are none
WEAK = ("weakref.py", "_weakrefset.py")  # files of the callbacks of weak references
_state = threading.local()


class TimeUp(BaseException):
    """The time is up. Like KeyboardInterrupt it is no error; solvers catch it and return the best so far."""


class Compiling:
    """Time that numba spends compiling: it is spent once per installation, and no limit or timing counts it."""

    def __init__(self) -> None:
        self.spent, self.depth, self.since = 0.0, 0, 0.0
        self.spells: list[tuple[float, float]] = []  # now() during each compilation, and its seconds
        self.listening = self.announced = False
        self.announce: Callable[[str], None] = logger.info

    def listen(self) -> None:
        """Register a listener for every compilation from now on."""
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
        """Record that a compilation begins; compilations may be nested."""
        self.depth += 1
        if self.depth == 1:
            self.since = time.perf_counter()
            if not self.announced:
                self.announced = True
                self.announce(COMPILING)

    def end(self) -> None:
        """Record that it ends."""
        self.depth -= 1
        if self.depth == 0:
            end = time.perf_counter()
            self.spent += end - self.since
            self.spells.append((end - self.spent, end - self.since))

    def after(self, reading: float) -> float:
        """Return the seconds spent compiling since ``now()`` returned ``reading``."""
        return sum(took for said, took in self.spells if said >= reading)


compiling = Compiling()


def announce_compilation(say: Callable[[str], None]) -> None:
    """Call ``say`` with a message at the first compilation."""
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
    """Raise :class:`TimeUp` if a deadline of this thread has passed."""
    if seconds_left() <= 0.0:
        raise TimeUp


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise :class:`TimeUp` in the block after this many seconds, or at an earlier deadline around it.

    Parameters
    ----------
    seconds : float or None
        None sets no deadline; infinity sets one that :func:`hasten` may move.

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
    if seconds is None:
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
        finally:  # the alarm may have been raised just now
            del deadlines[outer:]
            if timed:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, previous)
            if deadlines:
                _set_timer()


@contextmanager
def _unmasked() -> Iterator[None]:
    """Raise the exception of a signal again if compiled code, such as NumPy, has replaced it by its own error."""
    _state.raised = None
    try:
        yield
    except CovoptError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # from a handler that is not covopt's
            raise KeyboardInterrupt from error
        if _state.raised is None:
            raise
        raise _state.raised from error
    finally:
        _state.raised = None


def _has_timer() -> bool:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, on_alarm)  # else other code uses it


def _set_timer() -> None:
    signal.setitimer(signal.ITIMER_REAL, min(max(seconds_left(), 1e-6), threading.TIMEOUT_MAX), PIECE_S)


def on_alarm(number: int, frame: FrameType | None) -> None:
    """Raise TimeUp if a deadline has passed, but not within an import."""
    if seconds_left() <= 0.0 and not is_loading(frame):
        _state.raised = TimeUp
        raise TimeUp


def is_loading(frame: FrameType | None) -> bool:
    """Return whether the frame must finish first: an import, numba or the callback of a weak reference.

    A half-finished import is worse than none, and Python only prints what such a callback raises.
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
    """Suspend the deadlines around the block while it runs."""
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
        Called with a half-open range; must release the GIL for threads to help.
    count : int
    first : int
        Length of the first piece; later lengths follow from the time taken.
    n_threads : int
        Pieces at a time. At an interrupt or a deadline the running pieces are finished and no other one begins.

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
            # grow by at most a factor of four: the first pieces may have been cheap
            length = max(1, int(length * min(4.0, max(0.1, PIECE_S / max(took, 1e-9)))))
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)


def hasten(seconds: float) -> None:
    """Move all deadlines around the caller to at most this many seconds from now.

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
def defer_interrupts(*, hurried: bool = False) -> Iterator[Callable[[], bool]]:
    """Record SIGINT and SIGTERM, the signals of Ctrl-C and batch systems, without raising them, in the block.

    Deadlines within the block are shortened: the first signal leaves :data:`HURRY_S` seconds, the second none.

    Parameters
    ----------
    hurried : bool
        Whether an interrupt came before the block, so that the first signal counts as the second.

    Yields
    ------
    callable
        Returns whether a signal has arrived. The third one raises KeyboardInterrupt.

    Examples
    --------
    >>> with defer_interrupts() as interrupted:
    ...     before = interrupted()
    ...     signal.raise_signal(signal.SIGINT)
    ...     before, interrupted()
    (False, True)
    """
    remaining = [0.0 if hurried else HURRY_S, 0.0]  # seconds after each signal

    def note(number: int, frame: object) -> None:
        if not remaining:
            raise KeyboardInterrupt
        hasten(remaining.pop(0))

    ours: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) in INTERRUPTS:
                ours[number] = signal.signal(number, note)
    try:
        yield lambda: len(remaining) < 2
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import or in numba, wait until that has finished."""
    if not is_loading(frame):
        _state.raised = KeyboardInterrupt
        signal.default_int_handler(number, frame)
    again = threading.Timer(PIECE_S, signal.raise_signal, (number,))
    again.daemon = True
    again.start()


INTERRUPTS = (signal.default_int_handler, interrupt)


@contextmanager
def ends_like_an_interrupt() -> Iterator[None]:
    """Treat SIGTERM, which batch systems send, as Ctrl-C in the block; neither interrupts numba while it loads."""
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
