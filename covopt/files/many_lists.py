"""Lists in hundreds of thousands, made without the collector of cycles, which would look at all again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def many_lists() -> Iterator[None]:
    """Let the block make many lists that hold no cycles: reading and writing a large solution takes half the time.

    Examples
    --------
    >>> with many_lists():
    ...     gc.isenabled()
    False
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
