"""Log messages of solvers through the logger ``covopt``, and their seconds by stage.

Rounds are logged at DEBUG, results at INFO. Each second is counted once; compilation is counted separately.

Each record has an event for programs besides its text: :class:`JsonLines` writes one JSON object for each line.
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from covopt.errors import CovoptWarning, InputError
from covopt.limits import compiling, now

logger = logging.getLogger("covopt")
_levels: dict[logging.Handler, int] = {}  # level of the logger before each handler was added
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


def log_event(level: int, text: str, event: str, **values: Any) -> None:
    """Log a text for people and an event for programs.

    Parameters
    ----------
    level : int
        Of :mod:`logging`.
    text : str
    event : str
        Its kind: ``round`` and ``iteration`` of a solve, ``boxes``, ``bound``, ``attempt``, ``part``, ``steps`` and
        ``check`` of other long work, ``note``, ``timings``, and ``result`` at the end.
    **values
        Numbers and texts of the event.
    """
    if logger.isEnabledFor(level):
        logger.log(level, "%s", text, extra={"event": {"event": event, **values}})


def log_timings(solution: Any) -> None:
    """Log where the time of a solve went.

    Parameters
    ----------
    solution : Solution or DeepSolution
    """
    log_event(logging.DEBUG, described(solution.timings), "timings", seconds=solution.timings)


def log_result(solution: Any) -> None:
    """Log what a solve found and where its time went.

    Parameters
    ----------
    solution : Solution
    """
    log_timings(solution)
    log_found(
        solution, repr(solution), objective=solution.objective, lower_bound=solution.lower_bound, gap=solution.gap,
        n_neurons=len(solution.network), lam=solution.lam, solver=solution.solver, rounds=len(solution.history),
    )  # fmt: skip


def log_bound(depth: int, entry: dict[str, Any]) -> None:
    """Log a bound on the norm or the objective of a deep network.

    Parameters
    ----------
    depth : int
    entry : dict
        Of its history: side, value, source, time_s.
    """
    text = f"depth {depth}: {entry['side']} bound {entry['value']:.8g} by {entry['source']}"
    log_event(logging.DEBUG, text, "bound", depth=depth, **entry)


def log_found(found: Any, text: str, **values: Any) -> None:
    """Log a result with its status and time.

    Parameters
    ----------
    found : Solution, DeepSolution, DeepFit or CPRankCertificate
    text : str
    **values
        Numbers of the event.
    """
    log_event(logging.INFO, text, "result", status=found.status.code, **values, time_s=found.time_s)


class JsonLines(logging.Formatter):
    """Format a record as a line of JSON: ``time`` (UTC, ISO 8601), ``level``, ``event`` and its values.

    Numbers that are not finite become null.

    Examples
    --------
    >>> record = logging.LogRecord("covopt", logging.INFO, "", 0, "found %d", (3,), None)
    >>> line = json.loads(JsonLines().format(record))
    >>> line["level"], line["event"], line["text"]
    ('info', 'message', 'found 3')
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        event = getattr(record, "event", None) or {"event": "message", "text": record.getMessage()}
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(
            timespec="milliseconds"
        )
        line = {"time": time, "level": record.levelname.lower(), **event}
        return json_line(line)


def json_line(content: dict[str, Any]) -> str:
    """Return an object as a line of JSON, by :func:`plain`."""
    return json.dumps(plain(content), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value as JSON types: numbers that are not finite become null, other objects strings."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


class _LogFile(logging.FileHandler):
    """A log file that warns once if it cannot be written, as on a full disk, and ends there."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Warn, and remove the handler."""
        error = sys.exc_info()[1]
        logger.removeHandler(self)
        reason = getattr(error, "strerror", None) or error
        warnings.warn(
            f"the log {self.baseFilename} cannot be written: {reason}; it ends here.",
            CovoptWarning,
            stacklevel=2,
        )

    def close(self) -> None:
        """Close the file; records that could not be written are lost."""
        with suppress(OSError):
            super().close()


def write_events(path: str | os.PathLike[str]) -> logging.Handler:
    """Append every event to a file from now on, as a line of JSON that is flushed at once.

    Parameters
    ----------
    path : path-like
        ``-`` for standard error.

    Returns
    -------
    logging.Handler

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    if str(path) == "-":
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
    else:
        try:
            handler = _LogFile(Path(path), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"cannot write the log {path}: {reason}; choose another file.") from None
    handler.setFormatter(JsonLines())
    return _heard(handler, logging.DEBUG)


def _heard(handler: logging.Handler, level: int) -> logging.Handler:
    handler.setLevel(level)
    logger.addHandler(handler)
    _levels[handler] = logger.level
    logger.setLevel(min(level, logger.level or level))
    return handler


def stop_log(handler: logging.Handler) -> None:
    """Remove a handler of :func:`start_log` or :func:`write_events`, and restore the level of the logger."""
    logger.removeHandler(handler)
    logger.setLevel(_levels.pop(handler, logging.NOTSET))
    handler.close()


@contextmanager
def logged(verbose: int = 0) -> Iterator[None]:
    """Show log messages on standard error while the block runs.

    Parameters
    ----------
    verbose : int
        0 changes nothing: messages go where the caller's configuration sends them; 1 shows results, 2 rounds too.

    Examples
    --------
    >>> with logged(0):
    ...     logger.info("nobody hears this")
    """
    if not verbose:
        yield
        return
    handler = start_log(verbose)
    try:
        yield
    finally:
        stop_log(handler)


def start_log(verbose: int) -> logging.Handler:
    """Show log messages on standard error from now on.

    Parameters
    ----------
    verbose : int
        1 or 2, as in :func:`logged`.

    Returns
    -------
    logging.Handler
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("covopt %(message)s"))
    return _heard(handler, LEVELS[min(int(verbose), 2)])


def spinner(text: str, enabled: bool) -> Any:
    """Return a spinner with a text and the time; it shows nothing unless standard error is a terminal.

    Parameters
    ----------
    text : str
    enabled : bool

    Returns
    -------
    rich.progress.Progress
        With one task.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    shown = enabled and sys.stderr.isatty()
    found = Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown)
    found.add_task(text, total=None)
    return found


PREPARING, REST = "preparing", "rest"
COMPILING = "compiling"


class Stopwatch:
    """Seconds by stage; while an inner stage runs, the clock of the outer one stands still.

    Parameters
    ----------
    began : float
        Reading of ``covopt.limits.now()`` at the start. Time before the first stage counts as ``preparing`` (imports,
        checks, reductions), later time outside of stages as ``rest``.

    Examples
    --------
    >>> watch = Stopwatch(now())
    >>> watch.enter("pricing")
    >>> watch.leave()
    >>> sorted(watch.seconds())
    ['preparing', 'pricing', 'rest']
    """

    def __init__(self, began: float):
        self._seconds: dict[str, float] = {}
        self._entered = [PREPARING]
        self._began = self._since = began

    def _charge(self) -> None:
        time = now()
        name = self._entered[-1]
        self._seconds[name] = self._seconds.get(name, 0.0) + time - self._since
        self._since = time

    def enter(self, name: str) -> None:
        """Begin a stage."""
        self._charge()
        self._entered[0] = REST
        self._entered.append(name)

    def leave(self) -> None:
        """End the stage that began last."""
        self._charge()
        self._entered.pop()

    def seconds(self) -> dict[str, float]:
        """Return the seconds so far in decreasing order; ``compiling`` is not part of the others."""
        self._charge()
        compiled = compiling.after(self._began)
        found = dict(sorted(self._seconds.items(), key=lambda item: -item[1]))
        return {**found, COMPILING: compiled} if compiled > 0.0 else found


_running: ContextVar[Stopwatch | None] = ContextVar("running", default=None)


@contextmanager
def timing(began: float) -> Iterator[Stopwatch]:
    """Count the stages of the block from a reading of ``covopt.limits.now()`` on.

    Examples
    --------
    >>> with timing(now()) as watch:
    ...     with stage("pricing"):
    ...         pass
    >>> sorted(watch.seconds())
    ['preparing', 'pricing', 'rest']
    """
    watch = Stopwatch(began)
    token = _running.set(watch)
    try:
        yield watch
    finally:
        _running.reset(token)


class stage(ContextDecorator):
    """Count the block, or as a decorator every call of a function, as a stage of the solve around it.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        if (watch := _running.get()) is not None:
            watch.enter(self.name)

    def __exit__(self, *failure: object) -> None:
        if (watch := _running.get()) is not None:
            watch.leave()


def described(seconds: dict[str, float]) -> str:
    """Return the seconds by stage in a line.

    Examples
    --------
    >>> described({"pricing": 1.5, "rest": 0.25})
    'pricing 1.50 s, rest 0.25 s'
    """
    return ", ".join(f"{name} {spent:.2f} s" for name, spent in seconds.items())
