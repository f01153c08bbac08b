"""A Dask cluster as a place for parts of the work: what is sent, what comes back, what happens when it is lost.

The switch is joblib's: inside ``joblib.parallel_config(backend="dask")`` every part that is worth a message goes out.
Parts are the same ones, joined in the same order, as on one machine, so that the answer is the same to the last bit.
A worker that dies loses nothing: Dask computes its parts again. So it does with arrays that were sent once, which are
tasks to it.
"""

from __future__ import annotations

import pickle
import sys
import time
import uuid
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from covopt.errors import ClusterLost, ClusterWarning

if TYPE_CHECKING:
    import numpy as np

AHEAD = 2  # parts for each thread of the cluster, that are sent before the first is back
POLL_S = 1.0  # seconds between two looks at the cluster while a part is waited for
SILENT_S = 10.0  # seconds without a scheduler, after which it counts as lost
EMPTY_S = 60.0  # the same without any worker
COUNTED_S = 2.0  # seconds for which a count of the threads is good


class Cluster:
    """A connected ``distributed.Client`` and what it has been given.

    Parameters
    ----------
    client : distributed.Client

    Attributes
    ----------
    lost : bool
        Whether the scheduler or all workers have gone; then nothing is sent any more.
    """

    def __init__(self, client: Any):
        self.client = client
        self.lost = False
        self._shared: dict[int, tuple[Any, Any]] = {}
        self._counted, self._threads = -COUNTED_S, 1

    @property
    def n_threads(self) -> int:
        """Threads of all workers, at least one."""
        if time.monotonic() > self._counted + COUNTED_S:
            self._threads = max(1, sum(self._ask(self.client.nthreads).values()))
            self._counted = time.monotonic()
        return self._threads

    def share(self, array: np.ndarray) -> Any:
        """Send an array out, once in its life; it must not be changed afterwards.

        Returns
        -------
        distributed.Future
        """
        place = id(array)
        known = self._shared.get(place)
        if known is not None and known[0]() is array:
            return known[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # large, and sent once
            future = self._ask(self.client.submit, _given, array, key=f"covopt-data-{uuid.uuid4().hex}")
        self._shared[place] = weakref.ref(array, lambda _: self._shared.pop(place, None)), future
        return future

    def map(
        self,
        function: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        shared: tuple[np.ndarray, ...] = (),
    ) -> Iterator[Any]:
        """Yield ``function(*shared, *task)`` for every task, in the order of the tasks; see :func:`map_tasks`.

        Raises
        ------
        ClusterLost
            When the scheduler does not answer, all workers have gone, or a part ends every worker that takes it.
        """
        given = [self.share(array) for array in shared]
        waiting: deque[Any] = deque()
        for group in self._groups(tasks):
            # one string of bytes: Dask would take every array of a task for a message of its own
            message = pickle.dumps((function, group), protocol=pickle.HIGHEST_PROTOCOL)
            waiting.append(self._ask(self.client.submit, _called, message, *given, key=_key(function)))
            if len(waiting) >= AHEAD * self.n_threads:
                yield from self._result(waiting.popleft())
        while waiting:
            yield from self._result(waiting.popleft())

    def _groups(self, tasks: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        """Put tasks that wait for one another into messages; one each where their number is not known."""
        if not isinstance(tasks, Sequence):
            yield from ([task] for task in tasks)
            return
        begin = 0
        for size in guided(len(tasks), self.n_threads):
            yield list(tasks[begin : begin + size])
            begin += size

    def spread(
        self,
        function: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        shared: tuple[np.ndarray, ...] = (),
    ) -> Iterator[Any]:
        """:meth:`map` for the parts of a solve, which has a bracket to keep: a loss is also told, as a warning."""
        try:
            yield from self.map(function, tasks, shared)
        except ClusterLost as error:
            warnings.warn(f"{error}; the best bracket so far is kept.", ClusterWarning, stacklevel=2)
            raise

    def _result(self, future: Any) -> Any:
        from distributed.scheduler import KilledWorker

        silent = empty = None
        while True:
            try:
                return pickle.loads(future.result(timeout=POLL_S))
            except KilledWorker as error:
                raise self._lose(
                    f"a part of the work ended every worker that took it ({str(error).partition('.')[0]}): give "
                    "workers more memory"
                ) from None
            except CancelledError:
                raise self._lose("its scheduler is gone") from None
            except TimeoutError:
                now = time.monotonic()
                running = self.client.status == "running"
                silent = None if running else silent or now
                if silent is not None and now - silent > SILENT_S:
                    raise self._lose("its scheduler does not answer any more") from None
                if running:
                    empty = None if self._ask(self.client.nthreads) else empty or now
                if empty is not None and now - empty > EMPTY_S:
                    raise self._lose("it has no worker left") from None

    def _ask(self, what: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method of the client, which raises what its connection raises."""
        try:
            return what(*arguments, **options)
        except (OSError, RuntimeError, TimeoutError):  # closed, or within the next seconds
            raise self._lose("its scheduler is gone") from None

    def _lose(self, why: str) -> ClusterLost:
        self.lost = True
        return ClusterLost(f"the Dask cluster was lost: {why}")


def guided(count: int, n_threads: int) -> list[int]:
    """Return how many tasks go into each message: many at first, for a message has its price; one by one in the end.

    Examples
    --------
    >>> guided(16, 2)
    [4, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    >>> guided(3, 100)
    [1, 1, 1]
    """
    sizes = []
    while count:
        sizes.append(max(1, count // (2 * n_threads)))
        count -= sizes[-1]
    return sizes


_clusters: weakref.WeakKeyDictionary[Any, Cluster] = weakref.WeakKeyDictionary()


def active_cluster() -> Cluster | None:
    """Return the cluster of ``joblib.parallel_config(backend="dask")`` around the caller, None without one.

    Examples
    --------
    >>> active_cluster() is None
    True
    """
    if "distributed" not in sys.modules:  # then nobody can have connected
        return None
    from joblib.parallel import get_active_backend

    client = getattr(get_active_backend()[0], "client", None)
    if client is None:
        return None
    if client not in _clusters:
        _clusters[client] = Cluster(client)
    cluster = _clusters[client]
    return None if cluster.lost else cluster


def _given(array: np.ndarray) -> np.ndarray:
    return array


def _called(message: bytes, *shared: np.ndarray) -> bytes:
    """Call the function of a message with each of its tasks, on a worker; answer in bytes."""
    function, tasks = pickle.loads(message)
    return pickle.dumps([function(*shared, *task) for task in tasks], protocol=pickle.HIGHEST_PROTOCOL)


def _key(function: Callable[..., Any]) -> str:
    return f"covopt-{function.__name__.strip('_')}-{uuid.uuid4().hex}"
