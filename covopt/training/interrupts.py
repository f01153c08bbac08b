"""Ctrl-C between the steps: a batch that is being judged or stored is not left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from covopt.limits import INTERRUPTS


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], bool]]:
    """Note the first Ctrl-C or SIGTERM instead of raising it, and yield a function that tells; a second is raised.

    Where Ctrl-C is somebody else's (another handler, another thread) it stays theirs.

    Examples
    --------
    >>> with noted_interrupts() as interrupted:
    ...     before = interrupted()
    ...     signal.raise_signal(signal.SIGINT)
    ...     before, interrupted()
    (False, True)
    """
    seen = False

    def note(number: int, frame: Any) -> None:
        nonlocal seen
        if seen:
            signal.default_int_handler(number, frame)
        seen = True

    ours: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) in INTERRUPTS:
                ours[number] = signal.signal(number, note)
    try:
        yield lambda: seen
    finally:
        for number, before in ours.items():
            signal.signal(number, before)
