"""Where the time of a solve goes: seconds by stage, each second counted once and compilation apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar

from covopt.limits import compiling, now

PREPARING, REST = "preparing", "rest"
COMPILING = "compiling"


class Stopwatch:
    """Seconds by stage; a stage within another one stops the outer one's clock.

    Parameters
    ----------
    began : float
        Reading of ``covopt.limits.now()`` from which on time counts: as ``preparing`` to the first stage (imports,
        checks, reductions), as ``rest`` where none is entered later.

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
        """Return the seconds so far, longest first; ``compiling`` is no part of the others."""
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
