"""What solvers say while they run, through the logger ``covopt``: rounds at DEBUG, results at INFO."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("covopt")
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def round_line(state: Any) -> str:
    """Return one line about a round.

    Parameters
    ----------
    state : RoundState
    """
    return (
        f"round {state.round}: {state.lower_bound:.8g} <= minimum <= {state.upper_bound:.8g}, gap {state.gap:.1e}, "
        f"{state.n_columns} columns, {state.time_s:.2f} s"
    )


@contextmanager
def speaking(verbose: int = 0) -> Iterator[None]:
    """Show what is logged on standard error while the block runs.

    Parameters
    ----------
    verbose : int
        0 changes nothing, and what is logged goes where the caller's logging sends it; 1 shows results, 2 rounds too.

    Examples
    --------
    >>> with speaking(0):
    ...     logger.info("nobody hears this")
    """
    if not verbose:
        yield
        return
    before = logger.level
    handler = listen(verbose)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def listen(verbose: int) -> logging.Handler:
    """Show what is logged on standard error from now on.

    Parameters
    ----------
    verbose : int
        1 or 2, as in :func:`speaking`.

    Returns
    -------
    logging.Handler
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("covopt %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(LEVELS[min(int(verbose), 2)])
    return handler
