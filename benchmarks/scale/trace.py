"""A run in parts, recorded in this process, and how long a cluster of any size would take for it."""

from __future__ import annotations

import heapq
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import covopt.parallel.cluster as clusters


class Part(NamedTuple):
    """Processor seconds of a part, and the bytes of its message and of its answer."""

    seconds: float
    sent: int
    returned: int


class Trace:
    """Stands for a cluster: computes every part here, and notes it.

    Attributes
    ----------
    rounds : list of list of Part
        Parts of one call can run side by side, calls cannot.
    here : float
        Processor seconds outside of parts.
    shared : int
        Bytes of arrays that go out once.
    """

    lost = False

    def __init__(self) -> None:
        self.rounds: list[list[Part]] = []
        self.here, self.shared = 0.0, 0
        self._known: set[int] = set()

    def map(self, function: Callable[..., Any], tasks: Any, shared: tuple[Any, ...] = ()) -> Iterator[Any]:
        for array in shared:
            if id(array) not in self._known:
                self._known.add(id(array))
                self.shared += array.nbytes
        self.rounds.append([])
        parts = self.rounds[-1]
        for task in tasks:
            sent = len(pickle.dumps(task, protocol=5))
            began = time.process_time()
            answer = function(*shared, *task)
            seconds = time.process_time() - began
            parts.append(Part(seconds, sent, len(pickle.dumps(answer, protocol=5))))
            yield answer

    spread = map

    def record(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` with every part noted."""
        found = [module for name, module in list(sys.modules.items()) if name.startswith("covopt.")]
        own = {"active_cluster": lambda: self, "spread_over_cluster": lambda: self.spread}
        kept = [(m, name, getattr(m, name)) for m in found for name in own if hasattr(m, name)]
        for module, name, _ in kept:
            setattr(module, name, own[name])
        began = time.process_time()
        try:
            answer = work()
        finally:
            for module, name, value in kept:
                setattr(module, name, value)
        self.here = time.process_time() - began - sum(part.seconds for parts in self.rounds for part in parts)
        return answer

    @property
    def parts(self) -> list[Part]:
        return [part for parts in self.rounds for part in parts]

    def messages(self, workers: int) -> list[list[int]]:
        """Return how many parts go into each message of each round."""
        return [clusters.guided(len(parts), workers) for parts in self.rounds]


class Network(NamedTuple):
    """What messages cost: seconds at the scheduler for each part, seconds under way, the client's bytes a second."""

    dispatch_s: float = 5e-3
    latency_s: float = 1e-3
    bytes_per_s: float = 1e9


def simulate(trace: Trace, workers: int, network: Network | None = None) -> float:
    """Return the seconds that ``workers`` threads take for a recorded run.

    Parts are put into messages and handed out in their order to whoever is free, at most ``AHEAD`` for each worker
    before the first is back, as :class:`covopt.parallel.cluster.Cluster` does; messages go through the client one
    after the other.
    """
    network = network or Network()
    now = trace.here + trace.shared / network.bytes_per_s
    for parts in trace.rounds:
        free = [now] * workers  # when each worker is
        heapq.heapify(free)
        link, ends = now, []
        begin = 0
        for place, size in enumerate(clusters.guided(len(parts), workers)):
            group = parts[begin : begin + size]
            begin += size
            ahead = place - clusters.AHEAD * workers
            if ahead >= 0:
                link = max(link, ends[ahead])
            link += (
                network.dispatch_s + sum(part.sent + part.returned for part in group) / network.bytes_per_s
            )
            began = max(heapq.heappop(free), link + network.latency_s)
            end = began + sum(part.seconds for part in group)
            heapq.heappush(free, end)
            ends.append(max(end + network.latency_s, ends[-1] if ends else 0.0))
        now = max([now, *ends])
    return now
