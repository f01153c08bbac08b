"""Independent tasks through joblib, on one machine or a cluster with the same call; and BLAS on one thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from covopt.errors import InputError

if TYPE_CHECKING:
    import numpy as np


def available_threads() -> int:
    """Return the number of processors that this process may use, at most ``OMP_NUM_THREADS`` if that is set.

    Examples
    --------
    >>> available_threads() >= 1
    True
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(allowed, int(asked))) if asked.isdigit() else allowed


def check_n_jobs(n_jobs: int) -> int:
    """Return ``n_jobs`` as an int, or raise :class:`~covopt.errors.InputError`."""
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or int(n_jobs) == 0:
        raise InputError(
            f"n_jobs must be a nonzero integer (-1 for all cores, 1 for no parallelism), got {n_jobs!r}"
        )
    return int(n_jobs)


def map_tasks(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    *,
    n_jobs: int = 1,
    shared: tuple[np.ndarray, ...] = (),
) -> Iterator[Any]:
    """Yield ``function(*shared, *task)`` for every task, in the order of the tasks.

    Results are yielded as they arrive, so that only a few of them are in memory at a time. Inside
    ``joblib.parallel_config(backend="dask")`` joblib sends the tasks to the Dask cluster.

    Parameters
    ----------
    function : callable
        Must be picklable (a function of a module) when ``n_jobs`` is not 1.
    tasks : iterable of tuple
        Positional arguments of each call.
    n_jobs : int
        1 runs in this process; otherwise as in joblib.
    shared : tuple of ndarray
        First arguments of every call.

    Yields
    ------
    object
        The results.

    Raises
    ------
    InputError
        If ``n_jobs`` is not a nonzero integer.

    Examples
    --------
    >>> list(map_tasks(pow, [(2, 3), (3, 2)]))
    [8, 9]
    """
    n_jobs = check_n_jobs(n_jobs)
    if n_jobs == 1:
        for task in tasks:
            yield function(*shared, *task)
        return
    from joblib import Parallel, delayed

    # pre_dispatch bounds the results in flight, and with them the memory
    run = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs")
    yield from run(delayed(function)(*shared, *task) for task in tasks)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread in the block; libraries are searched for once, which takes a millisecond or two.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Return the controller of the loaded libraries; cached until another module is imported."""
    return ThreadpoolController()
